"""Change detection: bets against "new scores are exchangeable with the calibration scores".

Each new score gets a smoothed p-value among the calibration scores and all earlier new ones. While all are
exchangeable, these p-values are independent and uniform, whatever the scores are (Vovk, Gammerman and Shafer,
"Algorithmic learning in a random world", 2nd edition, 2022, chapter 8). With top-label scores no labels are needed.

A bet multiplies its stake by f(p), which is one on average if p is uniform. Money moves between six bets by fixed
shares, so that a bet which is right now need not have been right before:

- the e-process `C_j <- (.99 C_j + .01 mean C) f_j(p)` answers "has anything changed since the start?"; it ever reaches
  1 / d with probability d at most;
- the detectors `M_j <- f_j(p) (M_j + 1)` begin anew at every row and answer "did it change, and since when?"; while
  nothing changes, the mean number of rows before their mean reaches 1 / d is at least 1 / d.

Herbster and Warmuth, "Tracking the best expert", 1998, for the shares; Shin, Ramdas and Rinaldo, "E-detectors", 2024.
"""

from __future__ import annotations

import math
from copy import copy
from dataclasses import dataclass, field
from typing import Any, Self

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from fedconformal._base.arrays import Floats, Integers, as_scores
from fedconformal._base.names import abbreviate
from fedconformal.errors import InputError
from fedconformal.monitoring.monitor import is_count

FLOOR = 1e-6
"""P-values below this count as this."""

STAY, MOVE = 0.99, 0.01
"""What stays with a bet at every row, and what is shared among all six."""

LARGE = 2.0**600
"""Stakes outside 1 / LARGE to LARGE are scaled by a power of two, which costs no bit. Detectors stop there."""

BETS_AT_ONCE = 2**16
"""P-values that are bet on at a time; it changes no bit."""

LEAST = 1e-100
"""What a lost bet pays, so that its logarithm exists."""


