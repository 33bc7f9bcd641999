"""Coverage for every mixture of the sites in a set: the worst case over the set (docs/proofs.md).

The price of the set is its largest lambda_k / n_k, as in `Mixture`. If sum lambda_k / (n_k + 1), the price of Lu et al.
(2023), is smaller in the worst case, their form sum lambda_k m_k(q) / (n_k + 1) is used.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, Self

from numpy.typing import NDArray

from fedconformal._base.arrays import Integers
from fedconformal.errors import InputError
from fedconformal.guarantees.every_site import EverySite
from fedconformal.guarantees.guarantee import (
    Audience,
    Band,
    Counts,
    Guarantee,
    MissRateBound,
    Shares,
    Shortfall,
    SiteCounts,
    StratumKind,
    as_decimal,
    checked_share,
    checked_shares,
    missing_scores,
)
from fedconformal.guarantees.mixture import WITHIN_SITES, Mixture

Bound = float | Sequence[float] | NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class WorstCase(SiteCounts):
    """Coverage for a test row from any mixture of the sites in a set; without parameters, from any mixture at all.

    Parameters
    ----------
    contamination
        Share of test rows from arbitrary sites; the others come from the sites in proportion to n_k.
    box
        Lower and upper bounds on the weights of the sites; each is one number for all sites, or one per site.

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
    why_no_bound = "no single mixture of the stated set is named"
    has_strata = False
    fractional = True

    contamination: float | None = None
    box: tuple[Bound, Bound] | None = None

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

    def bind(self, sites: Sequence[str], sizes: Counts, stratum: StratumKind | None = None) -> Guarantee:
        _form(self, tuple(sizes))
        return super().bind(sites, sizes, stratum)

    def promised_many(self, counts: Integers, sizes: Counts, unit: int = 1) -> list[Fraction]:
        """Return the minimum over the set for every column of counts, where `unit` counts make one row."""
        form = _form(self, tuple(sizes))
        return [max(Fraction(0), form.least(column) / unit - form.price) for column in counts.T.tolist()]

    def band(self, alpha: Fraction, sizes: Counts, gaps: Counts | None = None) -> Band:
        """Return as slack the largest weighted sum of gaps over the set."""
        slack = -_form(self, tuple(sizes)).least([-gap for gap in gaps or [0] * len(sizes)])
        return Band(1 - alpha, Fraction(1), slack)

    def missing(self, alpha: Fraction, sizes: Counts) -> Shortfall:
        """Return the missing scores at the sites with a positive weight in any mixture of the set."""
        largest = _form(self, tuple(sizes)).largest
        return missing_scores(self, alpha, sizes, [k for k, weight in enumerate(largest) if weight])

    def miss_rate_bounds(self, alpha: Fraction, sizes: Counts, failure: float) -> list[MissRateBound]:
        """Bound every site if the set contains all mixtures."""
        everything = self.contamination is None and self.box is None
        return EverySite().miss_rate_bounds(alpha, sizes, failure) if everything else []

    def audience(self, sites: Sequence[str], stratum: StratumKind | None = None) -> Audience:
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


@dataclass(frozen=True)
class _Form:
    """The set as bounds of the weights, in units of 1 / `whole`; the divisors of the counts; and the price."""

    lower: tuple[int, ...]
    room: tuple[int, ...]
    whole: int
    largest: tuple[Fraction, ...]
    rows: tuple[int, ...]
    price: Fraction

    def least(self, values: Sequence[int]) -> Fraction:
        """Minimise the weighted sum of values per row greedily: the smallest ones are filled up first."""
        common = math.lcm(*set(self.rows))
        shares = [v * (common // n) for v, n in zip(values, self.rows, strict=True)]
        total = sum(low * share for low, share in zip(self.lower, shares, strict=True))
        left = self.whole - sum(self.lower)
        for k in sorted(range(len(shares)), key=shares.__getitem__):
            more = min(left, self.room[k])
            total += more * shares[k]
            left -= more
        return Fraction(total, self.whole * common)


@lru_cache(maxsize=16)
def _form(of: WorstCase, sizes: tuple[int, ...]) -> _Form:
    """Return the form with the smaller price in the worst case of the set."""
    rest = 1 - as_decimal(1.0 if of.contamination is None else of.contamination)
    lower, upper = [rest * share for share in Mixture().site_shares(sizes)], [Fraction(1)] * len(sizes)
    if of.box is not None:
        lower, upper = (_each_site(bound, len(sizes)) for bound in of.box)
    room, left = [high - low for low, high in zip(lower, upper, strict=True)], 1 - sum(lower)
    if min(room) < 0 or not 0 <= left <= sum(room):
        raise InputError(
            "no weights fit the bounds: a lower one must not be above its upper one, the lower ones must add up to at "
            f"most 1 (here {float(sum(lower)):g}) and the upper ones to at least 1 (here {float(sum(upper)):g})"
        )
    largest = tuple(low + min(left, more) for low, more in zip(lower, room, strict=True))
    whole = math.lcm(*(bound.denominator for bound in (*lower, *upper)))
    swap = _Form(
        lower=tuple(int(bound * whole) for bound in lower),
        room=tuple(int(bound * whole) for bound in room),
        whole=whole,
        largest=largest,
        rows=tuple(max(n, 1) for n in sizes),
        price=max((weight / n for weight, n in zip(largest, sizes, strict=True) if n), default=Fraction(0)),
    )
    stand_ins = replace(swap, rows=tuple(n + 1 for n in sizes), price=Fraction(0))
    return swap if swap.price <= -stand_ins.least([-int(n > 0) for n in sizes]) else stand_ins


def _each_site(bound: Any, sites: int) -> list[Fraction]:
    """Return the bound of every site."""
    bounds = bound if isinstance(bound, tuple) else (bound,) * sites
    if len(bounds) != sites:
        raise InputError(f"box: {len(bounds)} bounds were given for {sites} sites")
    return [as_decimal(each) for each in bounds]


def _checked_box(value: Any) -> tuple[Shares, Shares]:
    try:
        lower, upper = value
    except (TypeError, ValueError):
        raise InputError("box: expected (lower, upper), a number for all sites or one for each") from None
    return checked_shares(lower, "box"), checked_shares(upper, "box")
