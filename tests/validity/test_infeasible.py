"""Too few scores for the promise: the threshold is +inf and everything is covered, with a warning.

A rank clamped to the largest score would be finite and cover only n / (n + 1).
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import fedconformal as fc
from tests.validity.simulation import Calibrator, Site, calibrator, coverage_by_site, draws, mean, thresholds, uniform

SITES = (Site(uniform(-1, 1), 9), Site(uniform(0, 3), 19))

# The smallest alpha at which the largest scores are enough, for sites of 9 and 19 scores.
SMALLEST_ALPHA = {
    fc.Mixture(): "1/28",
    fc.Mixture(weights="uniform"): "1/18",  # half of the rows are of the site of nine
    fc.Mixture(weights=(0.2, 0.8)): "8/190",  # 0.8/19, and 0.2/9 is less
    fc.Mixture(weights=(0.99, 0.01)): "1990/20000",  # 0.99/10 + 0.01/20, where 0.99/9 is more
    fc.FCP(): "2/30",
    fc.Robust(liars=1): "1/9",
    fc.OneSite(site=0): "1/10",
    fc.OneSite(site=1): "1/20",
    fc.EverySite(): "1/10",
    fc.WorstCase(contamination=0.5): "37/504",  # 0.5/28 + 0.5/9
    fc.WorstCase(box=(0.4, 1)): "6/90",  # 0.6/9
    fc.NewSite(): "1/3",
    fc.PAC(failure=0.05): "101465736/1000000000",  # 1 - 0.05 ** (1/28)
}


@pytest.mark.parametrize(("guarantee", "smallest"), SMALLEST_ALPHA.items(), ids=str)
def test_too_small_an_alpha_covers_everything(guarantee: fc.Guarantee, smallest: str) -> None:
    numerator, denominator = map(int, smallest.split("/"))
    calibrate = calibrator(guarantee, numerator / denominator - 1e-6)
    drawn = draws(SITES, seed=7, repetitions=10)
    with pytest.warns(fc.InfeasibleWarning, match="more"):
        q = thresholds(calibrate, drawn)
    assert (q == math.inf).all()
    assert (coverage_by_site(SITES, q) == 1).all()
    with pytest.warns(fc.InfeasibleWarning):
        certificate = calibrate(drawn[0]).certificate
    assert certificate.coverage_at_least == certificate.coverage_at_most == 1


@pytest.mark.parametrize(("guarantee", "smallest"), SMALLEST_ALPHA.items(), ids=str)
def test_the_smallest_alpha_is_finite(guarantee: fc.Guarantee, smallest: str) -> None:
    numerator, denominator = map(int, smallest.split("/"))
    q = thresholds(calibrator(guarantee, numerator / denominator + 1e-6), draws(SITES, seed=7, repetitions=10))
    assert np.isfinite(q).all()


def test_the_largest_score_would_under_cover() -> None:
    clamped: Calibrator = lambda scores: fc.calibrate([fc.Summary.of_scores(scores[0])], alpha=0.1, exact=True)  # noqa: E731
    site = SITES[:1]
    coverage, tolerance = mean(coverage_by_site(site, thresholds(clamped, draws(site, seed=8)))[0])
    assert coverage == pytest.approx(0.9, abs=tolerance)
    assert coverage < 0.95 - tolerance  # what a clamp to rank 9 of 9 would give at alpha = 0.05
