"""The watch over scores: evidence that is rarely large while nothing changes, and soon when something does.

Stakes and detectors are followed for all streams at once, as in the definition, from the p-values of the package.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from fedconformal.monitoring.change import ChangeDetector, payoffs
from tests.validity.watched import kept

Floats = NDArray[np.float64]


class Followed(NamedTuple):
    """The largest evidence of each stream, and the row at which its detector reached each level, or the last row."""

    largest: Floats
    rows: dict[float, Floats]


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


def followed(p: Floats, levels: tuple[float, ...] = ()) -> Followed:
    streams, rows = p.shape
    stakes, detectors = np.full((streams, 6), 1 / 6), np.zeros((streams, 5))
    largest, reached = np.ones(streams), {level: np.full(streams, float(rows)) for level in levels}
    for row in range(rows):
        won = payoffs(p[:, row])
        stakes = (0.99 * stakes + 0.01 * stakes.mean(axis=1, keepdims=True)) * won
        detectors = won[:, 1:] * (detectors + 1)
        largest = np.maximum(largest, stakes.sum(axis=1))
        for level, first in reached.items():
            first[(detectors.mean(axis=1) >= level) & (first == rows)] = row + 1
    return Followed(largest, reached)


def check_null(kind: str, streams: int, rows: int, levels: tuple[float, ...], seed: int) -> None:
    found = followed(p_values(kind, streams, rows, seed), levels)
    for d in (0.2, 0.05, 0.01):
        assert kept(found.largest >= 1 / d, d), (d, (found.largest >= 1 / d).mean())
    for level, first in found.rows.items():  # which ends at the last row, so that the mean can only be larger
        assert first.mean() > level - 3 * first.std() / math.sqrt(streams), (level, first.mean())


@pytest.mark.long
@pytest.mark.parametrize("kind", ["continuous", "discrete", "ties"])
def test_false_alarms_are_as_rare_as_stated(kind: str) -> None:
    check_null(kind, 1000, 400, (20.0, 50.0), seed=0)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["continuous", "discrete", "ties"])
def test_false_alarms_of_10_000_streams(kind: str) -> None:
    check_null(kind, 10_000, 4000, (50.0, 200.0, 1000.0), seed=1)


@pytest.mark.long
def test_ties_without_draws_of_their_own_raise_false_alarms() -> None:
    """P-values that are not smoothed, with every tie counted for the score, are no longer uniform."""
    rng, p = np.random.default_rng(2), []
    for _ in range(300):
        old, new = scores("ties", rng, 200), scores("ties", rng, 400)
        pool = np.append(old, new)
        p.append([(pool[: 200 + i] > new[i]).mean() for i in range(400)])
    assert not kept(followed(np.array(p)).largest >= 20, 0.05)


def delays(shift: float, tail: float, streams: int) -> tuple[float, float]:
    """Return the median delay in rows, and how far the median of the stated rows is from the change, after 100 rows."""
    rng, rows, begun = np.random.default_rng(3), [], []
    for i in range(streams):
        watch = ChangeDetector(rng.normal(size=500), random_state=i).update(rng.normal(size=100))
        if watch.alarm_at is None:
            new = rng.normal(shift, 1, 1000)
            new[rng.random(1000) < tail] += 5
            after = watch.update(new)
            rows.append((after.alarm_at or 1100) - 100)
            begun.append(after.since or 0)
    return float(np.median(rows)), float(np.median(begun)) - 100


@pytest.mark.long
def test_changes_are_noticed_soon_and_dated() -> None:
    """Half a standard deviation within 32 rows in the median, a tail of a tenth within 40; 1 / d = 1000, n = 500."""
    shifted, since = delays(0.5, 0.0, 300)
    assert shifted < 36
    assert abs(since) < 15
    heavier, since = delays(0.0, 0.1, 300)
    assert heavier < 45
    assert abs(since) < 15
