"""Coverage for every mixture of the sites in a set: the worst case over the set (docs/proofs.md).

The price of the set is its largest lambda_k / n_k, as in `Mixture`. Where sum lambda_k / (n_k + 1), the price of Lu et
al. (2023), is smaller in the worst case, their form sum lambda_k m_k(q) / (n_k + 1) is used.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from fedconformal._base.arrays import ALPHA_UNIT, Integers
from fedconformal.errors import InputError
from fedconformal.guarantees.every_site import EverySite
from fedconformal.guarantees.guarantee import (
    Audience,
    Band,
    Counts,
    Guarantee,
    MissRateBound,
    Promise,
    Shortfall,
    Stratum,
    as_decimal,
    missing_scores,
)
from fedconformal.guarantees.miss_rate_bounds import shares_bound
from fedconformal.guarantees.mixture import WITHIN_SITES, Mixture
from fedconformal.guarantees.mixture_sets import Ball, Box, MixtureSet, Polytope
from fedconformal.guarantees.robust import largest_share

Bounds = float | tuple[float, ...]
Given = float | Sequence[float] | NDArray[Any]
Inequalities = tuple[tuple[tuple[float, ...], ...], tuple[float, ...]]


@dataclass(frozen=True, kw_only=True)
class WorstCase(Guarantee):
    """Coverage for a test row from any mixture of the sites in a set; give one of these, or none for all mixtures.

    Parameters
    ----------
    contamination
        The share of test rows that may come from any of the sites; the others follow the sites in proportion to n_k.
    total_variation
        The share of weight that may be elsewhere than in proportion to n_k.
    box
        The least and the largest weight of every site; one number for all sites, or one for each.
    polytope
        A matrix A and a vector b: all weights w with A w <= b.

    Examples
    --------
    >>> WorstCase(contamination=0.1).promised(counts=[9, 4], sizes=[10, 5])  # 0.9 * 13/15 + 0.1 * 4/5 - 2/25
    Fraction(39, 50)
    >>> WorstCase(box=(0.2, 0.8)).promised(counts=[9, 4], sizes=[10, 5])
    Fraction(23, 33)
    >>> WorstCase(polytope=([[1, 0]], [0.5])).promised(counts=[9, 4], sizes=[10, 5])  # the first at most a half
    Fraction(2, 3)

    References
    ----------
    Lu et al., "Federated conformal predictors for distributed uncertainty quantification", ICML 2023.
    """

    name = "worst-case"
    assumption = WITHIN_SITES
    excluded = ("class", "set size")
    caveat = (
        "To a single site it is a promise only if the set holds the mixture of that site alone (the guarantee "
        "every-site promises it to each site)."
    )
    why_no_bound = "the mixture in proportion to n_k is not in the stated set, and no other single one is named"
    fractional = True

    contamination: float | None = None
    total_variation: float | None = None
    box: tuple[Given, Given] | None = None
    polytope: tuple[Sequence[Sequence[float]] | NDArray[Any], Sequence[float] | NDArray[Any]] | None = None

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        return (
            cls(),
            cls(contamination=0.1),
            cls(total_variation=0.25),
            cls(box=(0.2, (0.3, 0.5, 0.6))),
            cls(polytope=(((1.0, -1.0, 0.0), (0.0, 0.3, 0.7)), (0.0, 0.4))),
        )

    def __post_init__(self) -> None:
        given = {field: value for field, value in vars(self).items() if value is not None}
        if len(given) > 1:
            raise InputError(f"{self.name}: takes one set of mixtures, got {' and '.join(given)}")
        for field, value in given.items():
            object.__setattr__(self, field, _CHECKS[field](value, field))

    def bind(self, sites: Sequence[str], sizes: Counts, stratum: Stratum | None = None) -> Guarantee:
        _set(self, tuple(sizes))
        return self if stratum in (None, "end") else WorstStratumShare(of=self, totals=tuple(sizes))

    def promised(self, counts: Counts, sizes: Counts) -> Fraction:
        return self.promised_many(np.array(counts, dtype=np.int64)[:, None], sizes)[0]

    def grouped(self, sizes: Counts, unit: int | None = None) -> tuple[Integers, Promise]:
        return np.arange(len(sizes)), partial(self.promised_many, sizes=sizes, unit=unit or 1)

    def promised_many(self, sums: Integers, sizes: Counts, unit: int = 1) -> list[Fraction]:
        """Return the least over the set for every column of counts, of which `unit` make one row."""
        form = _form(self, tuple(sizes))
        found = [self.least(column, sizes, form.rows) / unit - form.price for column in sums.T.tolist()]
        return [max(Fraction(0), least) for least in found]

    def least(self, values: Sequence[int], sizes: Counts, rows: Counts) -> Fraction:
        """Return the least weighted sum over the set of these whole values, each divided by the rows of its site."""
        mixtures = _set(self, tuple(sizes))
        if mixtures is None:
            share = self._contamination
            each = [Fraction(value, n) for value, n in zip(values, rows, strict=True)]
            if share == 1:
                return min(each)
            if all(map(operator.eq, sizes, rows)):
                proportional = Fraction(sum(values))
            else:
                proportional = sum((n * value for n, value in zip(sizes, each, strict=True)), Fraction(0))
            return (1 - share) * proportional / max(1, sum(sizes)) + share * min(each)
        whole = math.lcm(*rows)
        return mixtures.least([v * (whole // n) for v, n in zip(values, rows, strict=True)]) / whole

    def slack(self, gaps: Counts, sizes: Counts) -> Fraction:
        """Return the largest weighted sum of gaps over the set."""
        return -self.least([-gap for gap in gaps], sizes, _form(self, tuple(sizes)).rows)

    def band(self, alpha: Fraction, sizes: Counts, gaps: Counts | None = None) -> Band:
        return Band(1 - alpha, Fraction(1), self.slack(gaps or [0] * len(sizes), sizes))

    def missing(self, alpha: Fraction, sizes: Counts) -> Shortfall:
        """Return the scores missing at the sites that carry weight in some mixture of the set."""
        places = range(len(sizes))
        weighty = [k for k in places if self.slack([int(j == k) for j in places], sizes)]
        return missing_scores(self, alpha, sizes, weighty)

    @property
    def _contamination(self) -> Fraction:
        return Fraction(1) if self.contamination is None else as_decimal(self.contamination)

    def miss_rate_bounds(self, alpha: Fraction, sizes: Counts, failure: float) -> list[MissRateBound]:
        """Bound every site if all mixtures are in the set; else the proportional mixture, if it is.

        What the set is promised is the least over its members, so the threshold is no less than the one that each of
        them would have by itself, and the bound of each member that was fixed beforehand holds.
        """
        if all(value is None for value in vars(self).values()):
            return EverySite().miss_rate_bounds(alpha, sizes, failure)
        shares = Mixture().shares(sizes)
        if not self._holds(shares):
            return []
        if _form(self, tuple(sizes)).price:
            return Mixture().miss_rate_bounds(alpha, sizes, failure)
        return [MissRateBound(shares_bound(alpha, sizes, shares, failure), shares)]

    def _holds(self, shares: Sequence[Fraction]) -> bool:
        """Whether a mixture is in the set; the proportional one is always in those around it."""
        if self.box is not None:
            low, high = _ends(self.box, len(shares))
            return all(a <= share <= b for a, share, b in zip(low, shares, high, strict=True))
        if self.polytope is not None:
            return all(
                sum(as_decimal(entry) * share for entry, share in zip(row, shares, strict=True)) <= as_decimal(most)
                for row, most in zip(*self.polytope, strict=True)
            )
        return True

    def audience(self, sites: Sequence[str], stratum: Stratum | None = None) -> Audience:
        if self.contamination is not None:
            which = f"whose weights are at least {float(1 - self._contamination):g} of those in proportion to n_k"
        elif self.total_variation is not None:
            which = f"within {self.total_variation:g} of the proportions n_k, in total variation"
        elif self.box is not None:
            which = f"whose weights are from {_words(self.box[0])} to {_words(self.box[1])}"
        elif self.polytope is not None:
            which = f"whose weights fulfil the {len(self.polytope[1])} stated inequalities"
        else:
            which = "whatever the weights"
        return Audience(
            population=f"from any mixture of the sites {which}",
            sampling="the test row's site is drawn with weights from the stated set",
            lay_population=(
                "new cases of all sites together, whichever share of them each site has, within the agreed limits"
            ),
        )


@dataclass(frozen=True, kw_only=True)
class WorstStratumShare(Guarantee):
    """The form of `WorstCase` for one class or group.

    The largest t, rounded down to 1e-15, for which no mixture in the set makes sum w_k (m_kc - t n_kc) less than the
    price; where the set has none, sum w_k (m_kc - t (n_kc + 1)) negative.
    """

    of: WorstCase
    totals: tuple[int, ...]

    def promised(self, counts: Counts, sizes: Counts) -> Fraction:
        """Narrow t down between two numbers; what is left over is a line, so its root is soon found.

        All rows of a site that sent none may be of the stratum.
        """
        form = _form(self.of, self.totals)
        held = [n + (not (form.price and total)) for n, total in zip(sizes, self.totals, strict=True)]

        def left_over(units: int) -> Fraction:
            values = [ALPHA_UNIT * m - units * n for m, n in zip(counts, held, strict=True)]
            return self.of.least(values, self.totals, form.rows) - ALPHA_UNIT * form.price

        low, high = 0, ALPHA_UNIT
        at_low, at_high = left_over(low), left_over(high)
        if at_low < 0:
            return Fraction(0)
        while high - low > 1:
            root = low + math.floor((high - low) * at_low / (at_low - at_high))
            for units in (root, root + 1, (low + high) // 2):
                if low < units < high:
                    found = left_over(units)
                    if found >= 0:
                        low, at_low = units, found
                    else:
                        high, at_high = units, found
        return Fraction(low, ALPHA_UNIT)

    def band(self, alpha: Fraction, sizes: Counts, gaps: Counts | None = None) -> Band:
        return Band(1 - alpha, Fraction(1), largest_share(gaps, sizes))

    def audience(self, sites: Sequence[str], stratum: Stratum | None = None) -> Audience:
        return Audience(population="of one stratum")


class _Form(NamedTuple):
    """One of the two forms of a promise: by what the counts of a site are divided, and the price of the set."""

    rows: tuple[int, ...]
    price: Fraction


@lru_cache(maxsize=16)
def _form(of: WorstCase, sizes: tuple[int, ...]) -> _Form:
    """Choose the form whose price is smaller in the worst case of the set."""
    swap, stand_ins = tuple(max(n, 1) for n in sizes), tuple(n + 1 for n in sizes)
    held, mixtures = [k for k, n in enumerate(sizes) if n], _set(of, sizes)
    if mixtures is None:
        share = of._contamination
        largest = (1 - share) / max(1, sum(sizes)) + share / min((sizes[k] for k in held), default=1)
    else:
        most = (-mixtures.least([-int(j == k) for j in range(len(sizes))]) / sizes[k] for k in held)
        largest = max(most, default=Fraction(0))
    if largest <= -of.least([-int(n > 0) for n in sizes], sizes, stand_ins):
        return _Form(swap, largest)
    return _Form(stand_ins, Fraction(0))


@lru_cache(maxsize=16)
def _set(of: WorstCase, sizes: tuple[int, ...]) -> MixtureSet | None:
    """Return the set for these sites; None if only the proportional and the worst single site matter."""
    sites = len(sizes)
    if of.total_variation is not None:
        return Ball(Mixture().shares(sizes), as_decimal(of.total_variation))
    if of.box is not None:
        return Box(*_ends(of.box, sites))
    if of.polytope is not None:
        A, b = of.polytope
        if len(A[0]) != sites:
            raise InputError(f"polytope: A has {len(A[0])} columns for {sites} sites")
        return Polytope([[as_decimal(entry) for entry in row] for row in A], [as_decimal(limit) for limit in b])
    return None


def _ends(box: Any, sites: int) -> tuple[list[Fraction], list[Fraction]]:
    """Return the least and the largest weight of every site."""
    bounds = [bound if isinstance(bound, tuple) else (bound,) * sites for bound in box]
    for bound in bounds:
        if len(bound) != sites:
            raise InputError(f"box: {len(bound)} bounds were given for {sites} sites")
    lower, upper = ([as_decimal(bound) for bound in column] for column in bounds)
    return lower, upper


def checked_share(value: Any, field: str) -> float:
    """Read a number from 0 to 1."""
    number = _checked_number(value, field)
    if not 0 <= number <= 1:
        raise InputError(f"{field} is {number:g}, expected a number from 0 to 1")
    return number


def _checked_number(value: Any, field: str) -> float:
    try:
        number = float(str(value))  # through text: numpy's float32 0.1 is 0.1
    except ValueError:
        raise InputError(f"{field}: {value!r:.40} is not a number") from None
    if isinstance(value, bool | str) or not math.isfinite(number):
        raise InputError(f"{field}: {value!r:.40} is not a finite number")
    return number


def _checked_box(value: Any, field: str) -> tuple[Bounds, Bounds]:
    try:
        lower, upper = value
    except (TypeError, ValueError):
        raise InputError("box: expected (lower, upper), a number for all sites or one for each") from None
    bounds: list[Bounds] = [
        checked_share(bound, field) if np.ndim(bound) == 0 else tuple(checked_share(one, field) for one in bound)
        for bound in (lower, upper)
    ]
    count = max(len(bound) if isinstance(bound, tuple) else 1 for bound in bounds)
    each = [bound if isinstance(bound, tuple) else (bound,) * count for bound in bounds]
    if any(low > high for low, high in zip(*each, strict=False)):
        raise InputError("box: a lower bound is above its upper bound")
    return bounds[0], bounds[1]


def _checked_polytope(value: Any, field: str) -> Inequalities:
    try:
        A, b = value
        rows = tuple(tuple(_checked_number(entry, field) for entry in row) for row in A)
        limits = tuple(_checked_number(limit, field) for limit in b)
    except (TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError("polytope: expected (A, b), a matrix with a column for each site and a vector") from None
    if not rows or len(rows) != len(limits) or len({len(row) for row in rows}) != 1 or not rows[0]:
        raise InputError(f"polytope: A has {len(rows)} rows and b {len(limits)}; expected (A, b) with A w <= b")
    return rows, limits


_CHECKS: dict[str, Any] = {
    "contamination": checked_share,
    "total_variation": checked_share,
    "box": _checked_box,
    "polytope": _checked_polytope,
}


def _words(bound: Any) -> str:
    return f"{list(bound)}" if isinstance(bound, tuple) else f"{bound:g}"
