"""What every guarantee has in common.

A guarantee has one job: from the counts of scores at or below q, site by site, to the coverage that q
promises. The threshold is then the smallest q that promises enough, and +inf when no finite q does. All
arithmetic is exact: integers and fractions, never floats.

Most promise a weighted sum of counts: (sum w_k m_k - price) / whole, all of them whole numbers. What differs is the
weight of a score, the whole and the price. Where all scores weigh alike the promise is a rank of all scores together,
summaries may come pooled, and it does not matter which site has more scores.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from fedconformal._base.arrays import Integers
from fedconformal.errors import InputError

if TYPE_CHECKING:
    from fedconformal.guarantees.luck import MissLimit

Counts = Sequence[int]
Promise = Callable[[Integers], list[Fraction]]
"""From counts, a column for each q, to the coverage that each q promises."""

Weights = Sequence[int] | None
"""What one score of each site weighs; None if every score weighs one."""

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
    patients: ClassVar[str] = "no patient, or other source of rows, has more than one calibration row, at any site"
    """What the promise needs of them besides (tests/validity/test_patients.py)."""
    why_no_limit: ClassVar[str] = "it is not known how much luck one calibration may have under this guarantee"
    """Why `miss_limits` gives none, where it gives none."""
    fractional: ClassVar[bool] = False
    """Whether the same promise holds for losses: for rows that count in part, in proportion to the parts."""
    untrained: ClassVar[bool] = False
    """Whether it needs a model that was trained on none of the sites."""
    why_not_fractional: ClassVar[str] = "nobody has shown that its promise holds for rows that count in part"

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        """Return some to check, for three sites that are called a, b and c."""
        return (cls(),)

    @property
    def sites_apart(self) -> bool:
        """Whether each site's own summary is needed, so that pooled ones are refused."""
        return True

    @property
    def by_class(self) -> bool:
        """Whether it counts the scores of every class by themselves, so that summaries by class are needed."""
        return False

    @property
    def certified(self) -> bool:
        """Whether the promise rests on nothing that is only estimated."""
        return True

    @property
    def by_group(self) -> bool:
        """Whether it counts the scores of every group by themselves, so that summaries by group are needed."""
        return False

    @property
    def by_site(self) -> bool:
        """Whether every site has a threshold of its own, where the site of a row is known."""
        return False

    @property
    def kept(self) -> Guarantee:
        """The guarantee itself, or the one that it keeps for every class or group."""
        return self

    @abstractmethod
    def promised(self, counts: Counts, sizes: Counts) -> Fraction:
        """Return the coverage promised by a q with (at least) these counts at or below it."""

    @abstractmethod
    def promise(self, sites: Sequence[str]) -> str:
        """Say in words to whom coverage is promised, to follow "... with probability at least 0.9 "."""

    def plainly(self, sites: Sequence[str]) -> str:
        """Say to whom in a board's words, to follow "... holds the right answer in at least 90% of ".

        By default this points to the exact words, so that a new guarantee is never promised to more than it names.
        """
        return "the cases that the fine print names"

    def at_most(self, alpha: Fraction, sizes: Counts, gaps: Counts) -> Fraction:
        """Bound the coverage from above, for distinct scores and sets that may be empty; by default it may be one.

        `gaps` bounds what each summary can be off by.
        """
        return Fraction(1)

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

    def miss_limits(self, alpha: Fraction, sizes: Counts, failure: float) -> list[MissLimit]:
        """Bound how often sets of one calibration miss, all bounds together but with probability `failure`.

        There is one for each mixture of the sites that is promised coverage by itself. It takes independent calibration
        rows. By default there is none, and `why_no_limit` says why.
        """
        return []

    def of_one_end(self) -> Guarantee:
        """Return what each end of an interval is to promise, so that both together promise this."""
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

    def grouped(self, sizes: Counts) -> tuple[Integers | None, Promise]:
        """Say which sites may be counted together, and what the counts of the groups promise.

        One number a site, from 0 in the order in which groups come; None if all sites are one group. By default each
        site is a group by itself. A search counts groups instead of sites: much less work where sites are many.
        """
        return np.arange(len(sizes)), partial(self.promised_many, sizes=sizes)

    def grouped_parts(self, sizes: Counts, unit: int) -> tuple[Integers | None, Promise]:
        """Do as `grouped`, for counts of which `unit` make one row."""
        if not self.fractional:
            raise InputError(f"{self.name} is no promise on losses: {self.why_not_fractional}; use another guarantee")
        group, _ = self.grouped(sizes)
        return group, partial(self.promised_parts, sizes=sizes, unit=unit)

    def promised_parts(self, sums: Integers, sizes: Counts, unit: int) -> list[Fraction]:
        """Return what counts of parts of rows promise, by the groups of `grouped`; by default in proportion."""
        return [found / unit for found in self.grouped(sizes)[1](sums)]

    def tested(self, risks: Sequence[int]) -> list[int]:
        """Return what each threshold of a grid promises, given the risk of each by itself: the largest from the end on.

        The last threshold is the safest. Going down from it, one whose risk is too large ends the walk.

        >>> from fedconformal import PAC
        >>> PAC().tested([3, 1, 2])
        [3, 2, 2]
        """
        return list(accumulate(reversed(risks), max))[::-1]

    def slack(self, gaps: Counts, sizes: Counts) -> Fraction:
        """Return the coverage that the summaries may cost on top; right for any weighted sum of counts."""
        return self.promised(gaps, sizes)

    def to_dict(self) -> dict[str, Any]:
        """Describe for JSON."""
        return {"name": self.name, **asdict(self)}


