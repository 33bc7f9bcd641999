"""Adaptive prediction sets: how much probability lies on labels at least as likely as this one.

Romano, Sesia and Candes, "Classification with valid and adaptive coverage", 2020.

Probabilities are rounded to multiples of 2^-40 first. Sums of such numbers are exact in float64, so a
score does not depend on the order of summation, and the sorted and the unsorted way agree to the last bit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedconformal.errors import InputError
from fedconformal.scores.base import Score
from fedconformal.validation import Floats, Integers, Probabilities

UNIT = 2.0**40


@dataclass(frozen=True, kw_only=True)
class APS(Score):
    """Sum of the probabilities from the largest down to the label's own, ties by class index.

    With `randomized=True` a share U of the label's own probability is taken off, one U an example. U is a
    hash of the row and `random_state`: whoever scores the same row, in whatever batch, draws the same U. So
    the score stays one fixed function, which is all that validity needs. (Rows that are equal to the last
    bit share their U; that costs a little sharpness, never coverage.)

    >>> probs = [[0.5, 0.25, 0.25]]
    >>> APS().evaluate_all(probs)
    array([[0.5 , 0.75, 1.  ]])
    >>> APS(randomized=True, random_state=1).evaluate_all(probs).round(3)
    array([[0.115, 0.558, 0.808]])
    """

    name = "aps"

    randomized: bool = False
    random_state: int = 0

    def __post_init__(self) -> None:
        """Check the parameters."""
        if not isinstance(self.randomized, bool):
            raise InputError(f"randomized is {self.randomized!r}, expected True or False")
        if isinstance(self.random_state, bool) or not isinstance(self.random_state, int):
            raise InputError(f"random_state is {self.random_state!r}, expected a whole number")
        if not 0 <= self.random_state < 2**63:
            raise InputError(f"random_state is {self.random_state}, expected a number from 0 to 2^63 - 1")

    def of_labels(self, probs: Probabilities, labels: Integers) -> Floats:
        """Score one label a row; no sort: everything more probable is ahead of it."""
        units = in_units(probs)
        own = units[np.arange(len(units)), labels, None]
        ahead = units > own
        ahead |= (units == own) & (np.arange(units.shape[1]) <= labels[:, None])
        total = np.einsum("ij,ij->i", units, ahead)
        return self._combine(total, np.count_nonzero(ahead, axis=1), own[:, 0], self._draws(units))

    def of_all(self, probs: Probabilities) -> Floats:
        """Score every label, in one stable sort a row."""
        units = in_units(probs)
        order = np.argsort(-units, axis=1, kind="stable")
        own = np.take_along_axis(units, order, axis=1)
        ranks = np.arange(1, units.shape[1] + 1)
        scores = self._combine(own.cumsum(axis=1), ranks, own, self._draws(units)[:, None])
        out = np.empty_like(scores)
        np.put_along_axis(out, order, scores, axis=1)
        return out

    def _combine(self, total: Floats, ranks: NDArray[np.signedinteger], own: Floats, draws: Floats) -> Floats:
        scores = total / UNIT
        if self.randomized:
            scores -= draws * (own / UNIT)
        return scores + self._penalties(ranks)

    def _penalties(self, ranks: NDArray[np.signedinteger]) -> Floats:
        return np.zeros(ranks.shape)

    def _draws(self, units: Floats) -> Floats:
        if not self.randomized:
            return np.zeros(len(units))
        return uniform_hash(units, self.random_state)


def in_units(probs: Probabilities) -> Floats:
    """Round probabilities to whole multiples of 2^-40; sums stay exact up to 2^13."""
    units = np.multiply(probs, UNIT, dtype=np.float64)
    return np.rint(units, out=units)


def uniform_hash(units: Floats, seed: int) -> Floats:
    """Hash each row of whole numbers to a number in [0, 1), the same on every machine.

    A multilinear hash with one 64-bit key a column, then a finaliser (Steele, Lea and Flood, "SplitMix", 2014).
    """
    columns = np.arange(units.shape[1], dtype=np.uint64)
    keys = _mix(_mix(np.full_like(columns, seed)) + columns)
    mixed = _mix(units.astype(np.uint64) @ keys)
    return (mixed >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _mix(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    state = state + np.uint64(0x9E3779B97F4A7C15)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))
