"""The watch over scores: evidence that is rarely large while nothing changes, and soon when something does.

Stakes are followed for all streams at once, as in the definition, from the p-values of the package.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from fedconformal.monitoring.change import ChangeDetector, payoffs
from tests.validity.watched import kept

Floats = NDArray[np.float64]


def scores(kind: str, rng: np.random.Generator, count: int) -> Floats:
    """Draw scores that are all different, of eleven values, or mostly one value."""
    if kind == "continuous":
        return rng.normal(size=count)
    return rng.integers(0, 11, count) / 10 if kind == "discrete" else np.maximum(rng.normal(size=count), 1.0)


def p_values(kind: str, streams: int, rows: int, seed: int, calibration: int = 200) -> Floats:
    rng = np.random.default_rng(seed)
    return np.array(
        [
            ChangeDetector(scores(kind, rng, calibration), random_state=i).p_values(scores(kind, rng, rows))
            for i in range(streams)
        ]
    )


def largest_evidence(p: Floats) -> Floats:
    """Return the largest evidence of each stream."""
    stakes, largest = np.full((len(p), 6), 1 / 6), np.ones(len(p))
    for row in p.T:
        stakes = (0.99 * stakes + 0.01 * stakes.mean(axis=1, keepdims=True)) * payoffs(row)
        largest = np.maximum(largest, stakes.sum(axis=1))
    return largest


@pytest.mark.long
@pytest.mark.parametrize("kind", ["continuous", "discrete", "ties"])
def test_false_alarms_are_as_rare_as_stated(kind: str) -> None:
    largest = largest_evidence(p_values(kind, 1000, 400, seed=0))
    for d in (0.2, 0.05, 0.01):
        assert kept(largest >= 1 / d, d), (d, (largest >= 1 / d).mean())


@pytest.mark.long
def test_ties_without_draws_of_their_own_raise_false_alarms() -> None:
    """P-values that are not smoothed, with every tie counted for the score, are no longer uniform."""
    rng, p = np.random.default_rng(2), []
    for _ in range(300):
        old, new = scores("ties", rng, 200), scores("ties", rng, 400)
        pool = np.append(old, new)
        p.append([(pool[: 200 + i] > new[i]).mean() for i in range(400)])
    assert not kept(largest_evidence(np.array(p)) >= 20, 0.05)


def delay(shift: float, tail: float, streams: int) -> float:
    """Return the median delay in rows of a change after 100 rows."""
    rng, rows = np.random.default_rng(3), []
    for i in range(streams):
        watch = ChangeDetector(rng.normal(size=500), random_state=i).update(rng.normal(size=100))
        new = rng.normal(shift, 1, 400)
        new[rng.random(400) < tail] += 5
        for row in range(0, 400, 4):
            watch = watch.update(new[row : row + 4])
            if watch.log_e_value >= math.log(40):
                break
        rows.append(row + 4)
    return float(np.median(rows))


@pytest.mark.long
def test_changes_are_noticed_soon() -> None:
    """Half a standard deviation and a tail of a tenth, at 1 / d = 40 with 500 calibration scores."""
    assert delay(0.5, 0.0, 200) < 80
    assert delay(0.0, 0.1, 200) < 100
