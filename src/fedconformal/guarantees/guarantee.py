"""The interface of guarantees: counts and sizes of the sites in, coverage out, in exact fractions.

A guarantee maps the counts of scores at or below q, site by site, to the coverage that q promises. The threshold is
the smallest q that promises enough, and +inf if no finite q does. A guarantee returns data only;
`certificates/text.py` renders all sentences about it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np

from fedconformal._base.arrays import Integers
from fedconformal._base.names import abbreviate
from fedconformal.errors import InputError

Counts = Sequence[int]
Promise = Callable[[Integers], list[Fraction]]
"""From counts, a column for each q, to the coverage that each q promises."""

Shares = float | tuple[float, ...]
"""One share, or one for each."""

Stratum = Literal["class", "group", "end"]
"""Stratum of a threshold: a class, a group, or an end of an interval."""

MOST_SCORES = 2**60
SAFE = 2**62
"""Largest bound up to which int64 is used; larger integers are left to Python."""


@dataclass(frozen=True, kw_only=True)
class Audience:
    """The test rows that are promised coverage, as noun phrases that a sentence is composed of.

    Parameters
    ----------
    population
        Follows "for a test row ", such as "of site 'a'" or "from the mixture of the sites".
    sampling
        How the site of the test row is assumed to be drawn; empty if the population says it all.
    averaged_over
        What the promise is an average over.
    failure
        The share of calibration draws that may fail, if the promise holds for all others and is no average.
    lay_population
        The population in words for a board, to follow "in at least 90% of ".
    strata
        What each promise is given, the outermost first: "group", "class".
    """

    population: str
    sampling: str = ""
    averaged_over: str = "calibration draws"
    failure: float | None = None
    lay_population: str = "the cases that the fine print names"
    strata: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Shortfall:
    """Calibration data missing for a finite threshold; empty if none, or if no number of scores is enough.

    Parameters
    ----------
    scores
        Further scores by the position of the site.
    anywhere
        Further scores, at any of the sites.
    sites
        Further sites of the same population.
    parameter
        A parameter fixed beforehand that is too small: its name, its value, and the least value that is enough.
    """

    scores: Mapping[int, int] = field(default_factory=dict)
    anywhere: int = 0
    sites: int = 0
    parameter: tuple[str, int, int] | None = None


class Band(NamedTuple):
    """The coverage at the wanted level."""

    least: Fraction
    """Quantity that the target promises."""
    most: Fraction
    """Upper bound for distinct scores and sets that may be empty."""
    slack: Fraction
    """Upper bound on the coverage that inexact summaries may cost on top."""
    rank: int | None = None
    """The wanted rank, where the target is a rank of all scores together."""
    out_of: int | None = None


class MissRateBound(NamedTuple):
    """An upper bound on the miss rate of one calibration for a mixture of the sites."""

    rate: float
    shares: tuple[Fraction, ...] | None = None
    """The weight of every site; None if it is one site, or if all rows are alike."""
    site: int | None = None
    """The position of the only site."""


@dataclass(frozen=True, kw_only=True)
class Guarantee(ABC):
    """Base class of guarantees.

    `counts` has one entry per summary, `sizes` one per site. They are equally long unless a summary was pooled from
    several sites, which only guarantees with `sites_apart = False` accept.
    """

    name: ClassVar[str]
    assumption: ClassVar[str]
    """Assumptions on the calibration rows and the test row, apart from `Audience.sampling` and the model."""
    excluded: ClassVar[tuple[str, ...]] = ()
    """Parts of the rows that are not promised coverage by themselves: "site", "class", "set size"."""
    caveat: ClassVar[str] = ""
    """Further limits of the promise, in whole sentences."""
    patients: ClassVar[str] = "no patient, or other source of rows, has more than one calibration row, at any site"
    """Assumption on repeated sources of rows (tests/validity/test_patients.py)."""
    why_no_bound: ClassVar[str | None] = None
    """Why `miss_rate_bounds` is empty, where it is."""
    fractional: ClassVar[bool] = False
    """Whether the promise holds for losses: for rows that count in part."""
    why_not_fractional: ClassVar[str] = "nobody has shown that its promise holds for rows that count in part"
    untrained: ClassVar[bool] = False
    """Whether the model must not be trained on any of the sites."""
    by_class: ClassVar[bool] = False
    """Whether summaries by class are needed."""
    by_group: ClassVar[bool] = False
    """Whether summaries by group are needed."""
    has_strata: ClassVar[bool] = True
    """Whether it may be kept for every class or group by itself."""
    over_classes: ClassVar[bool] = False
    """Whether classes take the place of sites; `by_class` is true as well."""
    walks = 1
    """The number of parts of a grid of losses, each of which is tested from its last threshold down."""
    by_site: ClassVar[bool] = False
    """Whether every site has a threshold of its own."""

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        """Return examples for contract tests, for three sites called a, b and c."""
        return (cls(),)

    @property
    def inner(self) -> Guarantee:
        """The guarantee for one stratum; the guarantee itself if it is not stratified."""
        return self

    @property
    def sites_apart(self) -> bool:
        """Whether each site's own summary is needed, so that pooled ones are refused."""
        return True

    def bind(self, sites: Sequence[str], sizes: Counts, stratum: Stratum | None = None) -> Guarantee:
        """Check that the guarantee fits these sites, and return its form for all rows or for one stratum.

        The form for a class or a group takes the counts and sizes of that stratum alone, where `sizes` given here are
        those of all rows: a site without the stratum has the size 0, and still counts. Two forms for an end together
        promise what the guarantee promises.
        """
        if stratum in ("class", "group") and not self.has_strata:
            raise InputError(
                f"{self.name} has no thresholds for classes or groups; use mixture or every-site", param="guarantee"
            )
        return self

    @abstractmethod
    def promised(self, counts: Counts, sizes: Counts) -> Fraction:
        """Return the coverage promised by a q with (at least) these counts at or below it."""

    @abstractmethod
    def audience(self, sites: Sequence[str], stratum: Stratum | None = None) -> Audience:
        """Return who is promised coverage, for all rows or given the stratum of the test row."""

    def grouped(self, sizes: Counts, unit: int | None = None) -> tuple[Integers | None, Promise]:
        """Return which sites may be counted together, and the promise as a function of the counts of these groups.

        The groups are one number per site, from 0 in order of appearance; None if all sites are one group. With a
        `unit`, counts are of parts of rows, of which `unit` make one row.
        """
        check_unit(self, unit)
        return np.arange(len(sizes)), lambda counts: [
            self.promised(column.tolist(), sizes) / (unit or 1) for column in counts.T
        ]

    def band(self, alpha: Fraction, sizes: Counts, gaps: Counts | None = None) -> Band:
        """Bound the coverage at 1 - alpha; `gaps` bounds the error of the count of each summary, by default none."""
        return Band(1 - alpha, Fraction(1), self.promised(gaps or [0] * len(sizes), sizes))

    def missing(self, alpha: Fraction, sizes: Counts) -> Shortfall:
        """Return what makes a threshold at alpha finite."""
        return missing_scores(self, alpha, sizes, range(len(sizes)))

    def miss_rate_bounds(self, alpha: Fraction, sizes: Counts, failure: float) -> list[MissRateBound]:
        """Bound the miss rate of one calibration, all bounds together except with probability `failure`.

        There is one bound for each mixture that is promised coverage by itself, for independent calibration rows; none
        if no bound is known (`why_no_bound`).
        """
        return []

    def site_shares(self, sizes: Counts, stratum: Stratum | None = None) -> tuple[Fraction, ...] | None:
        """Return the share of every site in the promised mixture; None if no single mixture is promised."""
        return None

    def to_dict(self) -> dict[str, Any]:
        """Return the name and the parameters for JSON; parameters that are None are left out."""
        given = {one.name: getattr(self, one.name) for one in fields(self)}
        return {"name": self.name, **{key: _plain(value) for key, value in given.items() if value is not None}}