class Terms(NamedTuple):
    """The whole numbers of a weighted sum of counts."""

    weights: Weights
    whole: int
    price: int = 0

    def share(self, total: int, unit: int = 1) -> Fraction:
        """Return what a sum promises, where `unit` counts make one row.

        >>> Terms(None, 10, 1).share(10), Terms(None, 10, 1).share(0)
        (Fraction(9, 10), Fraction(0, 1))
        """
        return Fraction(max(0, total - self.price * unit), max(1, self.whole) * unit)

    def by_group(self) -> Terms:
        """Return the terms for counts of groups of sites, whose scores weigh the same."""
        return self if self.weights is None else self._replace(weights=list(dict.fromkeys(self.weights)))

    def shares(self, sums: Integers, unit: int = 1) -> list[Fraction]:
        """Return what each column of counts promises."""
        if self.weights is None:
            return [self.share(int(total), unit) for total in sums[0].tolist()]
        totals = np.array(self.weights, dtype=object) @ sums.astype(object)
        return [self.share(total, unit) for total in totals.tolist()]


@dataclass(frozen=True, kw_only=True)
class WeightedSum(Guarantee):
    """Promise (sum w_k m_k - price) / whole."""

    @abstractmethod
    def terms(self, sizes: Counts) -> Terms:
        """Return the weight of a score of each site, the whole and the price."""

    def promised(self, counts: Counts, sizes: Counts) -> Fraction:
        terms = self.terms(sizes)
        return terms.share(weighed(terms.weights, counts))

    def promised_many(self, counts: Integers, sizes: Counts) -> list[Fraction]:
        group, promise = self.grouped(sizes)
        return promise(summed(counts, group, sum(sizes)))

    def grouped(self, sizes: Counts) -> tuple[Integers | None, Promise]:
        """Count sites together whose scores weigh the same."""
        terms = self.terms(sizes)
        promise = terms.by_group().shares  # which keeps neither the sizes nor a weight for every site
        if terms.weights is None:
            return None, promise
        number = {weight: i for i, weight in enumerate(dict.fromkeys(terms.weights))}
        return np.fromiter(map(number.__getitem__, terms.weights), dtype=np.int64, count=len(terms.weights)), promise

    def promised_parts(self, sums: Integers, sizes: Counts, unit: int) -> list[Fraction]:
        return self.terms(sizes).by_group().shares(sums, unit)

    def rank(self, alpha: Fraction, sizes: Counts) -> tuple[int, int] | None:
        """Return the smallest rank that promises enough, and the whole."""
        if self.sites_apart:
            return None
        _, whole, price = self.terms(sizes)
        return ceil_rank(alpha, whole) + price, whole

    def at_least(self, alpha: Fraction, sizes: Counts) -> Fraction:
        rank = self.rank(alpha, sizes)
        return 1 - alpha if rank is None else self.terms(sizes).share(rank[0])

    def at_most(self, alpha: Fraction, sizes: Counts, gaps: Counts) -> Fraction:
        """Return the rank's share if all stand-ins at +inf but one are below it, plus what the summaries may cost."""
        rank = self.rank(alpha, sizes)
        if rank is None:
            return Fraction(1)
        stand_ins = max(1, rank[1] - sum(sizes))
        return min(Fraction(1), Fraction(rank[0] + stand_ins - 1 + sum(gaps), max(1, rank[1])))

    def slack(self, gaps: Counts, sizes: Counts) -> Fraction:
        terms = self.terms(sizes)
        return Fraction(weighed(terms.weights, gaps), max(1, terms.whole))


def weighed(weights: Weights, counts: Counts) -> int:
    """Add up the counts, each times what it weighs.

    >>> weighed(None, [3, 4]), weighed([2, 1], [3, 4])
    (7, 10)
    """
    return sum(counts) if weights is None else sum(w * m for w, m in zip(weights, counts, strict=True))


def whole_type(most: int) -> Any:
    """Return int64 if no number on the way, sums and products included, exceeds `most` and that fits; else object.

    What sites claim enters these numbers, so a bound that forgets one of them lets a liar make it wrap round.

    >>> whole_type(2**62), whole_type(2**62 + 1)
    (<class 'numpy.int64'>, <class 'object'>)
    """
    return np.int64 if most <= SAFE else object


def summed(counts: Integers, group: Integers | None, most: int) -> NDArray[Any]:
    """Add up the rows of every group exactly, where no sum exceeds `most`; all rows if there is one group.

    Python's own whole numbers stay such.

    >>> counts = np.array([[1, 2], [3, 4], [5, 6]])
    >>> summed(counts, None, 21), summed(counts, np.array([0, 1, 0]), 21)
    (array([[ 9, 12]]), array([[6, 8],
           [3, 4]]))
    """
    if counts.dtype != object:
        counts = counts.astype(whole_type(most), copy=False)
    if group is None:
        whole: NDArray[Any] = counts.sum(axis=0, keepdims=True)
        return whole
    if group[-1] == len(group) - 1:  # each by itself
        return counts
    order = np.argsort(group, kind="stable")
    starts = np.flatnonzero(np.diff(group[order], prepend=-1))
    sums: NDArray[Any] = np.add.reduceat(counts[order], starts, axis=0)
    return sums


def as_decimal(number: float) -> Fraction:
    """Read a float as the decimal that was typed.

    >>> as_decimal(0.1)
    Fraction(1, 10)
    """
    return Fraction(repr(number))


def ceil_rank(alpha: Fraction, total: int) -> int:
    """Return ceil((1 - alpha) total), exactly.

    >>> ceil_rank(Fraction(1, 10), 10)  # in floats (1 - 0.1) * 10 can round up
    9
    """
    return math.ceil((1 - alpha) * total)
