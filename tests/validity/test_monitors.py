"""False alarms of the watches are as rare as stated, over calibration draws; what is nearly right is not."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

import fedconformal as fc
from fedconformal.monitoring.monitor import Monitor, lower_rate
from tests.validity.watched import alarms, kept, last_alarm

FAILURE = LEVEL = 0.025
STREAMS = 10_000


def limit_of(guarantee: fc.Guarantee, alpha: float, sizes: list[int]) -> float:
    (limit,) = guarantee.miss_rate_bounds(Fraction(str(alpha)), sizes, FAILURE)
    return limit.rate


def miss_rates(alpha: float, size: int, rng: np.random.Generator, streams: int = STREAMS) -> NDArray[np.float64]:
    """Draw the miss rate of each calibration, which is one minus a beta variable."""
    rank = math.ceil((1 - Fraction(str(alpha))) * (size + 1))
    return 1 - rng.beta(rank, size + 1 - rank, streams)


def test_the_table_finds_the_alarms_of_the_watch() -> None:
    rng, missed = np.random.default_rng(1), []
    table = last_alarm(0.1, LEVEL, 4000)
    for _ in range(300):
        rows = rng.random(3000) < 0.115
        times = np.flatnonzero(rows) + 1
        wanted = times[times <= table[1 : len(times) + 1]]
        found = Monitor(limit=0.1).update(misses=rows.astype(float)).alarm_at
        missed.append(found != (int(wanted[0]) if len(wanted) else None))
    assert sum(missed) <= 3  # where the table is a tenth of a row too late


@pytest.mark.long
@pytest.mark.parametrize(("alpha", "size"), [(0.01, 500), (0.1, 50), (0.1, 500), (0.3, 50)])
def test_false_alarms_over_calibrations_are_as_rare_as_stated(alpha: float, size: int) -> None:
    """The limit is a_b; alpha in its place raises far too many."""
    rng = np.random.default_rng(2)
    rate = miss_rates(alpha, size, rng)
    limit = limit_of(fc.Mixture(), alpha, [size])
    assert kept(alarms(rate, limit, 20_000, LEVEL, rng), FAILURE + LEVEL)
    assert not kept(alarms(rate, alpha, 20_000, LEVEL, rng), FAILURE + LEVEL)


def test_alarms_at_the_limit_itself_are_nearly_as_many_as_stated() -> None:
    """So that the test of the table would notice a level that is too high."""
    rng, limit = np.random.default_rng(4), 0.1
    found = alarms(np.full(STREAMS, limit), limit, 20_000, 0.05, rng)
    assert kept(found, 0.05)
    assert found.mean() > 0.02
    assert not kept(alarms(np.full(STREAMS, limit), limit, 20_000, 0.2, rng), 0.05)


SIZES = [20, 60, 120, 300]
POWERS = np.array([0.4, 1.0, 2.5, 6.0])
"""Scores of site k are uniform numbers to a power, so that a threshold q covers q^(1 / power) of its rows."""


def unlike(rank: int, streams: int, rng: np.random.Generator) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Calibrate on unlike sites; return how often each site is missed then, and how many of its scores are covered."""
    parts = [rng.random((streams, n)) ** power for n, power in zip(SIZES, POWERS, strict=True)]
    q = np.partition(np.concatenate(parts, axis=1), rank - 1, axis=1)[:, rank - 1, None]
    return 1 - q ** (1 / POWERS), np.stack([(part <= q).sum(axis=1) for part in parts], axis=1)


@pytest.mark.long
@pytest.mark.parametrize("alpha", [0.1, 0.3])
def test_mixtures_of_unlike_sites(alpha: float) -> None:
    """Rows come from site k with probability n_k / N, under the default guarantee and under PAC."""
    rng, total = np.random.default_rng(5), sum(SIZES)
    for guarantee in (fc.Mixture(), fc.PAC(failure=FAILURE)):
        (limit,) = guarantee.miss_rate_bounds(Fraction(str(alpha)), SIZES, FAILURE)
        ranks = range(1, total + 1)
        wanted = 1 - Fraction(str(alpha))
        rank = next(r for r in ranks if guarantee.promised([r, 0, 0, 0], SIZES) >= wanted)
        missed, _ = unlike(rank, 4000, rng)
        shares = limit.shares or [Fraction(n, total) for n in SIZES]
        found = alarms(missed @ np.array([float(share) for share in shares]), limit.rate, 20_000, LEVEL, rng)
        assert kept(found, FAILURE + LEVEL), (guarantee.name, found.mean())


@pytest.mark.long
def test_one_site_of_a_mixture_by_its_own_scores() -> None:
    """A site's own limit is 1 - m/n + sqrt(ln(1/b) / 2n); 1 - m/n alone is none."""
    rng, site, streams = np.random.default_rng(6), 2, 2000
    missed, covered = unlike(math.ceil(0.7 * (sum(SIZES) + 4)), streams, rng)
    n, found, naive = SIZES[site], np.zeros(streams, dtype=np.bool_), np.zeros(streams, dtype=np.bool_)
    for count in np.unique(covered[:, site]):
        some = covered[:, site] == count
        share = 1 - count / n
        luck = math.sqrt(-math.log(FAILURE) / (2 * n))
        found[some] = alarms(missed[some, site], share + luck, 5000, LEVEL, rng)
        naive[some] = alarms(missed[some, site], share, 5000, LEVEL, rng)
    assert kept(found, FAILURE + LEVEL)
    assert not kept(naive, FAILURE + LEVEL)


def late(rng: np.random.Generator, rows: int, rate: float) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Outcomes in the order in which they come, and how many rows wait after each: hits come 300 rows late."""
    missed = rng.random(rows) < rate
    comes = np.arange(rows) + np.where(missed, 0, 300 + rng.integers(0, 20, rows))
    order = np.argsort(comes, kind="stable")
    order = order[comes[order] < rows]
    return missed[order].astype(float), comes[order] + 1 - np.arange(1, len(order) + 1)


@pytest.mark.long
def test_labels_that_come_later_for_hits_than_for_misses() -> None:
    """Rows that wait count as covered. Left out, nearly every stream has an alarm."""
    rng, streams = np.random.default_rng(7), 500
    found, naive = np.zeros(streams, dtype=np.bool_), np.zeros(streams, dtype=np.bool_)
    for i in range(streams):
        missed, waiting = late(rng, 3000, 0.1)
        found[i] = Monitor(limit=0.1).update(misses=missed, waiting=waiting).alarm
        naive[i] = Monitor(limit=0.1).update(misses=missed).alarm
    assert kept(found, LEVEL)
    assert naive.mean() > 0.99


@pytest.mark.long
@pytest.mark.parametrize("rate", [0.02, 0.15, 0.5])
def test_the_interval_holds_at_all_times_at_once(rate: float) -> None:
    rng, streams, level = np.random.default_rng(9), 400, 0.1
    rows = np.unique(np.geomspace(1, 5000, 60).astype(int))
    misses = np.cumsum(rng.random((streams, 5000)) < rate, axis=1)[:, rows - 1].astype(float)
    outside = (lower_rate(misses, rows - misses, level) > rate) | (1 - lower_rate(rows - misses, misses, level) < rate)
    ever = np.asarray(outside.any(axis=1))
    assert kept(ever, level)
    assert ever.mean() > 0.01