@dataclass(frozen=True, kw_only=True)
class SiteCounts(Guarantee):
    """Base class of guarantees that take the count of every site, for many thresholds at once."""

    @abstractmethod
    def promised_many(self, counts: Integers, sizes: Counts, unit: int = 1) -> list[Fraction]:
        """Return the promise of each column of counts, of which `unit` make one row."""

    def promised(self, counts: Counts, sizes: Counts) -> Fraction:
        return self.promised_many(np.array(counts, dtype=np.int64)[:, None], sizes)[0]

    def grouped(self, sizes: Counts, unit: int | None = None) -> tuple[Integers, Promise]:
        check_unit(self, unit)
        return np.arange(len(sizes)), partial(self.promised_many, sizes=sizes, unit=unit or 1)


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    return value.to_dict() if isinstance(value, Guarantee) else value


def check_unit(guarantee: Guarantee, unit: int | None = 1) -> None:
    """Refuse parts of rows for a guarantee that is not proved for losses."""
    if unit is not None and not guarantee.fractional:
        raise InputError(
            f"{guarantee.name} is no promise on losses: {guarantee.why_not_fractional}; use another guarantee"
        )


def check_whole(value: Any, name: str, least: int = 1, most: int = MOST_SCORES) -> None:
    """Refuse a parameter that is no integer in this range."""
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise InputError(f"{name} is {abbreviate(value)}, expected a whole number from {least} to {most}", param=name)


