"""Coverage for every mixture of the sites in a set: the worst case over the set (docs/proofs.md).

The price of the set is its largest lambda_k / n_k, as in `Mixture`. Where sum lambda_k / (n_k + 1), the price of Lu et
al. (2023), is smaller in the worst case, their form sum lambda_k m_k(q) / (n_k + 1) is used.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from fedconformal._base.arrays import Integers
from fedconformal.errors import InputError
from fedconformal.guarantees.binomial import shares_bound
from fedconformal.guarantees.every_site import EverySite
from fedconformal.guarantees.guarantee import (
    Audience,
    Band,
    Counts,
    MissRateBound,
    Shortfall,
    SiteCounts,
    Stratum,
    as_decimal,
    check_no_strata,
    missing_scores,
)
from fedconformal.guarantees.mixture import WITHIN_SITES, Mixture

Bounds = float | tuple[float, ...]
Given = float | Sequence[float] | NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class WorstCase(SiteCounts):
    """Coverage for a test row from any mixture of the sites in a set; give one of these, or none for all mixtures.

    Parameters
    ----------
    contamination
        The share of test rows that may come from any of the sites; the others follow the sites in proportion to n_k.
    box
        The least and the largest weight of every site; one number for all sites, or one for each.

    Examples
    --------
    >>> WorstCase(contamination=0.1).promised(counts=[9, 4], sizes=[10, 5])  # 0.9 * 13/15 + 0.1 * 4/5 - 2/25
    Fraction(39, 50)
    >>> WorstCase(box=(0.2, 0.8)).promised(counts=[9, 4], sizes=[10, 5])
    Fraction(23, 33)

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
    box: tuple[Given, Given] | None = None

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        return cls(), cls(contamination=0.1), cls(box=(0.2, (0.3, 0.5, 0.6)))

    def __post_init__(self) -> None:
        if self.contamination is not None and self.box is not None:
            raise InputError(f"{self.name}: takes one set of mixtures, got contamination and box")
        if self.contamination is not None:
            object.__setattr__(self, "contamination", checked_share(self.contamination, "contamination"))
        if self.box is not None:
            object.__setattr__(self, "box", _checked_box(self.box))

    def bind(self, sites: Sequence[str], sizes: Counts, stratum: Stratum | None = None) -> Self:
        _form(self, tuple(sizes))
        check_no_strata(self, stratum)
        return self

    def promised_many(self, counts: Integers, sizes: Counts, unit: int = 1) -> list[Fraction]:
        """Return the least over the set for every column of counts, of which `unit` make one row."""
        form = _form(self, tuple(sizes))
        return [max(Fraction(0), form.least(column) / unit - form.price) for column in counts.T.tolist()]

    def band(self, alpha: Fraction, sizes: Counts, gaps: Counts | None = None) -> Band:
        """Return as slack the largest weighted sum of gaps over the set."""
        slack = -_form(self, tuple(sizes)).least([-gap for gap in gaps or [0] * len(sizes)])
        return Band(1 - alpha, Fraction(1), slack)

    def missing(self, alpha: Fraction, sizes: Counts) -> Shortfall:
        """Return the scores missing at the sites that carry weight in some mixture of the set."""
        weights = _form(self, tuple(sizes)).box.largest_weights()
        return missing_scores(self, alpha, sizes, [k for k, weight in enumerate(weights) if weight])

    def miss_rate_bounds(self, alpha: Fraction, sizes: Counts, failure: float) -> list[MissRateBound]:
        """Bound every site if all mixtures are in the set; else the proportional mixture, if it is.

        What the set is promised is the least over its members, so the threshold is no less than the one that each of
        them would have by itself, and the bound of each member that was fixed beforehand holds.
        """
        if self.contamination is None and self.box is None:
            return EverySite().miss_rate_bounds(alpha, sizes, failure)
        shares = Mixture().site_shares(sizes)
        if self.box is not None:
            low, high = _ends(self.box, len(sizes))
            if not all(a <= share <= b for a, share, b in zip(low, shares, high, strict=True)):
                return []
        if _form(self, tuple(sizes)).price:
            return Mixture().miss_rate_bounds(alpha, sizes, failure)
        return [MissRateBound(shares_bound(alpha, sizes, shares, failure), shares)]

    def audience(self, sites: Sequence[str], stratum: Stratum | None = None) -> Audience:
        which = "whatever the weights"
        if self.contamination is not None:
            least = float(1 - as_decimal(self.contamination))
            which = f"whose weights are at least {least:g} of those in proportion to n_k"
        elif self.box is not None:
            low, high = (f"{list(bound)}" if isinstance(bound, tuple) else f"{bound:g}" for bound in self.box)
            which = f"whose weights are from {low} to {high}"
        return Audience(
            population=f"from any mixture of the sites {which}",
            sampling="the test row's site is drawn with weights from the stated set",
            lay_population=(
                "new cases of all sites together, whichever share of them each site has, within the agreed limits"
            ),
        )


