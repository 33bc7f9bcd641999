"""Three poolers with a hundred sites each: the coordinator sees three messages and still counts 300 sites.

Read as three sites the rank would be ceil((1 - alpha)(N + 3)). Here half of the sites have hard scores, one
each, and that rank covers .45 where .5 was promised.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

import fedconformal as fc
from tests.validity.settings import EASY, HARD
from tests.validity.simulation import Floats, Mean, Site, coverage_by_client, draws, mean, proportional, sizes

ALPHA = 0.5
SITES = tuple(site for n in (2, 3, 4) * 50 for site in (Site(EASY, n), Site(HARD, 1)))
POOLERS = [slice(0, 100), slice(100, 200), slice(200, 300)]
N, K = sum(sizes(SITES)), 300

Pooler = Callable[[list[Floats]], fc.Summary]


def as_many_sites(scores: list[Floats], kind: str = "exact") -> fc.Summary:
    """Pool a hundred summaries into one message."""
    return fc.pool([fc.summarize(s, kind) for s in scores])


def as_one_site(scores: list[Floats]) -> fc.Summary:
    """Forget whose scores they were."""
    return fc.summarize(np.concatenate(scores), "exact")


def through_poolers(scores: list[Floats], pool: Pooler, guarantee: fc.Guarantee | None = None) -> fc.Calibration:
    """Calibrate on the messages of the three poolers."""
    return fc.calibrate([pool(scores[part]) for part in POOLERS], alpha=ALPHA, guarantee=guarantee)


def simulated(pool: Pooler) -> Mean:
    """Return the mean coverage under the mixture of Theorem 1."""
    drawn = draws(SITES, seed=9, repetitions=60)
    q = np.array([through_poolers(scores, pool).threshold for scores in drawn])
    return mean(proportional(SITES) @ coverage_by_client(SITES, q))


@pytest.mark.parametrize("kind", ["exact", "ranks"])
def test_three_messages_count_as_300_sites(kind: str) -> None:
    for scores in draws(SITES, seed=10, repetitions=3):
        flat = fc.calibrate([fc.summarize(s, kind) for s in scores], alpha=ALPHA)
        result = through_poolers(scores, lambda part: as_many_sites(part, kind))
        rank = math.ceil((N + K) / 2)
        assert result.certificate.clients == K
        assert (result.certificate.rank, result.certificate.rank_out_of) == (rank, N + K)
        assert result.certificate.coverage_at_most == (rank + K - 1) / (N + K)
        assert result.threshold == flat.threshold == np.sort(np.concatenate(scores))[rank - 1]


def test_pooling_the_poolers_changes_nothing() -> None:
    (scores,) = draws(SITES, seed=11, repetitions=1)
    everything = fc.pool([as_many_sites(scores[part]) for part in POOLERS])
    assert fc.calibrate([everything], alpha=ALPHA).threshold == through_poolers(scores, as_many_sites).threshold


def test_300_sites_are_covered() -> None:
    coverage, tolerance = simulated(as_many_sites)
    easy = sum(site.size for site in SITES if site.law is EASY)
    rank = math.ceil((N + K) / 2)
    assert coverage == pytest.approx((easy + K / 2) / (N + K) * rank / (easy + 1), abs=tolerance)
    assert coverage >= 1 - ALPHA - tolerance


def test_three_sites_would_under_cover() -> None:
    coverage, tolerance = simulated(as_one_site)
    assert coverage < 1 - ALPHA - 2 * tolerance
    assert coverage == pytest.approx(0.446, abs=tolerance)


@pytest.mark.parametrize(
    "guarantee", [fc.Mixture(weights="uniform"), fc.OneClient(client=0), fc.EveryClient()], ids=str
)
def test_other_guarantees_refuse_pooled_sites(guarantee: fc.Guarantee) -> None:
    (scores,) = draws(SITES, seed=12, repetitions=1)
    with pytest.raises(fc.InputError, match="pooled"):
        through_poolers(scores, as_many_sites, guarantee)