def checked_share(value: Any, name: str) -> float:
    """Read a number from 0 to 1."""
    try:
        number = float(str(value))  # through text: numpy's float32 0.1 is 0.1
    except ValueError:
        number = math.nan
    if isinstance(value, bool | str) or not 0 <= number <= 1:
        raise InputError(f"{name} is {value!r:.40}, expected a number from 0 to 1")
    return number


def checked_shares(value: Any, name: str) -> Shares:
    """Read a number from 0 to 1, or several."""
    if isinstance(value, Sequence | np.ndarray) and not isinstance(value, str) and getattr(value, "ndim", 1) != 0:
        return tuple(checked_share(one, name) for one in value)
    return checked_share(value, name)


def feasible(guarantee: Guarantee, alpha: Fraction, sizes: Counts) -> bool:
    """Return whether some finite threshold promises 1 - alpha: at the largest score every count is full."""
    return guarantee.promised(sizes, sizes) >= 1 - alpha


def missing_scores(guarantee: Guarantee, alpha: Fraction, sizes: Counts, places: Sequence[int]) -> Shortfall:
    """Return how many further scores make the promise feasible; empty if it is, or if no number of scores is enough.

    Where all scores weigh alike they may be at any site. Else each of the `places` is brought up to the same number.
    """
    if feasible(guarantee, alpha, sizes):
        return Shortfall()
    if not guarantee.sites_apart:
        extra = least_enough(lambda more: feasible(guarantee, alpha, [sizes[0] + more, *sizes[1:]]), most=2**100)
        return Shortfall(anywhere=extra)
    inside = set(places)

    def raised(number: int) -> list[int]:
        return [max(n, number) if k in inside else n for k, n in enumerate(sizes)]

    high = least_enough(lambda number: feasible(guarantee, alpha, raised(number)))
    return Shortfall(scores={k: high - sizes[k] for k in places if sizes[k] < high})


def least_enough(enough: Callable[[int], bool], most: int = MOST_SCORES) -> int:
    """Return the smallest number from 1 that is enough, if larger ones are too; 0 if none up to about `most` is."""
    high = 1
    while not enough(high):
        high *= 2
        if high > most:
            return 0
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def whole_type(most: int) -> Any:
    """Return int64 if no intermediate result, sums and products included, exceeds `most` and that fits; else object.

    Numbers that sites claim enter these results, so a bound that omits one of them lets a liar cause an overflow.
    """
    return np.int64 if most <= SAFE else object


def as_decimal(number: float) -> Fraction:
    """Read a float as the decimal that was typed."""
    return Fraction(repr(number))


def ceil_rank(alpha: Fraction, total: int) -> int:
    """Return ceil((1 - alpha) total), exactly."""
    return math.ceil((1 - alpha) * total)
