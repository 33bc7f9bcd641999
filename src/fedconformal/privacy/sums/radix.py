"""An order statistic from sums alone: radix select over public cells, or over the bit order of floats.

In each round every site counts the next digit of its scores that start with the digits found so far; the coordinator
walks the sum up to the target and keeps the digit. The upper edge of the last cell is the threshold, never below the
plain one. `IN_STEPS` splits a cell of `scale` in eight, four times at most, and smaller ones in fewer parts; `BYTES`
and `EXACT` settle all 64 bits of a score, and then the sums show rows one by one (`tests/privacy/test_leaks.py`).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fedconformal._base.float_bits import BITS, Keys, keys_of, score_of
from fedconformal.errors import InputError
from fedconformal.guarantees import FCP, PAC, Guarantee, Mixture
from fedconformal.guarantees.guarantee import Counts
from fedconformal.privacy.sums import scale

EXACT = (4,) * 16
BYTES = (8,) * 8
"""Exact as well; where every round costs signatures and shares, half the rounds are half the work for as many bytes."""
LEAST = 50
"""A cell with fewer rows is not split in eight, with fewer than half of it not in four, with a quarter not in two."""
LOWEST = 40
"""The least that sites agree to."""
IN_STEPS = (3,) * 4, LEAST
WIDEST = 16
WIDEST_STEP = 3
JOINED = 61
"""Where a prefix has the number of last bits that are left open: above the digits."""
LARGEST = int(keys_of(np.array([np.finfo(np.float64).max]))[0])

LOST = "a site was lost after the first sum"
LAST = "it was the last round"
"""Why a search stopped."""

Counted = NDArray[np.unsignedinteger[Any]]


@dataclass(frozen=True, kw_only=True)
class SumTarget:
    """The threshold is the smallest q at which the sum over all sites reaches the target."""

    target: int
    most: int
    """The largest possible sum."""
    unit: int = 1
    """The weight of a row."""


@dataclass(frozen=True)
class Search:
    """How far the search is: the round, the digits found, and the number of scores below them."""

    number: int = 0
    prefix: int = 0
    """The digits, and above them how many last bits of the next one are left open."""
    below: int = 0
    answer: float | None = None
    """The threshold, when it has been found."""
    stopped: str = ""
    """Why it is no smaller cell."""

    @property
    def digits(self) -> int:
        """The digits found so far."""
        return self.prefix & (1 << JOINED) - 1

    @property
    def joined(self) -> int:
        """How many last bits of the next digit are left open: 1 splits a cell in half as many parts."""
        return self.prefix >> JOINED


@dataclass(frozen=True)
class Rounds:
    """How many bits each round settles, and in which words sums are kept."""

    widths: tuple[int, ...]
    wanted: SumTarget
    least: int | None = None
    """Cells of `scale` with fewer rows are split in fewer parts; None if the digits are those of the float itself."""
    exponent: int = 0
    """Of the power of two that the edges of `scale` are multiplied by."""

    def __post_init__(self) -> None:
        """Check that the widths make sense."""
        most = WIDEST if self.least is None else WIDEST_STEP
        if not self.widths or sum(self.widths) > self.bits or not all(0 < width <= most for width in self.widths):
            raise InputError(
                f"widths are {self.widths}, expected 1 to {most} bits a round and {self.bits} in all at most"
            )
        if sum(self.widths[:-1]) > JOINED:  # or the last question would run into the bits above its digits
            raise InputError(f"widths are {self.widths}, expected {JOINED} bits at most before the last round")
        if self.least is not None and self.least < LOWEST:
            raise InputError(f"cells of {self.least} rows are to be split, expected {LOWEST} at least")

    @property
    def bits(self) -> int:
        """How many bits settle everything."""
        return BITS if self.least is None else scale.BITS

    @property
    def exact(self) -> bool:
        """Whether the threshold comes out to the last bit."""
        return sum(self.widths) == BITS

    def extends(self, before: Search | None, after: Search) -> bool:
        """Tell whether a question is the first one, or asks for a cell of the one before it.

        >>> rounds = Rounds((3, 3), SumTarget(target=2, most=3))
        >>> (
        ...     rounds.extends(None, Search()),
        ...     rounds.extends(Search(), Search(1, 7)),
        ...     rounds.extends(Search(), Search(1, 8)),
        ... )
        (True, True, False)
        """
        if before is None:
            return (after.number, after.prefix) == (0, 0)
        inside = after.digits >> self.widths[before.number] == before.digits
        return after.number == before.number + 1 and inside and not before.joined

    @property
    def start(self) -> Search:
        """Where the coordinator starts."""
        return Search()

    noisy: ClassVar[bool] = False

    def check_noise(self, counted: Collection[int]) -> None:
        """Accept any sum: there is no noise that it has to have."""

    def can_reach(self, sizes: Sequence[int], sites: Iterable[int]) -> bool:
        """Tell whether the rows of these sites alone can give a finite threshold."""
        return self.wanted.unit * sum(sizes[k] for k in sites) >= self.wanted.target

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """The smallest word in which no sum wraps around."""
        return np.dtype("<u4") if self.wanted.most < 2**32 else np.dtype("<u8")

    def cells(self, number: int) -> int:
        """How many counts a site sends in this round."""
        return 1 << self.widths[number]

    def histogram(self, search: Search, keys: Keys) -> Counted:
        """Count the next digit of the scores that start with the digits found, at one site.

        >>> from fedconformal._base.float_bits import keys_of
        >>> rounds = Rounds((1, 4), SumTarget(target=2, most=3))
        >>> rounds.histogram(Search(), keys_of(np.array([-1.0, 0.5, 2.0])))  # one negative, two are not
        array([1, 2], dtype=uint32)
        """
        done = sum(self.widths[: search.number])
        width = self.widths[search.number]
        codes = keys if self.least is None else scale.codes_of(keys, self.exponent)
        digits = codes >> np.uint64(self.bits - done - width)
        if done:
            digits = digits[digits >> np.uint64(width) == search.digits] & np.uint64((1 << width) - 1)
        digits = digits | np.uint64((1 << min(search.joined, width)) - 1)  # of cells that are one part, the last
        counts: Counted = np.bincount(digits.astype(np.int64), minlength=1 << width).astype(self.dtype)
        return counts

    def advance(self, search: Search, total: Counted, present: frozenset[int]) -> Search:
        """Keep the digit at which the sum reaches the target; +inf if it never does.

        Counts that went missing on the way make the sum too small and the threshold too high, never too low; so it does
        not matter who is present.
        """
        if search.answer is not None:
            raise InputError("the threshold has been found; there are no more rounds")
        if total.shape != (self.cells(search.number),):
            raise InputError(f"the sum has {total.size} counts, expected {self.cells(search.number)}")
        if int(total.sum(dtype=object)) > self.wanted.most:
            raise InputError(
                f"the sum of round {search.number} is impossible: a site sent something else than its counts"
            )
        reached = search.below + np.cumsum(total.astype(object))
        digit = int(np.searchsorted(reached, self.wanted.target))
        if digit == len(reached):
            if search.number == 0:
                return Search(1, answer=math.inf, stopped="the rows that were counted are too few for alpha")
            digit -= 1  # scores of this cell went missing after they were counted: its upper end is safe
            why, joined = "rows are missing that were counted before", None
        elif search.number + 1 == len(self.widths):
            why, joined = LAST, None
        else:
            joined = None if search.joined else self._joined(search.number + 1, int(total[digit]))
            why = f"its cell has fewer than {self.least} rows" if joined is None else ""
        number, digits = search.number + 1, search.digits << self.widths[search.number] | digit
        if why:
            answer = self._edge(number, digits)
            return Search(number, search.joined << JOINED | digits, answer=answer, stopped=why)
        return Search(number, (joined or 0) << JOINED | digits, int(reached[digit - 1]) if digit else search.below)

    def stopped(self, search: Search) -> Search:
        """Stop at the cell that was found so far.

        >>> rounds = Rounds((3, 3), SumTarget(target=2, most=3), least=50)
        >>> rounds.stopped(Search(1, 3, below=1)).answer  # of eight parts of the scale, the one that ends at 1/2
        0.5
        """
        edge = self._edge(search.number, search.digits)
        return Search(search.number, search.digits, answer=edge, stopped=LOST)

    def _joined(self, number: int, weight: int) -> int | None:
        """Return how many bits are left open if a cell is split: its parts have as many rows as those of `least` rows.

        None if not even two parts have that many.
        """
        if self.least is None:
            return 0
        enough = self.least * self.wanted.unit
        return next((joined for joined in range(self.widths[number]) if weight << joined >= enough), None)

    def _edge(self, number: int, digits: int) -> float:
        """Return the upper edge of a cell."""
        last = (digits + 1 << self.bits - sum(self.widths[:number])) - 1
        # The last cells end in infinity and what is no number; no score is above the largest float.
        return score_of(min(last, LARGEST)) if self.least is None else float(scale.edges(self.exponent)[last])

    def above(self, search: Search) -> float | None:
        """Return the lower edge of the cell that was found: with all sites there, the plain threshold is above it."""
        # What was found at last may be all 64 bits of a float; then nothing is joined.
        first = search.prefix if self.least is None else search.digits >> search.joined << search.joined
        return self._edge(search.number, first - 1) if first else None


def summable(guarantee: Guarantee) -> Guarantee:
    """Refuse a guarantee that needs more than one sum over all rows; a weighted sum could be taken apart."""
    if isinstance(guarantee, Mixture | FCP | PAC) and not guarantee.sites_apart:
        return guarantee
    raise InputError(
        f"{guarantee.name} needs every site's own counts, or weighs sites apart, and sums hide them; with sums only "
        "there are mixture by rows, fcp and pac"
    )


def sum_target(guarantee: Guarantee, alpha: Fraction, sizes: Counts) -> SumTarget:
    """Write a guarantee as a sum over all rows, or refuse.

    >>> sum_target(Mixture(), Fraction(1, 10), [10, 20])
    SumTarget(target=28, most=30, unit=1)
    """
    rank = summable(guarantee).band(alpha, sizes).rank
    return SumTarget(target=sum(sizes) + 1 if rank is None else rank, most=sum(sizes))
