"""A site that claims very many scores is named: in a warning, in the certificate, in the report."""

from __future__ import annotations

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.errors import HeavySiteWarning
from fedconformal.summaries.exact import ExactSummary
from tests.contracts.tools import maybe_infeasible


def names(sizes: list[int], guarantee: fc.Guarantee | None = None) -> list[str]:
    sites = [ExactSummary(values=np.zeros(n), sizes=(n,), sites=(f"s{k}",)) for k, n in enumerate(sizes)]
    with maybe_infeasible():
        return list(fc.calibrate(sites, guarantee=guarantee or fc.Mixture()).certificate.heavy_sites)


def test_who_is_heavy() -> None:
    assert names([30] * 30 + [10_000]) == ["s30"]
    assert names([100, 100, 199]) == []
    assert names([100, 100, 201]) == ["s2"]  # more than half
    assert names([10] * 40 + [100]) == []
    assert names([10] * 40 + [101]) == ["s40"]  # more than ten times the median
    assert names([60, 40]) == []
    assert names([10, 100]) == []
    assert names([10, 101]) == ["s1"]
    assert names([5]) == []


@pytest.mark.parametrize("guarantee", [fc.Mixture(weights="uniform"), fc.NewSite(), fc.EverySite()], ids=str)
def test_where_sites_do_not_weigh_by_their_claim_nobody_is(guarantee: fc.Guarantee) -> None:
    assert names([10, 10, 10**4], guarantee) == []


def made() -> list[fc.Summary]:
    rng = np.random.default_rng(0)
    honest = [fc.Summary.of_scores(rng.uniform(size=30), site=f"s{k}", score=fc.LAC()) for k in range(30)]
    return [*honest, fc.Summary.of_scores(np.zeros(1_000_000), site="liar", score=fc.LAC())]


def test_one_file_with_a_million_zeros_is_said() -> None:
    sites = made()
    with pytest.warns(HeavySiteWarning, match="site 'liar' has 100% of all"):
        result = fc.calibrate(sites)
    assert result.threshold == 0.0  # so a word is needed
    assert list(result.certificate.heavy_sites) == ["liar"]
    assert fc.verify(result, sites) == []
    assert fc.Predictor.from_bytes(result.to_bytes()).certificate == result.certificate
