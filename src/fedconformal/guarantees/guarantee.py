"""What every guarantee has in common.

A guarantee has one job: from the counts of scores at or below q, site by site, to the coverage that q
promises. The threshold is then the smallest q that promises enough, and +inf when no finite q does. All
arithmetic is exact: integers and fractions, never floats.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fedconformal._base.arrays import Integers
from fedconformal._base.names import name_key, shown
from fedconformal.errors import InputError

Counts = Sequence[int]
MOST_SCORES = 2**60
SAFE = 2**62
"""Whole numbers up to this fit in int64, with room to spare; larger ones are left to Python."""


@dataclass(frozen=True, kw_only=True)
class Guarantee(ABC):
    """A promise of coverage, as a function of counts.

    `counts` has one entry a summary, `sizes` one a site. The two are equally long unless a summary was
    pooled from several sites, which only guarantees with `sites_apart = False` accept.
    """

    name: ClassVar[str]
    assumption: ClassVar[str]
    caveat: ClassVar[str]
    """What the promise is easily mistaken for."""

    @property
    def sites_apart(self) -> bool:
        """Whether each site's own summary is needed, so that pooled ones are refused."""
        return True

    @abstractmethod
    def promised(self, counts: Counts, sizes: Counts) -> Fraction:
        """Return the coverage promised by a q with (at least) these counts at or below it."""

    @abstractmethod
    def promise(self, sites: Sequence[str]) -> str:
        """Say in words to whom coverage is promised, to follow "... with probability at least 0.9 "."""

    @abstractmethod
    def at_most(self, alpha: Fraction, sizes: Counts, gaps: Counts) -> Fraction:
        """Bound the coverage from above, for distinct scores and sets that may be empty.

        `gaps` bounds what each summary can be off by.
        """

    def at_least(self, alpha: Fraction, sizes: Counts) -> Fraction:
        """Return the coverage that the target promises."""
        rank = self.rank(alpha, sizes)
        return 1 - alpha if rank is None else Fraction(*rank)

    def rank(self, alpha: Fraction, sizes: Counts) -> tuple[int, int] | None:
        """Return the wanted rank and out of how many, where the target is a rank of all scores together."""
        return None

    def bind(self, sites: Sequence[str], sizes: Counts) -> Guarantee:
        """Check that the guarantee fits these sites and fill in what depends on them."""
        return self

    def in_class(self, sizes: Counts) -> Guarantee:
        """Return what promises coverage given the class, from the counts and sizes of that class alone.

        `sizes` are those of all rows. A site without the class has the size 0, and still counts.
        """
        return self

    def promise_in_class(self, sites: Sequence[str]) -> str:
        """Say to whom coverage is promised, given the class."""
        return self.promise(sites)

    @property
    def assumption_in_class(self) -> str:
        """What the promise rests on, given the class."""
        return self.assumption

    def promised_many(self, counts: Integers, sizes: Counts) -> list[Fraction]:
        """Return what is promised for every column of (summaries, M) counts."""
        return [self.promised(column.tolist(), sizes) for column in counts.T]

    def slack(self, gaps: Counts, sizes: Counts) -> Fraction:
        """Return the coverage that the summaries may cost on top; right for any weighted sum of counts."""
        return self.promised(gaps, sizes)

    def feasible(self, alpha: Fraction, sizes: Counts) -> bool:
        """Whether some finite threshold promises 1 - alpha: at the largest score every count is full."""
        return self.promised(sizes, sizes) >= 1 - alpha

    def missing(self, alpha: Fraction, sizes: Counts) -> dict[int, int]:
        """Return how many more scores, at which sites, make the promise feasible.

        Every site is brought up to the same number. Guarantees that need less say so themselves.
        """
        if self.feasible(alpha, sizes):
            return {}
        high = 1
        while not self.feasible(alpha, [max(n, high) for n in sizes]):
            high *= 2
            if high > MOST_SCORES:
                return {}  # more scores alone do not help
        low = high // 2
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.feasible(alpha, [max(n, middle) for n in sizes]) else (middle, high)
        return {k: high - n for k, n in enumerate(sizes) if n < high}

    def missing_sites(self, alpha: Fraction, sizes: Counts) -> int:
        """Return how many more sites make the promise feasible, where more scores alone do not."""
        return 0

    def expected(self, alpha: Fraction, sizes: Counts) -> Fraction | None:
        """Return the mean coverage if the sites are alike and scores distinct, where it has a closed form."""
        return None

    def shortfall(self, alpha: Fraction, sizes: Counts, sites: Sequence[str]) -> str:
        """Say in words what is missing."""
        if more := self.missing_sites(alpha, sizes):
            return f"sites needed: {more} more, from the same population"
        needed = self.missing(alpha, sizes)
        parts = [f"{extra} more at {_site_name(sites, k)}" for k, extra in list(needed.items())[:5]]
        if len(needed) > len(parts):
            parts.append(f"and likewise at {len(needed) - len(parts)} more sites")
        return f"calibration scores needed: {', '.join(parts)}"

    def to_dict(self) -> dict[str, Any]:
        """Describe for JSON."""
        return {"name": self.name, **asdict(self)}


