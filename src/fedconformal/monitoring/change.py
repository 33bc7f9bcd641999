"""Change detection: bets against the exchangeability of new scores with the calibration scores.

Each new score gets a smoothed p-value among the calibration scores and all earlier new ones. While all are
exchangeable, these p-values are independent and uniform, whatever the scores are (Vovk, Gammerman and Shafer,
"Algorithmic learning in a random world", 2nd edition, 2022, chapter 8). The score of the top label needs no
outcome.

A bet multiplies its stake by f(p), which has mean one if p is uniform. Fixed shares of the stakes move between six
bets, so that a currently successful bet need not have been successful before (Herbster and Warmuth, "Tracking the best
expert", 1998): `C_j <- (.99 C_j + .01 mean C) f_j(p)`. The sum ever reaches 1 / d with probability d at most.
"""

from __future__ import annotations

import math
import secrets
import sqlite3
from bisect import bisect_left, bisect_right
from copy import copy
from dataclasses import dataclass, field
from typing import Annotated, Any, Self

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from fedconformal._base.arrays import Floats, Integers, as_scores
from fedconformal._base.names import abbreviate
from fedconformal.errors import InputError
from fedconformal.monitoring.monitor import is_count

FLOOR = 1e-6
"""Lower bound of p-values in the bets that diverge at zero."""
STAY, MOVE = 0.99, 0.01
"""Shares of a stake that stay with its bet at every row, and that are divided among all six."""
LARGE = 2.0**600
"""Stakes outside 1 / LARGE to LARGE are scaled by a power of two, which is exact."""
BLOCK = 1024
"""Number of new scores that are ranked together before they join the sorted scores."""


class Bets(msgspec.Struct, array_like=True, forbid_unknown_fields=True, frozen=True):
    """Stakes of the six bets."""

    stakes: Annotated[tuple[float, ...], msgspec.Meta(min_length=6, max_length=6)] = (1 / 6,) * 6
    doublings: int = 0
    """Exponent of a power of two by which all stakes are multiplied."""

    def __post_init__(self) -> None:
        if min(self.stakes) < 0 or not 1 / LARGE <= math.fsum(self.stakes) <= LARGE:
            raise ValueError("bets are too large or too small")

    def placed(self, p_values: Floats) -> Bets:
        """Return the bets after a sequence of p-values."""
        (a, b, c, d, e, f), doublings = self.stakes, self.doublings
        total = math.fsum(self.stakes)
        for u, v, w, x, y, z in payoffs(p_values).tolist():  # 1.6 times as fast as a loop over the six
            share = MOVE / 6 * total
            a = (STAY * a + share) * u
            b = (STAY * b + share) * v
            c = (STAY * c + share) * w
            d = (STAY * d + share) * x
            e = (STAY * e + share) * y
            f = (STAY * f + share) * z
            total = math.fsum((a, b, c, d, e, f))
            if not 1 / LARGE < total < LARGE:
                power = math.frexp(total)[1]
                a, b, c, d, e, f = (math.ldexp(stake, -power) for stake in (a, b, c, d, e, f))
                total, doublings = math.ldexp(total, -power), doublings + power
        return Bets((a, b, c, d, e, f), doublings)


def payoffs(p: Floats) -> Floats:
    """Return the payoff of each bet for each p-value; its mean is one if p is uniform.

    >>> payoffs(np.array([0.04, 0.64])).round(4)
    array([[1.    , 1.92  , 0.08  , 2.5   , 1.8386, 2.    ],
           [1.    , 0.72  , 1.28  , 0.625 , 0.8003, 0.8889]])
    """
    high = np.maximum(p, FLOOR)  # only where this lowers a payoff
    tail = np.where(p <= 0.1, 2, 8 / 9)
    return np.stack([np.ones_like(p), 2 - 2 * p, 2 * p, 0.5 * high**-0.5, 0.7 * high**-0.3, tail], axis=1)


