"""A verdict accuses a predictor that keeps its promise in at most .05 of all calibrations, and finds one that does not.

Sites differ strongly and are small, so one calibration has much luck. Whole runs are drawn: calibration rows, a
threshold, test rows. Miss rates of sites follow from the threshold, so test rows are binomial draws.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy import stats

import fedconformal as fc
from fedconformal.evaluation import evaluate_sets
from fedconformal.evaluation.intervals import Sample
from fedconformal.evaluation.verdict import FAILURE, LEVEL
from tests.validity.test_claimed_sizes import thresholds

DRAWS = 1500
ALPHA = Fraction(1, 10)
SIZES = (40, 25, 15)
LAWS = (stats.norm(0, 1), stats.norm(1, 2), stats.norm(3, 0.3))
ROWS = 4000
"""Many rows: the test finds every calibration whose miss rate is above what is allowed for luck."""

GUARANTEES: dict[str, tuple[fc.Guarantee, tuple[int, ...]]] = {
    "in proportion": (fc.Mixture(), SIZES),
    "uniform": (fc.Mixture(weights="uniform"), (1, 1, 1)),
    "pac": (fc.PAC(failure=0.05), SIZES),
    "one site": (fc.OneSite(site=1), (0, 1, 0)),
}


@cache
def accused(name: str, *, luck: bool = True) -> int:
    """Count the draws whose test rows, in the certified mixture, are missed too often."""
    guarantee, parts = GUARANTEES[name]
    rng = np.random.default_rng(7)
    (limit,) = guarantee.bind(["a", "b", "c"], SIZES).miss_rate_bounds(ALPHA, SIZES, FAILURE)
    rate = max(limit.rate, float(ALPHA)) if luck else float(ALPHA)
    shares = np.array(parts) / sum(parts)
    drawn = [law.rvs((DRAWS, n), random_state=rng) for law, n in zip(LAWS, SIZES, strict=True)]
    q = thresholds(guarantee, str(float(ALPHA)), drawn, [])
    miss = np.stack([law.sf(q) for law in LAWS], axis=1)
    rows = rng.multinomial(ROWS, shares)
    found = 0
    for misses in rng.binomial(rows, miss):
        covered = np.concatenate([np.arange(t) >= m for t, m in zip(rows, misses, strict=True)])
        held = np.flatnonzero(rows)
        sample = Sample.of(
            covered,
            sites=np.searchsorted(held, np.repeat(np.arange(3), rows)),
            shares=shares[held],
            alike=len(held) == 1,
        )
        found += sample.missed > rate and sample.p_value(rate) <= LEVEL
    return found


def is_at_most(share: float, found: int) -> bool:
    """Whether this many of all draws are no contradiction to a share, at 1 in 1,000."""
    return bool(stats.binomtest(found, DRAWS, share, alternative="greater").pvalue > 0.001)


@pytest.mark.parametrize("name", GUARANTEES)
def test_false_alarms_are_rare(name: str) -> None:
    assert is_at_most(0.05, accused(name))


@pytest.mark.parametrize("name", ["in proportion", "one site"])
def test_without_luck_they_are_not(name: str) -> None:
    """Testing against alpha itself accuses every calibration that is a little unlucky."""
    assert not is_at_most(0.05, accused(name, luck=False))


def calibrated(guarantee: fc.Guarantee | str = "mixture", sizes: Any = (400, 300, 300)) -> fc.Certificate:
    rng = np.random.default_rng(3)
    sites = [
        fc.Summary.of_scores(law.rvs(n, random_state=rng), kind="exact", site=site)
        for law, n, site in zip(LAWS, sizes, "abc", strict=True)
    ]
    return fc.calibrate(sites, alpha=0.1, guarantee=guarantee, exact=True).certificate


def test_a_coverage_of_eight_tenths_is_found_with_a_thousand_rows() -> None:
    certificate = calibrated()
    rng, found = np.random.default_rng(5), 0
    for _ in range(50):
        clients = rng.choice(list("abc"), 1000, p=[0.4, 0.3, 0.3])
        covered = rng.random(1000) < 0.8
        sets = np.stack([covered, ~covered], axis=1)
        verdict = evaluate_sets(sets, np.zeros(1000, dtype=int), sites=clients, certificate=certificate).verdict
        assert verdict is not None
        found += verdict.below
    assert found == 50
