"""Several rows of one patient are not exchangeable with a row of a new patient, also if they are all at one site.

A patient's rows share a common part of their score. The more of the rows are one patient's, the nearer the threshold
is to that patient's own scores, and half of all patients have higher ones. So every certificate states that no patient
has more than one calibration row.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import fedconformal as fc
from tests.validity.simulation import Floats, calibrator, mean

WITHIN = 0.1
"""The spread of one patient's rows, where that of patients is one."""

LAW = stats.norm(scale=np.hypot(1, WITHIN))


def covered(patients: list[list[int]], rng: np.random.Generator) -> float:
    """Calibrate on sites of patients with these numbers of rows; return the exact coverage of a new patient's row."""
    sites: list[Floats] = []
    for rows in patients:
        common = np.repeat(rng.standard_normal(len(rows)), rows)
        sites.append(common + WITHIN * rng.standard_normal(sum(rows)))
    return float(LAW.cdf(calibrator(fc.Mixture(), 0.1)(sites).threshold))


SEVERAL = {
    "one patient of 400 rows, 30 of one": ([[400, *[1] * 30]], 0.6),
    "two sites, one patient of 200 rows": ([[200], [1] * 20], 0.75),
    "15 patients of 20 rows": ([[20] * 15], 0.9),
}


@pytest.mark.parametrize(("patients", "most"), SEVERAL.values(), ids=SEVERAL)
def test_rows_of_one_patient_lose_coverage_and_one_row_of_each_keeps_it(patients: list[list[int]], most: float) -> None:
    rng = np.random.default_rng(12)
    several, tolerance = mean(np.array([covered(patients, rng) for _ in range(600)]))
    assert several + tolerance < most
    single, tolerance = mean(np.array([covered([[1] * len(rows) * 3 for rows in patients], rng) for _ in range(600)]))
    assert single >= 0.9 - tolerance


def test_every_certificate_states_it() -> None:
    sites = [fc.Summary.of_scores(np.arange(40) / 40, site=name, score=fc.LAC()) for name in "ab"]
    for guarantee in (fc.Mixture(), fc.EverySite(), fc.PAC(), fc.OneSite(site="a")):
        assert fc.calibrate(sites, alpha=0.1, guarantee=guarantee).certificate.statement.assumption.endswith(
            guarantee.patients
        )
