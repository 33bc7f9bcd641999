"""Six bets on p-values that are uniform while nothing changes, as an e-process and as detectors.

A bet multiplies its stake by f(p), which is one on average if p is uniform. Money moves between the six by fixed
shares, so that a bet which is right now need not have been right before:

- the e-process `C_j <- (.99 C_j + .01 mean C) f_j(p)` answers "has anything changed since the start?"; it ever reaches
  1 / d with probability d at most;
- the detectors `M_j <- f_j(p) (M_j + 1)` begin anew at every row and answer "did it change, and since when?"; while
  nothing changes, the mean number of rows before their mean reaches 1 / d is at least 1 / d.

Herbster and Warmuth, "Tracking the best expert", 1998, for the shares; Shin, Ramdas and Rinaldo, "E-detectors", 2024.
"""

from __future__ import annotations

import math
from itertools import accumulate

import msgspec
import numpy as np

from fedconformal._base.arrays import Floats, Integers

FLOOR = 1e-6
"""P-values below this count as this."""

STAY, MOVE = 0.99, 0.01
"""What stays with a bet at every row, and what is shared among all six."""

LARGE = 2.0**600
"""Stakes outside 1 / LARGE to LARGE are scaled by a power of two, which costs no bit."""

LEAST = 1e-100
"""What a lost bet pays, so that its logarithm exists."""


class Bets(msgspec.Struct, array_like=True, forbid_unknown_fields=True, frozen=True):
    """What the six bets are worth, and for each but the constant one its detector and where its run began."""

    stakes: tuple[float, float, float, float, float, float] = (1 / 6,) * 6
    doublings: int = 0
    """All stakes are to be multiplied by two to the power of this."""
    detectors: tuple[float, float, float, float, float] = (0.0,) * 5
    runs: tuple[float, float, float, float, float] = (0.0,) * 5
    """The logarithm of what a bet has won since it was last worth at most one."""
    starts: tuple[int, int, int, int, int] = (0,) * 5
    """The number of rows before these runs."""
    alarm_at: int | None = None
    since: int | None = None

    def __post_init__(self) -> None:
        numbers = (*self.stakes, *self.detectors, *self.runs)
        if not all(map(math.isfinite, numbers)) or min(self.stakes) < 0 or min(self.detectors) < 0:
            raise ValueError("bets are not finite and positive")

    def placed(self, p_values: Floats, first: int, enough: float) -> Bets:
        """Place all bets on one p-value after the other, the first of which is that of row `first`."""
        won = payoffs(p_values)
        (c, u, d, v, w, t), doublings = self.stakes, self.doublings
        for f, g, h, i, j in won[:, 1:].tolist():  # spelled out, as it is three times as fast
            common = MOVE / 6 * (c + u + d + v + w + t)
            c = STAY * c + common
            u = (STAY * u + common) * f
            d = (STAY * d + common) * g
            v = (STAY * v + common) * h
            w = (STAY * w + common) * i
            t = (STAY * t + common) * j
            if not 1 / LARGE < c + u + d + v + w + t < LARGE:
                power = math.frexp(c + u + d + v + w + t)[1]
                c, u, d, v, w, t = (math.ldexp(stake, -power) for stake in (c, u, d, v, w, t))
                doublings += power
        columns = [_detected(*one) for one in zip(won.T[1:], self.detectors, strict=True)]
        runs = [_runs(*one, first) for one in zip(won.T[1:], self.runs, self.starts, strict=True)]
        above = np.flatnonzero(np.mean(columns, axis=0) >= enough)
        alarm_at, since = self.alarm_at, self.since
        if alarm_at is None and len(above):
            place = int(above[0])
            highest = max(range(5), key=lambda bet: columns[bet][place])
            alarm_at, since = first + place + 1, int(runs[highest][1][place])
        return Bets(
            (c, u, d, v, w, t),
            doublings,
            tuple(min(column[-1], LARGE) for column in columns),  # type: ignore[arg-type]
            tuple(float(run[-1]) for run, _ in runs),  # type: ignore[arg-type]
            tuple(int(starts[-1]) for _, starts in runs),  # type: ignore[arg-type]
            alarm_at,
            since,
        )


def payoffs(p: Floats) -> Floats:
    """Return what each bet pays for each p-value; each pays one on average if p is uniform.

    >>> payoffs(np.array([0.04, 0.64])).round(4)
    array([[1.    , 1.92  , 0.08  , 2.5   , 1.8386, 2.    ],
           [1.    , 0.72  , 1.28  , 0.625 , 0.8003, 0.8889]])
    """
    high = np.maximum(p, FLOOR)  # only where that makes a bet pay less
    tail = np.where(p <= 0.1, 2, 8 / 9)
    won = np.stack([np.ones_like(p), 2 - 2 * p, 2 * p, 0.5 * high**-0.5, 0.7 * high**-0.3, tail], axis=1)
    paid: Floats = np.maximum(won, LEAST)
    return paid


def _detected(won: Floats, detector: float) -> list[float]:
    """Follow the detector of one bet."""
    return list(accumulate(won.tolist(), lambda value, f: f * (value + 1), initial=detector))[1:]


def _runs(won: Floats, run: float, start: int, first: int) -> tuple[Floats, Integers]:
    """Follow the runs of one bet, which begin anew when it is worth at most one; and how many rows are before them."""
    sums = max(run, 0.0) + np.append(0, np.cumsum(np.log(won)))
    ends = np.minimum.accumulate(np.minimum(sums[:-1], 0.0))
    row = first + np.arange(len(won))
    begun = np.where((sums[:-1] <= ends) & ((row > first) | (run <= 0)), row, start)
    return sums[1:] - ends, np.maximum.accumulate(begun)