class Box:
    """Mixtures whose weights have a lower and an upper bound."""

    def __init__(self, lower: Sequence[Fraction], upper: Sequence[Fraction]) -> None:
        if not sum(lower) <= 1 <= sum(upper):
            raise InputError(
                f"box: the lower bounds add up to {float(sum(lower)):g} and the upper to {float(sum(upper)):g}; "
                "a mixture needs at most 1 and at least 1"
            )
        self._whole = math.lcm(*(bound.denominator for bound in (*lower, *upper)))
        self._lower = [int(bound * self._whole) for bound in lower]
        self._room = [int((high - low) * self._whole) for low, high in zip(lower, upper, strict=True)]
        self._left = self._whole - sum(self._lower)

    def least(self, values: Sequence[int]) -> Fraction:
        """Return the least weighted sum: fill up the sites with the least values first."""
        total = sum(w * v for w, v in zip(self._lower, values, strict=True))
        left = self._left
        for k in sorted(range(len(values)), key=values.__getitem__):
            if not left:
                break
            more = min(left, self._room[k])
            total += more * values[k]
            left -= more
        return Fraction(total, self._whole)

    def largest_weights(self) -> list[Fraction]:
        """Return the largest weight of each site."""
        both = zip(self._lower, self._room, strict=True)
        return [Fraction(low + min(self._left, room), self._whole) for low, room in both]


@dataclass(frozen=True)
class _Form:
    """A form of the promise: the divisor of the counts of each site, and the price of the set."""

    box: Box
    rows: tuple[int, ...]
    price: Fraction

    def least(self, values: Sequence[int]) -> Fraction:
        """Return the least weighted sum over the set of these integers, each divided by the rows of its site."""
        whole = math.lcm(*set(self.rows))
        return self.box.least([v * (whole // n) for v, n in zip(values, self.rows, strict=True)]) / whole


@lru_cache(maxsize=16)
def _form(of: WorstCase, sizes: tuple[int, ...]) -> _Form:
    """Choose the form whose price is smaller in the worst case of the set."""
    if of.box is not None:
        box = Box(*_ends(of.box, len(sizes)))
    else:
        rest = 1 - as_decimal(1.0 if of.contamination is None else of.contamination)
        box = Box([rest * share for share in Mixture().site_shares(sizes)], [Fraction(1)] * len(sizes))
    largest = (weight / n for weight, n in zip(box.largest_weights(), sizes, strict=True) if n)
    swap = _Form(box, tuple(max(n, 1) for n in sizes), max(largest, default=Fraction(0)))
    stand_ins = _Form(box, tuple(n + 1 for n in sizes), Fraction(0))
    return swap if swap.price <= -stand_ins.least([-int(n > 0) for n in sizes]) else stand_ins


def checked_share(value: Any, field: str) -> float:
    """Read a number from 0 to 1."""
    try:
        number = float(str(value))  # through text: numpy's float32 0.1 is 0.1
    except ValueError:
        number = math.nan
    if isinstance(value, bool | str) or not 0 <= number <= 1:
        raise InputError(f"{field} is {value!r:.40}, expected a number from 0 to 1")
    return number


def _checked_box(value: Any) -> tuple[Bounds, Bounds]:
    try:
        lower, upper = value
    except (TypeError, ValueError):
        raise InputError("box: expected (lower, upper), a number for all sites or one for each") from None
    low, high = (
        checked_share(bound, "box") if np.ndim(bound) == 0 else tuple(checked_share(one, "box") for one in bound)
        for bound in (lower, upper)
    )
    count = max(np.size(low), np.size(high))
    each = (bound if isinstance(bound, tuple) else (bound,) * count for bound in (low, high))
    if any(least > most for least, most in zip(*each, strict=False)):
        raise InputError("box: a lower bound is above its upper bound")
    return low, high


def _ends(box: Any, sites: int) -> tuple[list[Fraction], list[Fraction]]:
    """Return the least and the largest weight of every site."""
    bounds = [bound if isinstance(bound, tuple) else (bound,) * sites for bound in box]
    for bound in bounds:
        if len(bound) != sites:
            raise InputError(f"box: {len(bound)} bounds were given for {sites} sites")
    lower, upper = ([as_decimal(bound) for bound in column] for column in bounds)
    return lower, upper
