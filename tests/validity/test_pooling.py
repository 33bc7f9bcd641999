"""Three poolers with a hundred sites each: the coordinator sees three messages, and the default takes the same rank.

All rows weigh alike under shares n_k / N, so it does not matter whose they are. The paper's theorem counts sites: read
as three, its rank would cover .45 where .5 was promised to shares n_k + 1. Half of the sites have one hard score each.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

import fedconformal as fc
from tests.validity.settings import EASY, HARD
from tests.validity.simulation import Floats, Mean, Site, by_rows, coverage_by_site, draws, mean, sizes, with_next_rows

ALPHA = 0.5
SITES = tuple(site for n in (2, 3, 4) * 50 for site in (Site(EASY, n), Site(HARD, 1)))
POOLERS = [slice(0, 100), slice(100, 200), slice(200, 300)]
N, K = sum(sizes(SITES)), 300

Pooler = Callable[[list[Floats]], fc.Summary]


def as_many_sites(scores: list[Floats], kind: str = "exact") -> fc.Summary:
    """Pool a hundred summaries into one message."""
    return fc.pool([fc.Summary.of_scores(s, kind=kind) for s in scores])


def as_one_site(scores: list[Floats]) -> fc.Summary:
    """Forget whose scores they were."""
    return fc.Summary.of_scores(np.concatenate(scores), kind="exact")


def through_poolers(scores: list[Floats], pool: Pooler, guarantee: fc.Guarantee | str = "mixture") -> fc.Predictor:
    """Calibrate on the messages of the three poolers."""
    return fc.calibrate([pool(scores[part]) for part in POOLERS], alpha=ALPHA, guarantee=guarantee, exact=True)


def simulated(pool: Pooler, guarantee: fc.Guarantee, shares: Floats) -> Mean:
    """Return the mean coverage under a mixture."""
    drawn = draws(SITES, seed=9, repetitions=60)
    q = np.array([through_poolers(scores, pool, guarantee).threshold for scores in drawn])
    return mean(shares @ coverage_by_site(SITES, q))


@pytest.mark.parametrize("kind", ["exact", "ranks"])
def test_three_messages_are_300_sites(kind: str) -> None:
    for scores in draws(SITES, seed=10, repetitions=3):
        flat = fc.calibrate([fc.Summary.of_scores(s, kind=kind) for s in scores], alpha=ALPHA, exact=True)
        result = through_poolers(scores, lambda part: as_many_sites(part, kind))
        rank = math.ceil(N / 2) + 1
        assert result.certificate.sites == K
        assert (result.certificate.promises[0].rank, result.certificate.promises[0].rank_out_of) == (rank, N)
        assert result.certificate.coverage_at_most == rank / N
        assert result.threshold == flat.threshold == np.sort(np.concatenate(scores))[rank - 1]
        paper = through_poolers(scores, lambda part: as_many_sites(part, kind), fc.FCP()).certificate
        assert (paper.promises[0].rank, paper.promises[0].rank_out_of) == (math.ceil((N + K) / 2), N + K)


def test_pooling_the_poolers_changes_nothing() -> None:
    (scores,) = draws(SITES, seed=11, repetitions=1)
    everything = fc.pool([as_many_sites(scores[part]) for part in POOLERS])
    assert (
        fc.calibrate([everything], alpha=ALPHA, exact=True).threshold
        == through_poolers(scores, as_many_sites).threshold
    )


EASY_ROWS = sum(site.size for site in SITES if site.law is EASY)


@pytest.mark.parametrize("pool", [as_many_sites, as_one_site])
def test_300_sites_are_covered(pool: Pooler) -> None:
    """Three messages of one site each are three sites, whose rank is that of 300."""
    coverage, tolerance = simulated(pool, fc.Mixture(), by_rows(SITES))
    rank = math.ceil(N / 2) + 1
    assert coverage == pytest.approx(EASY_ROWS / N * rank / (EASY_ROWS + 1), abs=tolerance)
    assert coverage >= 1 - ALPHA - tolerance


def test_the_paper_counts_300_sites() -> None:
    coverage, tolerance = simulated(as_many_sites, fc.FCP(), with_next_rows(SITES))
    rank = math.ceil((N + K) / 2)
    assert coverage == pytest.approx((EASY_ROWS + K / 2) / (N + K) * rank / (EASY_ROWS + 1), abs=tolerance)
    assert coverage >= 1 - ALPHA - tolerance
    coverage, tolerance = simulated(as_one_site, fc.FCP(), with_next_rows(SITES))
    assert coverage < 1 - ALPHA - 2 * tolerance
    assert coverage == pytest.approx(0.446, abs=tolerance)


@pytest.mark.parametrize("guarantee", [fc.Mixture(weights="uniform"), fc.OneSite(site=0), fc.EverySite()], ids=str)
def test_other_guarantees_refuse_pooled_sites(guarantee: fc.Guarantee) -> None:
    (scores,) = draws(SITES, seed=12, repetitions=1)
    with pytest.raises(fc.InputError, match="pooled"):
        through_poolers(scores, as_many_sites, guarantee)