@dataclass(frozen=True, eq=False, repr=False)
class ChangeDetector:
    """Evidence that scores have changed since the calibration; `update` returns the next state.

    Parameters
    ----------
    scores
        Calibration scores of the site and all new scores so far.
    random_state
        Seed of the draws that break ties.
    rows
        Number of new scores so far.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> watch = ChangeDetector(rng.random(500)).update(rng.random(200))
    >>> after = watch.update(rng.random(100) + 0.5)
    >>> round(watch.log_e_value, 1), round(after.log_e_value, 1)
    (-2.6, 82.9)
    """

    scores: Any
    random_state: int = 0
    rows: int = 0
    bets: Bets = field(default_factory=Bets)

    def __post_init__(self) -> None:
        values = as_scores(self.scores)
        values.sort()
        object.__setattr__(self, "scores", values)
        if not is_count(self.random_state):
            raise InputError(f"random_state is {abbreviate(self.random_state)}, expected a whole number from 0")
        if not 0 <= self.rows < len(values):
            raise InputError(f"{self.rows} new rows, and {len(values)} scores in all: there is no calibration score")

    def update(self, new_scores: ArrayLike) -> Self:
        """Return the state with the scores of new rows, in order of arrival."""
        if not np.size(new_scores):
            return self
        state, new = copy(self), as_scores(new_scores)  # a new one would check and sort all scores again
        for start in range(0, len(new), BLOCK):
            block = new[start : start + BLOCK]
            ordered = np.sort(block)
            scores = np.insert(state.scores, np.searchsorted(state.scores, ordered), ordered)
            bets = state.bets.placed(state.p_values(block))
            state.__dict__.update(scores=scores, rows=state.rows + len(block), bets=bets)
        return state

    def p_values(self, new: Floats) -> Floats:
        """Return the smoothed p-value of each new score among the calibration scores and all earlier scores."""
        older = [np.searchsorted(self.scores, new, side=side) for side in ("left", "right")]
        seen: list[float] = []
        ranks = []
        for score in new.tolist():
            ranks.append((bisect_left(seen, score), bisect_right(seen, score)))
            seen.insert(ranks[-1][1], score)
        below, upto = np.transpose(ranks) + older
        draws = np.random.Generator(np.random.PCG64(self.random_state).advance(self.rows)).random(len(new))
        ties = (upto - below + 1) * draws
        count = len(self.scores) + np.arange(len(new))
        p: Floats = (count - upto + ties) / (count + 1)
        return p

    @property
    def log_e_value(self) -> float:
        """Logarithm of the evidence of a change since the start."""
        return math.log(math.fsum(self.bets.stakes)) + self.bets.doublings * math.log(2)


class StoredDetector:
    """The change detector in the file of a watch; it raises the alarm at the end of a day with enough evidence."""

    def __init__(self, connection: sqlite3.Connection, false_alarm: float) -> None:
        self._connection, self.enough = connection, -math.log(false_alarm)
        self._held: ChangeDetector | None = None

    @staticmethod
    def begin(connection: sqlite3.Connection, scores: Floats) -> None:
        """Store the calibration scores and a random seed, so that watches break ties independently."""
        _append(connection, -1, as_scores(scores))
        values = (secrets.randbits(48), msgspec.msgpack.encode(Bets()))
        connection.execute("INSERT INTO detector VALUES (0, ?, 0, ?, NULL)", values)

    def read(self) -> ChangeDetector | None:
        """Return the current state; None without a detector."""
        row = self._connection.execute("SELECT seed, rows, bets FROM detector").fetchone()
        if row is None:
            return None
        seed, rows, bets = row
        if self._held is None or self._held.rows != rows:  # another process may have written
            parts = self._connection.execute("SELECT scores FROM scores ORDER BY first")
            scores = np.frombuffer(b"".join(part for (part,) in parts), dtype="<f8")
            state = msgspec.msgpack.decode(bets, type=Bets)
            self._held = ChangeDetector(scores, random_state=seed, rows=rows, bets=state)
        return self._held

    def update(self, scores: Floats, days: Integers) -> None:
        """Add the scores of new rows in order, each with its day."""
        detector = self.read()
        if detector is None or not len(scores):
            return
        starts = [0, *(np.flatnonzero(np.diff(days)) + 1).tolist()]
        for start, end in zip(starts, [*starts[1:], len(scores)], strict=True):
            _append(self._connection, detector.rows, scores[start:end])
            detector = detector.update(scores[start:end])
            noticed = int(days[start]) if detector.log_e_value >= self.enough else None
            self._connection.execute(
                "UPDATE detector SET rows = ?, bets = ?, alarm_day = coalesce(alarm_day, ?)",
                (detector.rows, msgspec.msgpack.encode(detector.bets), noticed),
            )
        self._held = detector

    def forget(self) -> None:
        """Drop the state in memory after a failed transaction."""
        self._held = None

    def changed(self, last: int) -> int | None:
        """Return the day of the alarm; None if it was not raised by the day `last`."""
        row = self._connection.execute("SELECT alarm_day FROM detector WHERE alarm_day <= ?", (last,)).fetchone()
        return None if row is None else int(row[0])


def _append(connection: sqlite3.Connection, first: int, scores: Floats) -> None:
    data = np.ascontiguousarray(scores, dtype="<f8").tobytes()
    connection.execute("INSERT INTO scores VALUES (?, ?)", (first, data))
