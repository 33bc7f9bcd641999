"""Patients with calibration rows at several sites: Mixture breaks, and the paper's theorem holds.

Mixture needs that a test row could change places with any calibration row of its own site, given the rows of the other
sites. A new patient cannot take the place of one whom other sites have seen. FCP counts one more row at each site, and
covers a new patient all the same. The last test shows that exchangeability of each site by itself is not enough for
either: scores that are arranged to depend on another site's lose coverage.
"""

from __future__ import annotations

import numpy as np
import pytest

import fedconformal as fc
from tests.contracts.tools import maybe_infeasible
from tests.validity.simulation import Calibrator, Floats, calibrator, mean

POPULATION = 80
SIZES = np.array([38, 10])
SHIFT = 0.8
"""Difference between the scores of the second and the first site for the same patient."""


@pytest.mark.parametrize(("patients", "sites", "mixture", "fcp"), [(5, 20, 5 / 6, 1.0), (15, 2, 14 / 16, 15 / 16)])
def test_the_same_few_patients_break_the_mixture(patients: int, sites: int, mixture: float, fcp: float) -> None:
    """Rank 91 of 100 is the fifth of five patients, who covers 5/6 of new ones; rank 28 of 30 the 14th of 15."""
    drawn = np.random.default_rng(7).random((400, patients))
    for guarantee, expected in ((fc.Mixture(), mixture), (fc.FCP(), fcp)):
        with maybe_infeasible():
            q = [float(calibrator(guarantee, 0.1)([row] * sites).threshold) for row in drawn]
        coverage, tolerance = mean(np.minimum(q, 1.0))
        assert coverage == pytest.approx(expected, abs=tolerance + 1e-12)
        assert (coverage < 0.9 - tolerance) == isinstance(guarantee, fc.Mixture)


def check_same_patients_everywhere(calibrate: Calibrator) -> None:
    """Two sites with the same 24 patients: rank 45 of N + K = 50 is the 23rd patient, who covers 23/25."""
    patients = np.random.default_rng(4).random((800, 24))
    coverage, tolerance = mean(np.array([calibrate([row, row]).threshold for row in patients]))
    assert tolerance < 0.01
    assert coverage >= 0.9 - tolerance, f"{coverage:.4f} is below 0.9"
    assert coverage == pytest.approx(23 / 25, abs=tolerance)


def check_finite_population(calibrate: Calibrator) -> None:
    """Two sites that draw from 80 patients; the test row is one whom its own site has not seen."""
    rng = np.random.default_rng(5)
    coverage, tolerance = mean(np.array([covered(rng.random(POPULATION), rng, calibrate) for _ in range(1500)]))
    assert tolerance < 0.01
    assert coverage >= 0.7 - tolerance, f"{coverage:.4f} is below 0.7"
    assert coverage <= 0.72 + tolerance, f"{coverage:.4f} is above 0.72"


def covered(patients: Floats, rng: np.random.Generator, calibrate: Calibrator) -> float:
    """Return the exact coverage of one calibration, by going through all possible test rows."""
    shuffled = [rng.permutation(patients), rng.permutation(patients) + SHIFT]
    q = calibrate([scores[:n] for scores, n in zip(shuffled, SIZES, strict=True)]).threshold
    by_site = [np.mean(scores[n:] <= q) for scores, n in zip(shuffled, SIZES, strict=True)]
    return float((SIZES + 1) / (SIZES + 1).sum() @ by_site)


def test_the_same_patients_everywhere() -> None:
    check_same_patients_everywhere(calibrator(fc.FCP(), 0.1))


def test_a_finite_population() -> None:
    check_finite_population(calibrator(fc.FCP(), 0.3))


def test_scores_arranged_against_another_site_lose_coverage() -> None:
    # Two uniform scores at one site, one at the other, and N + K = 5: rank 2 should cover 0.4.
    first = np.sort(np.random.default_rng(6).random((2000, 2)))
    second = arranged(first[:, 0], first[:, 1])
    assert np.quantile(second, [0.25, 0.5, 0.75]) == pytest.approx([0.25, 0.5, 0.75], abs=0.04)  # uniform, too
    calibrate = calibrator(fc.FCP(), 0.6)
    q = np.array([calibrate([a, b]).threshold for a, b in zip(first, second[:, None], strict=True)])
    coverage, tolerance = mean(q)
    assert coverage == pytest.approx(0.375, abs=tolerance)
    assert coverage < 0.4


def arranged(low: Floats, high: Floats) -> Floats:
    """Return a uniform score that is below both others unless these are small; then it is above both."""
    above = 0.75 + high**2
    just_below = np.nextafter(low, 0)
    below = 0.75 - (1 - low) ** 2
    return np.where(high <= 0.5, above, np.where(low <= 0.5, just_below, below))
