"""A promise to fresh sites: the formula, what is missing, and leaving each site out in turn."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedconformal as fc
from fedconformal.validation import Floats
from tests.contracts.tools import alphas, checks, maybe_infeasible, refused, vectors


@given(st.lists(vectors(20), min_size=1, max_size=12), alphas)
@checks(80)
def test_the_mean_share_of_the_sites(scores: list[Floats], alpha: Fraction) -> None:
    K = len(scores)
    enough = [
        q
        for q in np.concatenate(scores).tolist()
        if sum(Fraction(int(np.count_nonzero(part <= q)), len(part)) for part in scores) >= (1 - alpha) * (K + 1)
    ]
    sites = [fc.summarize(part, kind="exact") for part in scores]
    with maybe_infeasible():
        result = fc.calibrate(sites, alpha=alpha, guarantee=fc.NewClient())
    assert result.threshold == min(enough, default=math.inf)


@pytest.mark.parametrize(("alpha", "needed"), [("0.2", 4), ("0.1", 9), ("0.05", 19), ("0.3", 3), ("0.5", 1)])
def test_it_takes_sites_and_not_scores(alpha: str, needed: int) -> None:
    exact = Fraction(alpha)
    assert fc.NewClient().feasible(exact, [1] * needed)
    assert not fc.NewClient().feasible(exact, [10**6] * (needed - 1)) or needed == 1
    assert fc.NewClient().missing_sites(exact, [1] * needed) == 0
    assert fc.NewClient().missing_sites(exact, [1] * (needed - 1)) == 1


def test_the_warning_counts_sites() -> None:
    sites = [fc.summarize(range(50), kind="exact") for _ in range(4)]
    with pytest.warns(fc.InfeasibleWarning, match="sites needed: 5 more, from the same population$"):
        assert fc.calibrate(sites, alpha=0.1, guarantee=fc.NewClient()).threshold == math.inf
    assert fc.calibrate(sites, alpha=0.2, guarantee=fc.NewClient()).threshold == 49


def rows(k: int) -> tuple[Floats, Any]:
    rng = np.random.default_rng(k)
    return rng.dirichlet([2, 1, 1], size=20), rng.integers(0, 3, 20)


SITES = {f"s{k}": rows(k) for k in range(5)}


def test_each_model_is_trained_without_its_site() -> None:
    trained = []

    def fit(others: dict[str, Any]) -> Any:
        trained.append(sorted(others))
        return lambda X: X

    summaries = fc.leave_one_site_out(SITES, fit, score=fc.LAC())
    assert trained == [sorted(set(SITES) - {name}) for name in SITES]
    assert [summary.sites for summary in summaries] == [(name,) for name in SITES]
    expected = fc.LAC().evaluate(*SITES["s2"])
    assert np.array_equal(summaries[2].points, np.unique(expected))
    result = fc.calibrate(summaries, alpha=0.2, guarantee=fc.NewClient())
    assert result.certificate.model == "leave-one-site-out"
    ready = fc.leave_one_site_out(SITES, dict.fromkeys(SITES, lambda X: X), score=fc.LAC())
    assert [summary.to_bytes() for summary in ready] == [summary.to_bytes() for summary in summaries]


def test_bad_use_of_leave_one_site_out() -> None:
    with refused("needs two sites at least"):
        fc.leave_one_site_out({"a": rows(0)}, lambda _others: lambda X: X)
    with refused("one predictor for each site", "'s4'"):
        fc.leave_one_site_out(SITES, {f"s{k}": lambda X: X for k in range(4)})
    with refused("site 's0'", "sums to"):
        fc.leave_one_site_out(SITES, lambda _others: lambda X: X * 2)
