"""A promise to fresh sites keeps it in a two-layer model, where exact coverage is known.

Sites differ by mu_k ~ N(0, tau^2) and scores are |N(mu_k, 1)|: a normal hierarchy, as in the two-layer
settings of Dunn, Wasserman and Ramdas (2022) and Lee, Barber and Willett (2023), with our own parameters.
The row of a fresh site is then N(0, 1 + tau^2), so a threshold q covers 2 Phi(q / sqrt(1 + tau^2)) - 1 of
fresh sites' rows, exactly.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from scipy import stats

import fedconformal as fc
from tests.validity.lies import MISSED, count_more
from tests.validity.simulation import Calibrator, Floats, Mean, calibrator, mean

SITES = 19
ALPHA = 0.1
FAR_APART = 1000.0
UNEQUAL = [1, 2, 3, 5, 8, 13, 40] * 2 + [4] * 5


def draw(tau: float, sizes: Sequence[int], rng: np.random.Generator) -> tuple[Floats, list[Floats]]:
    """Draw the sites' means, and rows of each."""
    centres = tau * rng.standard_normal(len(sizes))
    return centres, [centre + rng.standard_normal(n) for centre, n in zip(centres, sizes, strict=True)]


def covered(threshold: float, tau: float) -> float:
    """Return how often |row| of a fresh site is at most the threshold."""
    return float(2 * stats.norm.cdf(threshold / math.hypot(1, tau)) - 1)


def simulated(calibrate: Calibrator, tau: float, sizes: Sequence[int], repetitions: int = 200) -> Mean:
    rng = np.random.default_rng(31)
    drawn = [[np.abs(rows) for rows in draw(tau, sizes, rng)[1]] for _ in range(repetitions)]
    return mean(np.array([covered(float(calibrate(scores).threshold), tau) for scores in drawn]))


def check_fresh_sites(tau: float, sizes: Sequence[int]) -> None:
    """Compare with both ends of the band."""
    average, tolerance = simulated(calibrator(fc.NewSite(), ALPHA), tau, sizes)
    assert tolerance < 0.6 / (len(sizes) + 1)
    assert average >= 1 - ALPHA - tolerance, f"{average:.4f} is below {1 - ALPHA}"
    assert average <= 1 - ALPHA + 2 / (len(sizes) + 1) + tolerance, f"{average:.4f} is above"
    if tau == FAR_APART:  # each site is a single number, and one of K + 1 that are exchangeable
        assert average <= 1 - ALPHA + tolerance, f"{average:.4f} is above"


CASES = [(0.0, [10] * SITES), (1.0, [10] * SITES), (1.0, UNEQUAL), (FAR_APART, [10] * SITES), (FAR_APART, UNEQUAL)]


@pytest.mark.parametrize(("tau", "sizes"), CASES)
def test_fresh_sites_are_covered(tau: float, sizes: list[int]) -> None:
    check_fresh_sites(tau, sizes)


def test_a_rank_too_low_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """One score more at each site is a site more in all."""
    count_more(monkeypatch, fc.NewSite, capped=False)
    with pytest.raises(AssertionError, match=MISSED):
        check_fresh_sites(FAR_APART, [10] * SITES)


def test_the_mixture_of_the_known_sites_is_not_enough() -> None:
    """With six sites far apart, a promise to these six falls short on the seventh."""
    average, tolerance = simulated(calibrator(fc.Mixture(), 0.25), FAR_APART, [12] * 6)
    assert average < 0.75 - tolerance
    average, tolerance = simulated(calibrator(fc.NewSite(), 0.25), FAR_APART, [12] * 6)
    assert average >= 0.75 - tolerance


def test_a_model_that_knows_the_sites_voids_the_promise() -> None:
    """The model takes off each calibration site's own mean, which it cannot know of a fresh one: 0.29 at 0.9."""
    tau, found = 5.1, []
    rng = np.random.default_rng(32)
    for _ in range(50):
        centres, rows = draw(tau, [30] * SITES, rng)
        scores = [np.abs(part - centre) for part, centre in zip(rows, centres, strict=True)]
        found.append(covered(float(calibrator(fc.NewSite(), ALPHA)(scores).threshold), tau))
    assert np.mean(found) == pytest.approx(0.29, abs=0.02)