class Bets(msgspec.Struct, array_like=True, forbid_unknown_fields=True, frozen=True):
    """What the six bets are worth, and for each but the constant one its detector and where its run began."""

    stakes: tuple[float, float, float, float, float, float] = (1 / 6,) * 6
    doublings: int = 0
    """All stakes are to be multiplied by two to the power of this."""
    detectors: tuple[float, float, float, float, float] = (0.0,) * 5
    sums: tuple[float, float, float, float, float] = (0.0,) * 5
    """The logarithm of what a bet has won since the start."""
    lows: tuple[float, float, float, float, float] = (0.0,) * 5
    """The lowest of these logarithms so far, one row ago."""
    starts: tuple[int, int, int, int, int] = (0,) * 5
    """The number of rows after which it was lowest, for the last time: there the run of a bet begins."""
    alarm_at: int | None = None
    since: int | None = None

    def __post_init__(self) -> None:
        numbers = (*self.stakes, *self.detectors, *self.sums, *self.lows)
        if not all(map(math.isfinite, numbers)) or min(self.stakes) < 0 or min(self.detectors) < 0:
            raise ValueError("bets are not finite and positive")
        if not 1 / LARGE <= math.fsum(self.stakes) <= LARGE or max(self.detectors) > LARGE or max(self.lows) > 0:
            raise ValueError("bets are too large or too small")

    def after(self, rows: int) -> bool:
        """Whether this can be the state after this number of rows."""
        places = [0 if place is None else place for place in (*self.starts, self.alarm_at, self.since)]
        return min(places) >= 0 and max(places) <= rows and (self.alarm_at is None) == (self.since is None)

    def placed(self, p_values: Floats, first: int, enough: float) -> Bets:
        """Place all bets on one p-value after the other, the first of which is that of row `first`."""
        bets = self
        for start in range(0, len(p_values), BETS_AT_ONCE):
            bets = bets._placed(p_values[start : start + BETS_AT_ONCE], first + start, enough)
        return bets

    def _placed(self, p_values: Floats, first: int, enough: float) -> Bets:
        won = payoffs(p_values)[:, 1:]
        rows = won.tolist()
        stakes, doublings = _staked(self.stakes, self.doublings, rows)
        detectors, place, highest = _detected(self.detectors, rows, enough if self.alarm_at is None else math.inf)
        runs = [_runs(*one, first) for one in zip(won.T, self.sums, self.lows, self.starts, strict=True)]
        alarm_at, since = self.alarm_at, self.since
        if place is not None:
            alarm_at, since = first + place + 1, int(runs[highest][2][place])
        return Bets(
            stakes,
            doublings,
            detectors,
            tuple(float(sums[-1]) for sums, _, _ in runs),  # type: ignore[arg-type]
            tuple(float(lows[-1]) for _, lows, _ in runs),  # type: ignore[arg-type]
            tuple(int(starts[-1]) for _, _, starts in runs),  # type: ignore[arg-type]
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


Six = tuple[float, float, float, float, float, float]
Five = tuple[float, float, float, float, float]


def _staked(stakes: Six, doublings: int, rows: list[list[float]]) -> tuple[Six, int]:
    """Follow the stakes of all six bets, spelled out as that is several times as fast."""
    c, u, d, v, w, t = stakes
    total, share, low, high = c + u + d + v + w + t, MOVE / 6, 1 / LARGE, LARGE
    for f, g, h, i, j in rows:
        common = share * total
        c = STAY * c + common
        u = (STAY * u + common) * f
        d = (STAY * d + common) * g
        v = (STAY * v + common) * h
        w = (STAY * w + common) * i
        t = (STAY * t + common) * j
        total = c + u + d + v + w + t
        if not low < total < high:
            power = math.frexp(total)[1]
            c, u, d, v, w, t = (math.ldexp(stake, -power) for stake in (c, u, d, v, w, t))
            total = math.ldexp(total, -power)
            doublings += power
    return (c, u, d, v, w, t), doublings


def _detected(detectors: Five, rows: list[list[float]], enough: float) -> tuple[Five, int | None, int]:
    """Follow the detectors; and say in which row their mean first was enough, and which was the highest there."""
    u, d, v, w, t = detectors
    place, highest, look = None, 0, min(5 * enough * (1 - 1e-9), LARGE)
    for row, (f, g, h, i, j) in enumerate(rows):
        u = f * (u + 1)
        d = g * (d + 1)
        v = h * (v + 1)
        w = i * (w + 1)
        t = j * (t + 1)
        if u + d + v + w + t >= look:
            now = [u, d, v, w, t]
            if place is None and (u + d + v + w + t) / 5 >= enough:
                place, highest, look = row, now.index(max(now)), LARGE
            u, d, v, w, t = (min(one, LARGE) for one in now)
    return (u, d, v, w, t), place, highest


def _runs(won: Floats, total: float, low: float, start: int, first: int) -> tuple[Floats, Floats, Integers]:
    """Follow what one bet has won since the start, the lowest of it before each row, and where that was."""
    sums = np.cumsum(np.append(total, np.log(won)))
    lows = np.minimum.accumulate(np.append(low, sums[:-1]))[1:]
    begun = np.where(sums[:-1] <= lows, first + np.arange(len(won)), start)
    return sums[1:], lows, np.maximum.accumulate(begun)


BLOCK = 32
"""New scores that are ranked among themselves at first: all pairs of them are compared."""


def _compared(old: Floats, new: Floats) -> tuple[Integers, Integers]:
    """Count for each new score how many are above it, and how many equal, of the old ones and of those before it."""
    order, count = np.argsort(new, kind="stable"), np.arange(len(new))
    ordered = new[order]
    below, upto = (np.searchsorted(old, ordered, side=side) for side in ("left", "right"))
    begins = np.append(True, ordered[1:] != ordered[:-1])
    rank, above, equal = np.empty_like(count), np.empty_like(count), np.empty_like(count)
    rank[order] = count
    above[order] = len(old) - upto
    equal[order] = upto - below + count - np.maximum.accumulate(np.where(begins, count, 0))
    return above + _larger_before(rank), equal


def _larger_before(rank: Integers) -> Integers:
    """Count for each of the different numbers from 0 how many before it are larger, by blocks that double in size."""
    size = max(BLOCK, 1 << (len(rank) - 1).bit_length())
    runs = np.append(rank, np.arange(len(rank), size)).reshape(-1, BLOCK)
    found = np.empty(size, dtype=np.int64)
    found[runs] = (np.tri(BLOCK, k=-1, dtype=np.bool_) & (runs[:, None, :] > runs[:, :, None])).sum(axis=2)
    runs, width = np.sort(runs, axis=1), BLOCK
    while width < size:
        first, second = runs[::2], runs[1::2]
        pair = np.arange(len(first))[:, None]
        place = np.searchsorted((first + size * pair).ravel(), (second + size * pair).ravel())  # all at once
        found[second] += width * (pair + 1) - place.reshape(second.shape)
        width *= 2
        runs = np.sort(runs.reshape(-1, width), axis=1, kind="stable")  # which merges two runs
    return found[rank]


@dataclass(frozen=True, eq=False, repr=False)
class ChangeDetector:
    """The bets so far, and the scores that new ones are ranked among; `update` returns the next state.

    Attributes:
        scores: the site's calibration scores, and all new ones so far, in ascending order.
        random_state: the seed of the draws that break ties.
        every: the least mean number of rows from one false alarm to the next.

    >>> rng = np.random.default_rng(1)
    >>> watch = ChangeDetector(rng.random(500), random_state=0).update(rng.random(200))
    >>> watch, watch.update(rng.random(100) + 0.5)
    (<no change in 200 rows>, <alarm at row 204: changed since row 199>)
    """

    scores: Any
    random_state: int = 0
    every: float = 1000.0
    rows: int = 0
    bets: Bets = field(default_factory=Bets)

    def __post_init__(self) -> None:
        values = as_scores(self.scores)
        values.sort()
        object.__setattr__(self, "scores", values)
        if not is_count(self.random_state):
            raise InputError(f"random_state is {abbreviate(self.random_state)}, expected a whole number from 0")
        if not math.isfinite(self.every) or self.every <= 1:
            raise InputError(f"every is {abbreviate(self.every)}, expected a number of rows above 1")
        if not 0 <= self.rows < len(values):
            raise InputError(f"{self.rows} new rows, and {len(values)} scores in all: there is no calibration score")
        if not self.bets.after(self.rows):
            raise InputError(f"the bets are not those after {self.rows} rows")

    def update(self, new_scores: ArrayLike) -> Self:
        """Add the scores of new rows, in the order in which they came."""
        new = as_scores(new_scores) if np.size(new_scores) else np.empty(0)
        if not len(new):
            return self
        bets = self.bets.placed(self.p_values(new), self.rows, self.every)
        together = np.concatenate([self.scores, new])
        together.sort(kind="stable")  # which merges two runs
        found = copy(self)  # and not a new one, which would check and sort all scores again
        for name, value in {"scores": together, "rows": self.rows + len(new), "bets": bets}.items():
            object.__setattr__(found, name, value)
        return found

    def p_values(self, new: Floats) -> Floats:
        """Return the smoothed p-value of each new score among the calibration scores and all before it."""
        above, equal = _compared(self.scores, new)
        draws = np.random.Generator(np.random.PCG64(self.random_state).advance(self.rows)).random(len(new))
        ties = (equal + 1) * draws
        return (above + ties) / (len(self.scores) + np.arange(1, len(new) + 1))

    @property
    def log_e_value(self) -> float:
        """The evidence that anything has changed since the start."""
        return math.log(math.fsum(self.bets.stakes)) + self.bets.doublings * math.log(2)

    @property
    def detector(self) -> float:
        """The evidence that something has changed at some row."""
        return math.fsum(self.bets.detectors) / len(self.bets.detectors)

    @property
    def alarm_at(self) -> int | None:
        """The row at which the detector first reached `every`."""
        return self.bets.alarm_at

    @property
    def since(self) -> int | None:
        """The last row before the change, as far as the bet that noticed it can tell; None without an alarm."""
        return self.bets.since

    @property
    def begun(self) -> int:
        """The number of rows before the run of the bet that wins most now: where a change began, if there is one."""
        return self.bets.starts[max(range(len(self.bets.starts)), key=lambda bet: self.bets.detectors[bet])]

    def __repr__(self) -> str:
        if self.alarm_at is None:
            return f"<no change in {self.rows} rows>"
        return f"<alarm at row {self.alarm_at}: changed since row {self.since}>"
