"""Adaptive prediction sets (APS): the total probability of all labels at least as likely as the given label.

Labels are ranked by the given probabilities, but the sums are of probabilities rounded to multiples of 2^-40. Such sums
are exact in float64, so scores do not depend on the order of summation, and the sorted and the unsorted computation
agree bit for bit.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from fedconformal._base.arrays import Booleans, Floats, Integers, Probabilities, row_sums
from fedconformal.scores.score import Rule, Score, of_own_label

GRID = 2.0**-40
SHIFT = 1.5 * 2.0**12
"""Adding and subtracting this constant rounds to the grid: floats of its size are multiples of 2^-40."""
FIRST_DEPTH = 32
FEW = 512
SHORT = 256
"""Rows up to this length are sorted as fast as they are partitioned."""
COARSE = {dtype: GRID / float(np.finfo(dtype).eps) for dtype in (np.dtype(np.float32), np.dtype(np.float64))}
"""All floats of a type from this value on are multiples of 2^-40 and need no rounding; for float32, 2^-17."""


@dataclass(frozen=True, kw_only=True)
class APS(Score):
    """Sum of the probabilities from the largest down to the label's own, ties by class index.

    The randomised score subtracts a share U of the label's own probability. U is a hash of the row and `random_state`:
    equal rows have the same U in any batch and at any site, so the score is a fixed function, as validity requires.

    Parameters
    ----------
    randomized
        Whether to use the randomised score.
    random_state
        Seed of the hash.

    Examples
    --------
    >>> probs = [[0.5, 0.25, 0.25]]
    >>> APS().evaluate_all(probs)
    array([[0.5 , 0.75, 1.  ]])
    >>> APS(randomized=True, random_state=1).evaluate_all(probs).round(3)
    array([[0.115, 0.558, 0.808]])

    References
    ----------
    Romano, Sesia and Candes, "Classification with valid and adaptive coverage", 2020.
    """

    name = "aps"
    top_first = True
    counts_ranks: ClassVar[bool] = False

    randomized: bool = False
    random_state: int = 0

    def __post_init__(self) -> None:
        self._check("randomized", bool, 0, 1)
        self._check("random_state", int, 0, 2**63 - 1)

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        return cls(), cls(randomized=True, random_state=5)

    def of_labels(self, probs: Probabilities, labels: Integers) -> Floats:
        """Score one label per row, without sorting: add up all more probable labels."""
        own = of_own_label(probs, labels)
        mass = on_grid(own)
        ahead, tied = more_probable(probs, own)
        ranks = 1 - np.einsum("ij->i", ahead).astype(np.int64) if self.counts_ranks else np.ones(1, dtype=np.int64)
        ahead &= probs.view(ahead.dtype)
        total = grid_sums(ahead.view(probs.dtype), own) + mass
        if tied:  # ties go by class index
            before = count_true((probs == own[:, None]) & (np.arange(probs.shape[1]) < labels[:, None]))
            total += before * mass
            ranks = ranks + before
        return self.combine(total, ranks, self.taken_off(mass, self.draws(probs)))

    def of_all(self, probs: Probabilities) -> Floats:
        """Score every label, with one stable sort per row."""
        order = np.argsort(-probs, axis=1, kind="stable")
        own = on_grid(np.take_along_axis(probs, order, axis=1))
        ranks = np.arange(1, probs.shape[1] + 1)
        scores = self.combine(own.cumsum(axis=1), ranks, self.taken_off(own, self.draws(probs)[:, None]))
        out = np.empty_like(scores)
        np.put_along_axis(out, order, scores, axis=1)
        return out

    def largest(self, classes: int) -> float:
        """Return the score of the least likely label without randomisation: the sum of the row."""
        return float(self.combine(np.ones(1), np.array([classes]), None)[0])

    def rule(self, limit: Floats) -> Rule:
        """Return a rule that examines the top of each row only, as scores increase with the rank."""
        return super().rule(limit) if limit.ndim else TopOfRow(self, float(limit))

    def combine(self, total: Floats, ranks: NDArray[np.signedinteger], taken: Floats | None) -> Floats:
        """Combine the terms of a score, possibly in place; each step rounds once, so it is monotone in the rank."""
        return total if taken is None else total - taken

    def taken_off(self, own: Floats, draws: Floats) -> Floats | None:
        """Return the randomised term, U times the label's own probability; None without randomisation."""
        return draws * own if self.randomized else None

    def draws(self, probs: Probabilities) -> Floats:
        """Return U for each row."""
        return uniform_hash(on_grid(probs), self.random_state) if self.randomized else np.zeros(len(probs))


