"""Which shares a rank is for: the paper's, n_k + 1, need rank ceil((1 - alpha)(N + K)), and n_k / N does not.

One site has many easy scores, the others one hard score each, and the hard test rows are all missed. Under shares
n_k + 1 a site of one row counts twice, and rank r covers exactly r / (N + K): the ranks of one pool, from N + 1, cover
.883 at .9. Under shares n_k / N the same rank covers as much as it promises.
"""

from __future__ import annotations

import numpy as np
import pytest

import fedconformal as fc
from tests.validity.promises import rank_of
from tests.validity.settings import BIG_EASY_SITE, EASY, HARD
from tests.validity.simulation import (
    Calibrator,
    Floats,
    Mean,
    Site,
    by_rows,
    calibrator,
    coverage_by_site,
    draws,
    mean,
    sizes,
    thresholds,
    with_next_rows,
)

FULL_SIZE = (Site(EASY, 1000), *[Site(HARD, 1)] * 20)


def pooled_as_one_site(scores: list[Floats], alpha: float) -> fc.Predictor:
    """Send all scores as if they were one site's; K is forgotten."""
    return fc.calibrate([fc.Summary.of_scores(np.concatenate(scores), kind="exact")], alpha=alpha, exact=True)


def simulated(sites: tuple[Site, ...], calibrate: Calibrator, shares: Floats, repetitions: int) -> Mean:
    """Return the mean coverage under a mixture."""
    q = thresholds(calibrate, draws(sites, seed=3, repetitions=repetitions))
    return mean(shares @ coverage_by_site(sites, q))


FEDERATIONS = [pytest.param(BIG_EASY_SITE, 0.2, 500, id="small"), pytest.param(FULL_SIZE, 0.1, 100, id="full size")]
federations = pytest.mark.parametrize(("sites", "alpha", "repetitions"), FEDERATIONS)


@federations
@pytest.mark.parametrize("way", ["apart", "pooled"])
def test_the_paper_covers_its_shares(sites: tuple[Site, ...], alpha: float, repetitions: int, way: str) -> None:
    def pooled(scores: list[Floats]) -> fc.Predictor:
        summary = fc.pool([fc.Summary.of_scores(s, kind="exact") for s in scores])
        return fc.calibrate([summary], alpha=alpha, guarantee=fc.FCP(), exact=True)

    calibrate = calibrator(fc.FCP(), alpha) if way == "apart" else pooled
    coverage, tolerance = simulated(sites, calibrate, with_next_rows(sites), repetitions)
    assert coverage == pytest.approx(
        covered_by_rank(sites, rank_of(alpha, sum(sizes(sites)) + len(sites))), abs=tolerance
    )
    assert coverage >= 1 - alpha - tolerance


@federations
@pytest.mark.parametrize("way", ["mixture", "pooled as one site"])
def test_ranks_of_a_pool_do_not_cover_them(sites: tuple[Site, ...], alpha: float, repetitions: int, way: str) -> None:
    calibrate: Calibrator = lambda scores: pooled_as_one_site(scores, alpha)  # noqa: E731
    N = sum(sizes(sites))
    rank = rank_of(alpha, N + 1)
    if way == "mixture":
        calibrate, rank = calibrator(fc.Mixture(), alpha), rank_of(alpha, N) + 1
    coverage, tolerance = simulated(sites, calibrate, with_next_rows(sites), repetitions)
    assert coverage == pytest.approx(covered_by_rank(sites, rank), abs=tolerance)
    assert coverage < 1 - alpha - 2 * tolerance


@federations
def test_and_they_cover_shares_by_rows(sites: tuple[Site, ...], alpha: float, repetitions: int) -> None:
    coverage, tolerance = simulated(sites, calibrator(fc.Mixture(), alpha), by_rows(sites), repetitions)
    N, easy = sum(sizes(sites)), sites[0].size
    assert coverage == pytest.approx(easy / N * (rank_of(alpha, N) + 1) / (easy + 1), abs=tolerance)
    assert coverage >= 1 - alpha - tolerance


def covered_by_rank(sites: tuple[Site, ...], rank: int) -> float:
    """Return r / (N + K): the coverage of the paper's shares where the hard rows are all missed."""
    return rank / (sum(sizes(sites)) + len(sites))


def test_the_figures_of_the_full_size_case() -> None:
    assert round(covered_by_rank(FULL_SIZE, rank_of(0.1, 1041)), 4) == 0.9001
    assert round(covered_by_rank(FULL_SIZE, rank_of(0.1, 1021)), 3) == 0.883
    assert round(covered_by_rank(FULL_SIZE, rank_of(0.1, 1020) + 1), 3) == 0.883
