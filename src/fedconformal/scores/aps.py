"""Adaptive prediction sets: how much probability lies on labels at least as likely as this one.

Romano, Sesia and Candes, "Classification with valid and adaptive coverage", 2020.

Labels are ranked by their probabilities as they are. What is summed are the probabilities rounded to
multiples of 2^-40: such sums are exact in float64, so a score does not depend on the order of summation, and
the sorted and the unsorted way agree to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fedconformal.errors import InputError
from fedconformal.scores.base import Score
from fedconformal.validation import Booleans, Floats, Integers, Probabilities

GRID = 2.0**-40
SHIFT = 1.5 * 2.0**12
"""Adding and subtracting this rounds to the grid: numbers of that size are multiples of 2^-40."""

FIRST_DEPTH = 32


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
    top_first = True
    counts_ranks: ClassVar[bool] = False

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
        own = probs[np.arange(len(probs)), labels]
        ahead = probs > own[:, None]
        mass = on_grid(own)
        total = on_grid(probs * ahead) @ np.ones(probs.shape[1]) + mass
        ranks = 1 + count_true(ahead) if self.counts_ranks else np.ones(len(probs), dtype=np.int64)
        equal = np.equal(probs, own[:, None], out=ahead)
        if np.count_nonzero(equal) > len(probs):  # ties go by class index
            before = count_true(equal & (np.arange(probs.shape[1]) < labels[:, None]))
            total += before * mass
            ranks += before
        return self.combine(total, ranks, mass, self.draws(probs))

    def of_all(self, probs: Probabilities) -> Floats:
        """Score every label, in one stable sort a row."""
        order = np.argsort(-probs, axis=1, kind="stable")
        own = on_grid(np.take_along_axis(probs, order, axis=1))
        ranks = np.arange(1, probs.shape[1] + 1)
        scores = self.combine(own.cumsum(axis=1), ranks, own, self.draws(probs)[:, None])
        out = np.empty_like(scores)
        np.put_along_axis(out, order, scores, axis=1)
        return out

    def rule(self, limit: Floats) -> Callable[[Probabilities], Booleans]:
        """Look only at the top of each row: scores rise with the rank."""
        return super().rule(limit) if limit.ndim else TopOfRow(self, float(limit))

    def combine(self, total: Floats, ranks: NDArray[np.signedinteger], own: Floats, draws: Floats) -> Floats:
        """Put a score together; each step is one rounding, so it rises with the rank in floats too."""
        return total - draws * own if self.randomized else total

    def draws(self, probs: Probabilities) -> Floats:
        """Draw one U a row."""
        return uniform_hash(on_grid(probs), self.random_state) if self.randomized else np.zeros(len(probs))


class TopOfRow:
    """The labels that score at most a limit, from the largest probabilities of each row alone.

    Looks as deep as most rows of the last chunk needed; rows that need more are looked at as a whole.
    """

    def __init__(self, score: APS, limit: float) -> None:
        self._score = score
        self._limit = limit
        self._depth = FIRST_DEPTH

    def __call__(self, probs: Probabilities) -> Booleans:
        """Find the least probability that is in, and compare."""
        classes = probs.shape[1]
        draws = self._score.draws(probs)
        depth = min(self._depth, classes)
        count, least, tied = self._look(probs, draws, depth)
        deeper = np.flatnonzero(count == depth) if depth < classes else np.empty(0, dtype=np.intp)
        if deeper.size:
            count[deeper], least[deeper], tied[deeper] = self._look(probs[deeper], draws[deeper], classes)
        self._depth = int(np.partition(count, len(count) * 19 // 20)[len(count) * 19 // 20]) + 1
        members = probs >= least[:, None]
        unclear = np.flatnonzero(tied)  # equal probabilities on both sides of the limit go by class index
        if unclear.size:
            members[unclear] = self._score.of_all(probs[unclear]) <= self._limit
        return members

    def _look(self, probs: Probabilities, draws: Floats, depth: int) -> tuple[Integers, Probabilities, Booleans]:
        classes = probs.shape[1]
        if depth * 4 < classes:
            top = np.partition(probs, classes - depth, axis=1)[:, classes - depth :]
            top.sort(axis=1)
        else:
            top = np.sort(probs, axis=1)[:, classes - depth :]
        top = top[:, ::-1]
        own = on_grid(top)
        total = np.cumsum(own, axis=1)
        over = self._score.combine(total, np.arange(1, depth + 1), own, draws[:, None]) > self._limit
        count = np.where(over[:, -1], over.argmax(axis=1), depth)  # scores rise, so the first one over tells
        rows = np.arange(len(probs))
        least = np.where(count > 0, top[rows, count - 1], np.inf).astype(probs.dtype)
        following = top[rows, np.minimum(count, depth - 1)]
        return count, least, (count > 0) & (count < depth) & (following == least)


def on_grid(probs: Probabilities) -> Floats:
    """Round probabilities to multiples of 2^-40, half to even."""
    rounded = np.add(probs, SHIFT, dtype=np.float64)
    rounded -= SHIFT
    return rounded


def count_true(flags: Booleans) -> Integers:
    """Count along each row; as a product with ones this is several times faster than a sum."""
    return (flags.astype(np.float32) @ np.ones(flags.shape[1], dtype=np.float32)).astype(np.int64)


def uniform_hash(rounded: Floats, seed: int) -> Floats:
    """Hash each row of multiples of 2^-40 to a number in [0, 1), the same on every machine.

    A multilinear hash with one 64-bit key a column, then a finaliser (Steele, Lea and Flood, "SplitMix", 2014).
    """
    columns = np.arange(rounded.shape[1], dtype=np.uint64)
    keys = _mix(_mix(np.full_like(columns, seed)) + columns)
    mixed = _mix((rounded / GRID).astype(np.uint64) @ keys)
    return (mixed >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _mix(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    state = state + np.uint64(0x9E3779B97F4A7C15)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))