def whole_type(most: int) -> Any:
    """Return int64 if no number on the way, sums and products included, exceeds `most` and that fits; else object.

    What sites claim enters these numbers, so a bound that forgets one of them lets a liar make it wrap round.

    >>> whole_type(2**62), whole_type(2**62 + 1)
    (<class 'numpy.int64'>, <class 'object'>)
    """
    return np.int64 if most <= SAFE else object


def column_sums(counts: Integers, sizes: Counts) -> NDArray[Any]:
    """Add up every column exactly; what is counted is at most what the sites have."""
    sums: NDArray[Any] = counts.astype(whole_type(sum(sizes)), copy=False).sum(axis=0)
    return sums


def as_decimal(number: float) -> Fraction:
    """Read a float as the decimal that was typed.

    >>> as_decimal(0.1)
    Fraction(1, 10)
    """
    return Fraction(repr(number))


def _site_name(sites: Sequence[str], k: int) -> str:
    return f"site {sites[k]!r}" if sites else f"site number {k + 1}"


def is_whole(value: Any) -> bool:
    """Whether this is a whole number, and no truth value."""
    return isinstance(value, int) and not isinstance(value, bool)


def as_number_of_scores(value: Any, name: str) -> None:
    """Check a number of scores that is fixed beforehand, where one is given."""
    if value is not None and (not is_whole(value) or value < 1):
        raise InputError(f"{name} is {shown(value)}, expected a whole number, at least 1")


def capped_words(most_scores: int | None) -> str:
    """Say what a site weighs in proportion.

    >>> capped_words(500)
    'n_k + 1 (n_k counted up to 500)'
    """
    return "n_k + 1" if most_scores is None else f"n_k + 1 (n_k counted up to {most_scores})"


def ceil_rank(alpha: Fraction, total: int) -> int:
    """Return ceil((1 - alpha) total), exactly.

    >>> ceil_rank(Fraction(1, 10), 10)  # in floats (1 - 0.1) * 10 can round up
    9
    """
    return math.ceil((1 - alpha) * total)


def more_in_total(alpha: Fraction, total: int, stand_ins: int) -> int:
    """Return how many more scores make ceil((1 - alpha)(total + stand_ins)) <= total."""
    return max(0, math.ceil((1 - alpha) * stand_ins / alpha) - total)


def find_client(client: str | int, sites: Sequence[str], count: int) -> int:
    """Return the position of a client given by name or by position."""
    if isinstance(client, str):
        names = list(map(name_key, sites))
        if name_key(client) not in names:
            known = ", ".join(list(sites)[:10]) or "none: the summaries carry no site names"
            raise InputError(f"no site is called {client!r}; there are {known}")
        return names.index(name_key(client))
    if not 0 <= client < count:
        raise InputError(f"client is {client}, expected a site's name or a position from 0 to {count - 1}")
    return client
