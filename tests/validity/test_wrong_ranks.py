"""What goes wrong when the number of sites is forgotten: ranks between N + 1 and N + K under-cover.

One site has many easy scores, the others one hard score each, and the hard test rows are all missed. Then
rank r covers exactly r / (N + K), so that nothing less than r = ceil((1 - alpha)(N + K)) will do.
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
    calibrator,
    coverage_by_client,
    draws,
    mean,
    proportional,
    sizes,
    thresholds,
)

FULL_SIZE = (Site(EASY, 1000), *[Site(HARD, 1)] * 20)


def pooled(scores: list[Floats], alpha: float) -> fc.Calibration:
    """Send all sites in one message that still knows how many they are."""
    return fc.calibrate([fc.pool([fc.summarize(s, "exact") for s in scores])], alpha=alpha)


def pooled_as_one_site(scores: list[Floats], alpha: float) -> fc.Calibration:
    """Send all scores as if they were one site's; K is forgotten."""
    return fc.calibrate([fc.summarize(np.concatenate(scores), "exact")], alpha=alpha)


def simulated(sites: tuple[Site, ...], calibrate: Calibrator, repetitions: int) -> Mean:
    """Return the mean coverage under the mixture of Theorem 1."""
    q = thresholds(calibrate, draws(sites, seed=3, repetitions=repetitions))
    return mean(proportional(sites) @ coverage_by_client(sites, q))


FEDERATIONS = [pytest.param(BIG_EASY_SITE, 0.2, 500, id="small"), pytest.param(FULL_SIZE, 0.1, 100, id="full size")]


@pytest.mark.parametrize(("sites", "alpha", "repetitions"), FEDERATIONS)
@pytest.mark.parametrize("way", ["apart", "pooled"])
def test_n_plus_k_covers(sites: tuple[Site, ...], alpha: float, repetitions: int, way: str) -> None:
    calibrate = calibrator(fc.Mixture(), alpha) if way == "apart" else lambda scores: pooled(scores, alpha)
    coverage, tolerance = simulated(sites, calibrate, repetitions)
    assert coverage == pytest.approx(covered_by_rank(sites, alpha, len(sites)), abs=tolerance)
    assert coverage >= 1 - alpha - tolerance


@pytest.mark.parametrize(("sites", "alpha", "repetitions"), FEDERATIONS)
@pytest.mark.parametrize("way", ["exchangeable", "pooled as one site"])
def test_n_plus_one_under_covers(sites: tuple[Site, ...], alpha: float, repetitions: int, way: str) -> None:
    forgetful: Calibrator = lambda scores: pooled_as_one_site(scores, alpha)  # noqa: E731
    calibrate = calibrator(fc.Exchangeable(), alpha) if way == "exchangeable" else forgetful
    coverage, tolerance = simulated(sites, calibrate, repetitions)
    assert coverage == pytest.approx(covered_by_rank(sites, alpha, 1), abs=tolerance)
    assert coverage < 1 - alpha - 2 * tolerance


def covered_by_rank(sites: tuple[Site, ...], alpha: float, stand_ins: int) -> float:
    """Return r / (N + K) for r = ceil((1 - alpha)(N + stand_ins))."""
    N, K = sum(sizes(sites)), len(sites)
    return rank_of(alpha, N + stand_ins) / (N + K)


def test_the_figures_of_the_full_size_case() -> None:
    assert round(covered_by_rank(FULL_SIZE, 0.1, 21), 4) == 0.9001
    assert round(covered_by_rank(FULL_SIZE, 0.1, 1), 3) == 0.883
