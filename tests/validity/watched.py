"""Very many watched streams in little time, with every alarm exactly where it is.

Between two misses the evidence falls. So a watch is a table: the latest row at which the S-th miss still raises the
alarm. Streams are drawn in blocks of rows. All misses of a block at its beginning would be the worst; only where even
that is not below the table, the places of the misses within the block are drawn.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy import interpolate, stats

from fedconformal.monitoring.monitor import log_e

Floats = NDArray[np.float64]

SURE = 1e-3
"""A promise counts as broken where an exact test says so with this p-value."""


def last_alarm(limit: float, level: float, most: int) -> Floats:
    """Tabulate for S = 0, 1, ... the latest row at which the S-th miss raises an alarm; 0 if none does.

    Found by halving for some S, and between them by a spline, rounded up: at most a tenth of a row too late.
    """
    some = np.unique(np.append(np.arange(1, 40), np.geomspace(1, most, 80).astype(int))).astype(float)
    low, high, enough = np.zeros(len(some)), some * (1 - limit) / limit, -math.log(level)
    never = log_e(some, 0, limit) < enough
    for _ in range(28):
        middle = (low + high) / 2
        far = log_e(some, middle, limit) >= enough
        low, high = np.where(far, middle, low), np.where(far, high, middle)
    found = interpolate.CubicSpline(np.log(some), low / some)
    counts = np.arange(1, most + 1)
    table = counts + np.floor(found(np.log(counts)) * counts + 0.1)
    table[: int(never.sum())] = 0
    return np.append(0, table)


def alarms(rate: Floats, limit: float, rows: int, level: float, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Say which streams ever raise an alarm, where stream i misses each row with probability rate[i]."""
    top = float(rate.max())
    table = last_alarm(limit, level, int(top * rows + 12 * math.sqrt(top * rows) + 50))
    misses, found, row = np.zeros(len(rate), dtype=np.int64), np.zeros(len(rate), dtype=np.bool_), 0
    while row < rows:
        block = int(min(max(1, 0.5 * math.sqrt(row / top)), rows - row))
        new = rng.binomial(block, rate)
        new = np.minimum(new, len(table) - 1 - misses)
        near = np.flatnonzero(~found & (new > 0) & (row + new <= table[misses + new]))
        order = rng.random((len(near), block)).argsort(axis=1).argsort(axis=1)
        after = misses[near, None] + np.cumsum(order < new[near, None], axis=1)
        found[near] = (row + np.arange(1, block + 1) <= table[after]).any(axis=1)
        misses += new
        row += block
    return found


def kept(found: NDArray[np.bool_], promised: float) -> bool:
    """Whether that many false alarms can be, if each has at most the promised probability."""
    test = stats.binomtest(int(found.sum()), len(found), promised, alternative="greater")
    return bool(test.pvalue > SURE)
