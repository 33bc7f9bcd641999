"""Order statistics from sums alone: radix select over public cells.

In each round every site counts its rows in the parts of the current cell; the part at which the cumulative sum reaches
the target is the next cell. The upper edge of the last cell is the threshold, never below the exact one.

Scores are counted in 4,096 cells, which include their upper edges; every edge is an exact binary fraction. Edges are
fourth powers on both sides of 0 and of 1, where the scores of a confident model concentrate, and eighths of octaves
further out, up to 2^64. For regression scores all edges are multiplied by a public power of two, the `reach`.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fedconformal._base.arrays import Floats, Keys, keys_of
from fedconformal.errors import InputError
from fedconformal.guarantees import FCP, PAC, Guarantee, Mixture
from fedconformal.guarantees.guarantee import Counts

WIDTH = 3
"""Bits per round: a cell is split into eight parts."""
LEAST = 50
"""Minimum rows to split a cell into eight parts; half of it suffices for four parts, a quarter for two."""
JOINED = 61
"""Bit position in a prefix, above the digits, of the number of joined low bits."""
FARTHEST = 512
"""Maximum absolute exponent of a reach."""

LOST = "a site was lost after the first sum"
LAST = "it was the last round"
"""Reasons to stop a search."""

QUARTER, OCTAVES, EIGHTHS = 1024, 64, 8

Counted = NDArray[np.unsignedinteger[Any]]


def exponent_of(reach: Any) -> int:
    """Return the exponent of the smallest power of two that is at least `reach`."""
    if isinstance(reach, bool) or not isinstance(reach, int | float) or not 2.0**-FARTHEST <= reach <= 2.0**FARTHEST:
        raise InputError(
            f"reach is {reach!r:.40}, expected a positive number that the threshold will not exceed", param="reach"
        )
    fraction, exponent = math.frexp(reach)
    return exponent - (fraction == 0.5)


@lru_cache(maxsize=4)
def edges(exponent: int = 0) -> Floats:
    """Return the upper edges of all cells, for a reach of 2 to the power of `exponent`.

    >>> edges()[[0, 1023, 2047, 3071]].tolist(), len(edges())
    ([-1.7293822569102705e+19, 0.0, 0.5, 1.0], 4096)
    >>> edges(7)[[1023, 2047, 3071]].tolist()
    [0.0, 64.0, 128.0]
    """
    half = np.arange(1, QUARTER + 1) ** 4 / (2 * QUARTER**4)
    near = np.arange(1, QUARTER // 2 + 1) ** 4 / (QUARTER // 2) ** 4
    far = np.ldexp(1 + np.tile(np.arange(1, EIGHTHS + 1) / EIGHTHS, OCTAVES), np.repeat(np.arange(OCTAVES), EIGHTHS))
    below = -np.concatenate([[0.0], near, far[:-1]])[::-1] + 0.0
    unscaled = np.concatenate([below, half, 1 - half[:-1][::-1], [1.0], 1 + near, 2 * far[:-1]])
    return np.append(np.ldexp(unscaled, exponent), np.finfo(np.float64).max)


@dataclass(frozen=True)
class Search:
    """State of a search: the round, the digits so far, and the number of rows below them."""

    number: int = 0
    prefix: int = 0
    """The digits, and above them the number of joined low bits of the next digit."""
    below: int = 0
    answer: float | None = None
    """The threshold, once found."""
    stopped: str = ""

    @property
    def digits(self) -> int:
        """The digits so far."""
        return self.prefix & (1 << JOINED) - 1

    @property
    def joined(self) -> int:
        """Number of joined low bits of the next digit: 1 splits a cell into half as many parts."""
        return self.prefix >> JOINED


@dataclass(frozen=True, eq=False)
class Rounds:
    """Rounds of the search for the smallest edge at which the count over all sites reaches the target.

    >>> rounds = Rounds(np.array([0.25, 0.5, 0.75, 1.0]), target=2, rows=3)
    >>> rounds.widths, rounds.histogram(Search(), keys_of(np.array([-1.0, 0.5, 0.6])))
    ((2,), array([1, 1, 1, 0], dtype=uint32))
    """

    edges: Floats
    target: int
    rows: int
    unit: int = 1
    """Weight of a whole row; the target is in the same units."""

    noisy: ClassVar[bool] = False
    start: ClassVar[Search] = Search()

    @cached_property
    def bits(self) -> int:
        """Number of bits of a cell's index."""
        return max(1, (len(self.edges) - 1).bit_length())

    @cached_property
    def widths(self) -> tuple[int, ...]:
        """Number of bits of each round."""
        return tuple(min(WIDTH, self.bits - done) for done in range(0, self.bits, WIDTH))

    @property
    def steps(self) -> int:
        """Maximum number of rounds."""
        return len(self.widths)

    def extends(self, before: Search | None, after: Search) -> bool:
        """Return whether a question is the first one, or refines the cell of the one before it."""
        if before is None:
            return (after.number, after.prefix) == (0, 0)
        inside = after.digits >> self.widths[before.number] == before.digits
        return after.number == before.number + 1 and inside and not before.joined

    def check_noise(self, counted: Collection[int]) -> None:
        """Accept any sum, because no noise is required."""

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """The smallest word in which no sum wraps around."""
        return np.dtype("<u4") if self.unit * self.rows < 2**32 else np.dtype("<u8")

    def cells(self, number: int) -> int:
        """Return the number of counts that a site sends in this round."""
        return 1 << self.widths[number]

    def histogram(self, search: Search, keys: Keys, weights: Keys | None = None) -> Counted:
        """Return the counts of one site's rows in each part of the current cell, optionally weighted."""
        width = self.widths[search.number]
        digits = np.searchsorted(keys_of(self.edges), keys) >> self.bits - sum(self.widths[: search.number + 1])
        inside = digits >> width == search.digits
        parts = digits[inside] & (1 << width) - 1 | (1 << min(search.joined, width)) - 1  # the last of joined parts
        counts = np.zeros(1 << width, dtype=np.uint64)
        np.add.at(counts, parts, self.unit if weights is None else weights[inside])
        return counts.astype(self.dtype)

    def advance(self, search: Search, total: Counted, present: frozenset[int]) -> Search:
        """Return the search at the digit where the sum reaches the target, or +inf; missing counts raise it."""
        if int(total.sum(dtype=object)) > self.unit * self.rows:
            raise InputError(
                f"the sum of round {search.number} is impossible: a site sent something else than its counts"
            )
        reached = search.below + np.cumsum(total.astype(object))
        digit = int(np.searchsorted(reached, self.target))
        if digit == len(reached):
            if search.number == 0:
                return Search(1, answer=math.inf, stopped="the rows that were counted are too few for alpha")
            digit -= 1  # scores of this cell were lost after they were counted: its upper edge is valid
            why, joined = "rows are missing that were counted before", None
        elif search.number + 1 == self.steps:
            why, joined = LAST, None
        else:
            joined = None if search.joined else self._joined(search.number + 1, int(total[digit]))
            why = f"its cell has fewer than {LEAST} rows" if joined is None else ""
        number, digits = search.number + 1, search.digits << self.widths[search.number] | digit
        if why:
            return Search(number, search.joined << JOINED | digits, answer=self._edge(number, digits), stopped=why)
        return Search(number, (joined or 0) << JOINED | digits, int(reached[digit - 1]) if digit else search.below)

    def stopped(self, search: Search) -> Search:
        """Return the search stopped at its current cell."""
        edge = self._edge(search.number, search.digits)
        return Search(search.number, search.digits, answer=edge, stopped=LOST)

    def _joined(self, number: int, weight: int) -> int | None:
        """Return the number of joined bits at which parts are large enough (see `LEAST`); None without a split."""
        enough = LEAST * self.unit
        return next((joined for joined in range(self.widths[number]) if weight << joined >= enough), None)

    def _edge(self, number: int, digits: int) -> float:
        """Return the upper edge of a cell."""
        last = (digits + 1 << self.bits - sum(self.widths[:number])) - 1
        return float(self.edges[min(last, len(self.edges) - 1)])


def check_summable(guarantee: Guarantee) -> Guarantee:
    """Refuse a guarantee that needs more than one sum over all rows; a weighted sum would reveal its terms."""
    if isinstance(guarantee, Mixture | FCP | PAC) and not guarantee.sites_apart:
        return guarantee
    raise InputError(
        f"{guarantee.name} needs every site's own counts, or weighs sites apart, and sums hide them; with sums only "
        "there are mixture by rows, fcp and pac",
        param="guarantee",
    )


def score_rounds(guarantee: Guarantee, alpha: Fraction, sizes: Counts, exponent: int = 0) -> Rounds:
    """Return the rounds that find a guarantee's rank in the sum over all rows."""
    rank, rows = check_summable(guarantee).band(alpha, sizes).rank, sum(sizes)
    return Rounds(edges(exponent), rows + 1 if rank is None else rank, rows)
