"""Interface of guarantees, which map counts and sizes of the sites to coverage, in exact fractions.

Given the counts of scores at or below q at each site, a guarantee returns the coverage that q promises. The threshold
is the smallest q that promises at least 1 - alpha, or +inf. Guarantees contain data only; `certificates/text.py`
renders the sentences.
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
PromiseFunction = Callable[[Integers], list[Fraction]]
"""Maps counts, with one column per q, to the coverage promised by each q."""
Shares = float | tuple[float, ...]
"""One share for all, or a tuple of shares."""
StratumKind = Literal["class", "group", "end"]
"""Stratum of a threshold: a class, a group, or an end of an interval."""
MOST_SCORES = 2**60
SAFE = 2**62
"""Largest bound for int64 arithmetic; larger integers use Python objects."""


@dataclass(frozen=True, kw_only=True)
class Audience:
    """Test rows that are promised coverage, as noun phrases for composed sentences.

    Parameters
    ----------
    population
        Phrase after "for a test row ", such as "of site 'a'" or "from the mixture of the sites".
    sampling
        Assumed distribution of the site of the test row; empty if `population` implies it.
    averaged_over
        Source of randomness that the promise is averaged over.
    failure
        Failure probability over calibration draws, if the promise is not an average.
    lay_population
        Population in plain language, after "in at least 90% of ".
    strata
        Strata that the promise is conditional on, outermost first: "group", "class".
    """

    population: str
    sampling: str = ""
    averaged_over: str = "calibration draws"
    failure: float | None = None
    lay_population: str = "the cases that the fine print names"
    strata: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Shortfall:
    """Missing calibration data for a finite threshold; empty if none, or if no number of scores suffices.

    Parameters
    ----------
    scores
        Additional scores by position of the site.
    anywhere
        Additional scores, at any site.
    sites
        Additional sites from the same population.
    parameter
        A parameter that is too small: its name, its value, and the smallest sufficient value.
    """

    scores: Mapping[int, int] = field(default_factory=dict)
    anywhere: int = 0
    sites: int = 0
    parameter: tuple[str, int, int] | None = None


class Band(NamedTuple):
    """Bounds on the coverage at a level."""

    least: Fraction
    """Coverage promised at the target."""
    most: Fraction
    """Upper bound for distinct scores and sets that may be empty."""
    slack: Fraction
    """Upper bound on the additional coverage caused by inexact summaries."""
    rank: int | None = None
    """The required rank, if the target is a rank of all pooled scores."""
    out_of: int | None = None


class MissRateBound(NamedTuple):
    """An upper bound on the miss rate of one calibration for a mixture of the sites."""

    rate: float
    shares: tuple[Fraction, ...] | None = None
    """Weight of every site; None for a single site, or if all rows are exchangeable."""
    site: int | None = None


@dataclass(frozen=True, kw_only=True)
class Guarantee(ABC):
    """Base class of guarantees: a subclass defines `name`, `assumption`, `promised` and `audience`.

    `counts` has one entry per summary, `sizes` one per site. They have the same length unless a summary is pooled from
    several sites, which only guarantees with `sites_apart = False` accept.

    Examples
    --------
    >>> from fedconformal import Mixture
    >>> isinstance(Mixture(), Guarantee), Mixture().to_dict()
    (True, {'name': 'mixture', 'weights': 'rows'})
    """

    name: ClassVar[str]
    assumption: ClassVar[str]
    """Assumptions on the calibration rows and the test row, in addition to `Audience.sampling` and the model."""
    excluded: ClassVar[tuple[str, ...]] = ()
    """Subsets of rows without a conditional promise: "site", "class", "set size"."""
    caveat: ClassVar[str] = ""
    """Further limits of the promise, in complete sentences."""
    patients: ClassVar[str] = "no patient, or other source of rows, has more than one calibration row, at any site"
    """Assumption on repeated sources of rows (tests/validity/test_patients.py)."""
    why_no_bound: ClassVar[str | None] = None
    """Reason why `miss_rate_bounds` is empty, if it is."""
    fractional: ClassVar[bool] = False
    """Whether the promise holds for losses, that is for fractional counts of rows."""
    why_not_fractional: ClassVar[str] = "its promise is not proved for fractional rows"
    untrained: ClassVar[bool] = False
    """Whether the model must not be trained on any of the sites."""
    by_class: ClassVar[bool] = False
    """Whether summaries by class are needed."""
    by_group: ClassVar[bool] = False
    """Whether summaries by group are needed."""
    has_strata: ClassVar[bool] = True
    """Whether it is available for single classes or groups."""
    over_classes: ClassVar[bool] = False
    """Whether classes take the place of sites; implies `by_class`."""
    walks = 1
    """Number of parts of a grid of losses, each tested from its last threshold down."""
    by_site: ClassVar[bool] = False
    """Whether every site has a threshold of its own."""

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        """Return instances for contract tests, for three sites named a, b and c."""
        return (cls(),)

    @property
    def inner(self) -> Guarantee:
        """The guarantee for one stratum; the guarantee itself if it is not stratified."""
        return self

    @property
    def sites_apart(self) -> bool:
        """Whether a separate summary of each site is required, so that pooled summaries are refused."""
        return True

    def bind(self, sites: Sequence[str], sizes: Counts, stratum: StratumKind | None = None) -> Guarantee:
        """Check that the guarantee fits these sites, and return its form for all rows or for one stratum.

        `sizes` are those of all rows. The form for a class or a group takes the counts and sizes of the stratum only,
        where a site without the stratum has size 0, and still counts. The forms for the two ends of an interval
        together promise the coverage of the guarantee.
        """
        if stratum in ("class", "group") and not self.has_strata:
            raise InputError(
                f"{self.name} has no thresholds for classes or groups; use mixture or every-site", param="guarantee"
            )
        return self

    @abstractmethod
    def promised(self, counts: Counts, sizes: Counts) -> Fraction:
        """Return the coverage promised by a q, given (lower bounds on) the counts of scores at or below it."""

    @abstractmethod
    def audience(self, sites: Sequence[str], stratum: StratumKind | None = None) -> Audience:
        """Return the test rows that are promised coverage, for all rows or given the stratum of the test row."""

    def grouped(self, sizes: Counts, unit: int | None = None) -> tuple[Integers | None, PromiseFunction]:
        """Return groups of sites that can be counted together, and the promise as a function of the group counts.

        The groups are one number per site, from 0 in order of appearance; None if all sites are one group. With a
        `unit`, counts are fractional: `unit` of them make one row.
        """
        check_unit(self, unit)
        return np.arange(len(sizes)), lambda counts: [
            self.promised(column.tolist(), sizes) / (unit or 1) for column in counts.T
        ]

    def band(self, alpha: Fraction, sizes: Counts, gaps: Counts | None = None) -> Band:
        """Bound the coverage at 1 - alpha; `gaps` bounds the error of the count of each summary, by default 0."""
        return Band(1 - alpha, Fraction(1), self.promised(gaps or [0] * len(sizes), sizes))

    def missing(self, alpha: Fraction, sizes: Counts) -> Shortfall:
        """Return the missing calibration data for a finite threshold at alpha."""
        return missing_scores(self, alpha, sizes, range(len(sizes)))

    def miss_rate_bounds(self, alpha: Fraction, sizes: Counts, failure: float) -> list[MissRateBound]:
        """Bound the miss rate of one calibration, simultaneously except with probability `failure`.

        For independent calibration rows, there is one bound for each mixture that is promised coverage separately;
        none if no bound is known (`why_no_bound`).
        """
        return []

    def site_shares(self, sizes: Counts, stratum: StratumKind | None = None) -> tuple[Fraction, ...] | None:
        """Return the share of every site in the promised mixture; None if there is no single mixture."""
        return None

    def to_dict(self) -> dict[str, Any]:
        """Return the name and the parameters for JSON; parameters that are None are omitted."""
        parameters = {field.name: getattr(self, field.name) for field in fields(self)}
        return {"name": self.name, **{key: _to_json(value) for key, value in parameters.items() if value is not None}}


@dataclass(frozen=True, kw_only=True)
class SiteCounts(Guarantee):
    """Base class of guarantees vectorised over thresholds, given the count of every site."""

    @abstractmethod
    def promised_many(self, counts: Integers, sizes: Counts, unit: int = 1) -> list[Fraction]:
        """Return the promise of each column of counts, where `unit` counts make one row."""

    def promised(self, counts: Counts, sizes: Counts) -> Fraction:
        return self.promised_many(np.array(counts, dtype=np.int64)[:, None], sizes)[0]

    def grouped(self, sizes: Counts, unit: int | None = None) -> tuple[Integers, PromiseFunction]:
        check_unit(self, unit)
        return np.arange(len(sizes)), partial(self.promised_many, sizes=sizes, unit=unit or 1)


def _to_json(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_to_json(part) for part in value]
    return value.to_dict() if isinstance(value, Guarantee) else value


def check_unit(guarantee: Guarantee, unit: int | None = 1) -> None:
    """Refuse fractional counts for a guarantee that is not proved for losses."""
    if unit is not None and not guarantee.fractional:
        raise InputError(
            f"{guarantee.name} is no promise on losses: {guarantee.why_not_fractional}; use another guarantee"
        )


def check_whole(value: Any, name: str, least: int = 1, most: int = MOST_SCORES) -> None:
    """Refuse a parameter that is not an integer in this range."""
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise InputError(f"{name} is {abbreviate(value)}, expected a whole number from {least} to {most}", param=name)


def checked_share(value: Any, name: str) -> float:
    """Validate a number from 0 to 1."""
    try:
        number = float(str(value))  # through text, so that float32 0.1 becomes 0.1
    except ValueError:
        number = math.nan
    if isinstance(value, bool | str) or not 0 <= number <= 1:
        raise InputError(f"{name} is {value!r:.40}, expected a number from 0 to 1")
    return number


def checked_shares(value: Any, name: str) -> Shares:
    """Validate a number from 0 to 1, or a sequence of them."""
    if isinstance(value, Sequence | np.ndarray) and not isinstance(value, str) and getattr(value, "ndim", 1) != 0:
        return tuple(checked_share(share, name) for share in value)
    return checked_share(value, name)


def feasible(guarantee: Guarantee, alpha: Fraction, sizes: Counts) -> bool:
    """Whether any finite threshold promises 1 - alpha; at the largest score all counts are n_k."""
    return guarantee.promised(sizes, sizes) >= 1 - alpha


def missing_scores(guarantee: Guarantee, alpha: Fraction, sizes: Counts, places: Sequence[int]) -> Shortfall:
    """Return the additional scores for a feasible promise; empty if it is feasible, or if no number suffices.

    If all scores have equal weight, they may be at any site. Otherwise the sites at `places` need the same number.
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
    """Return the smallest sufficient number from 1, for a monotone condition; 0 if none up to about `most` is."""
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
    """Return int64 if `most`, which must bound all intermediate results of claimed numbers, fits; otherwise object."""
    return np.int64 if most <= SAFE else object


def as_decimal(number: float) -> Fraction:
    """Convert a float to the decimal as typed."""
    return Fraction(repr(number))


def ceil_rank(alpha: Fraction, total: int) -> int:
    """Return ceil((1 - alpha) total), exactly."""
    return math.ceil((1 - alpha) * total)