class TopOfRow:
    """Prediction sets computed from the largest probabilities of each row only.

    The depth is the one that most rows of the last chunk needed; deeper rows are processed as a whole. Threads share
    the depth, which affects the speed but not the sets.
    """

    def __init__(self, score: APS, limit: float) -> None:
        self._score = score
        self._limit = limit
        self._depth = FIRST_DEPTH

    def __call__(self, probs: Probabilities, sets: Booleans) -> None:
        """Find the least included probability of each row, and compare."""
        classes = probs.shape[1]
        draws = self._score.draws(probs)
        depth = min(self._depth, classes)
        ordered = largest(probs, depth)
        count, least = self._look(ordered, draws, depth)
        deeper = np.flatnonzero(count == depth) if depth < classes else np.empty(0, dtype=np.intp)
        if deeper.size:
            whole = ordered[deeper] if ordered.shape == probs.shape else largest(probs[deeper], classes)
            count[deeper], least[deeper] = self._look(whole, draws[deeper], classes)
        most = len(count) * 49 // 50
        self._depth = int(np.partition(count, most)[most]) + 1
        np.greater_equal(probs, least[:, None], out=sets)
        if np.count_nonzero(sets) > count.sum():  # ties at the limit are resolved by class index
            unclear = np.flatnonzero(count_true(sets) > count)
            sets[unclear] = self._score.of_all(probs[unclear]) <= self._limit

    def _look(self, ordered: Probabilities, draws: Floats, depth: int) -> tuple[Integers, Probabilities]:
        """Return the number of included top labels, and the least of their probabilities."""
        top = ordered[:, : -depth - 1 : -1]
        own = on_grid(top.T)  # one line per rank
        ranks = np.arange(1, depth + 1)[:, None]
        taken = self._score.taken_off(own, draws)
        inside = self._score.combine(running_sums(own), ranks, taken) <= self._limit
        # Scores increase, so the included ranks come first; counted in the smallest type that holds the depth.
        count = inside.view(np.uint8).sum(axis=0, dtype=np.min_scalar_type(depth)).astype(np.int64)
        least = of_own_label(ordered, ordered.shape[1] - np.maximum(count, 1))
        least[count == 0] = np.inf
        return count, least


def running_sums(lines: Floats) -> Floats:
    """Sum lines in place, with many columns one by one: half the time of `cumsum` along them."""
    if lines.shape[1] < FEW:
        return lines.cumsum(axis=0, out=lines)
    for last, line in itertools.pairwise(lines):
        np.add(last, line, out=line)
    return lines


def more_probable(probs: Probabilities, own: Probabilities) -> tuple[NDArray[np.signedinteger], bool]:
    """Return -1 (all bits set) where an entry exceeds its row's `own`, else 0; and whether there are ties."""
    rest = (own + 0.0)[:, None] - probs  # all bits are zero for ties: `own + 0.0` contains no -0.0
    signs: NDArray[np.signedinteger] = rest.view(f"i{probs.itemsize}")
    tied = bool(np.count_nonzero(signs) < signs.size - len(signs))
    signs >>= 8 * signs.itemsize - 1
    return signs, tied


def largest(probs: Probabilities, depth: int) -> Probabilities:
    """Return the `depth` largest entries of each row in ascending order; all entries of short rows."""
    # The bits of nonnegative floats, read as integers, have the same order and are sorted faster.
    bits = probs.view(f"i{probs.itemsize}")
    start = bits.shape[1] - depth
    if start and bits.shape[1] > SHORT:
        bits = np.partition(bits, start, axis=1)[:, start:]
    return np.sort(bits, axis=1).view(probs.dtype)


def on_grid(probs: Probabilities) -> Floats:
    """Round probabilities to multiples of 2^-40, half to even."""
    rounded: Floats = probs.astype(np.float64, order="C")
    rounded += SHIFT
    rounded -= SHIFT
    return rounded


def grid_sums(probs: Probabilities, least: Probabilities) -> Floats:
    """Sum the probabilities of each row on the grid; nonzero entries are at least the row's `least`."""
    # Rows of multiples of 2^-40 are summed without rounding.
    fine = np.flatnonzero(least < COARSE[probs.dtype])
    sums: Floats = np.einsum("ij->i", probs, dtype=np.float64)
    sums[fine] = row_sums(on_grid(probs[fine]))
    return sums


def count_true(flags: Booleans) -> Integers:
    """Count the true entries of each row."""
    return row_sums(flags.astype(np.float32)).astype(np.int64)


def uniform_hash(rounded: Floats, seed: int) -> Floats:
    """Hash each row of multiples of 2^-40 to a number in [0, 1), identically on every machine.

    A multilinear hash with one 64-bit key per column, then a finaliser (Steele, Lea and Flood, "SplitMix", 2014).
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
