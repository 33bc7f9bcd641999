"""Before a predictor is calibrated anew: how many new rows restore which promise, and how soon.

For each guarantee, the fewest new rows at each site that give a finite threshold, and as many as last time; how far
above its target the coverage can then be, and what the limit of a watch becomes (guarantees/luck.py). Few rows give a
promise, and a watch that needs much to notice anything.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

import msgspec

from fedconformal._base.arrays import as_alpha, as_sizes, shares_of
from fedconformal._base.names import abbreviate
from fedconformal.calibration.plan import each_class, label_of, usual_guarantees
from fedconformal.calibration.plan_risk import least_risk, mean_loss, usual_for_losses
from fedconformal.calibration.predictor import Predictor
from fedconformal.calibration.risk import as_limit
from fedconformal.certificates import text
from fedconformal.certificates.certificate import RiskRecord, site_names
from fedconformal.errors import InputError
from fedconformal.guarantees import Guarantee
from fedconformal.guarantees.guarantee import feasible, least_enough

FAILURE = 0.025
"""How often a calibration may be so unlucky that the watch's limit does not hold; `Monitor.of` has the same."""
MOST_WEEKS = 2**20


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """A number of new rows at each site, and what they give."""

    rows: list[int]
    weeks: int | None
    """After how many weeks all sites have them, if it is known how many come in a week."""
    coverage_at_most: float | None
    mean_loss: float | None
    """Of a promise on losses: what rows may lose on average at the most."""
    watch_limit: float | None
    """How often rows may be missed before a watch takes it for broken; the largest, if sites are watched apart."""


class Renewal(msgspec.Struct, frozen=True, kw_only=True):
    """One guarantee: the fewest new rows, and as many as last time; None where no number of rows is enough."""

    guarantee: str
    as_before: bool
    """Whether it is the guarantee of the predictor that is replaced."""
    fewest: Step | None
    last_time: Step | None
    missing: str = ""


class RenewalPlan(msgspec.Struct, frozen=True, kw_only=True):
    """How many new rows restore which promise."""

    alpha: float
    """How often the truth may be missed; of losses, the limit divided by the bound."""
    sites: list[str]
    last_time: list[int]
    rows_per_week: list[float] | None
    options: list[Renewal]
    notes: list[str]

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists, dicts and numbers, ready for JSON."""
        built: dict[str, Any] = msgspec.to_builtins(self)
        return built


def plan_renewal(predictor: Predictor, *, rows_per_week: Sequence[Any] | None = None) -> RenewalPlan:
    """Say how many new rows at each site restore which promise, and after how many weeks they are there.

    >>> from fedconformal import LAC, Predictor, Summary, calibrate
    >>> sites = [
    ...     Summary.of_scores([i / n for i in range(n)], site=name, score=LAC()) for name, n in (("a", 90), ("b", 30))
    ... ]
    >>> found = plan_renewal(calibrate(sites), rows_per_week=[6, 2]).options[0]
    >>> found.guarantee, found.fewest.rows, found.fewest.weeks, round(found.fewest.watch_limit, 4)
    ('mixture', [12, 4], 2, 0.2059)
    >>> found.last_time.rows, found.last_time.weeks, round(found.last_time.watch_limit, 4)
    ([90, 30], 15, 0.1581)
    """
    about = predictor.certificate
    names, sizes = site_names(about.summaries), as_sizes([n for record in about.summaries for n in record.sizes])
    rates = None if rows_per_week is None else _rates(rows_per_week, len(sizes))
    own, notes = about.terms()[0], list[str]()
    alpha = as_alpha(about.alpha)
    ends: tuple[Fraction, ...] = (alpha,)
    if about.risk is not None:
        alpha = as_limit(about.risk.limit, about.risk.bound) / Fraction(about.risk.bound)
        offered = usual_for_losses(names)
        notes.append("the fewest rows are for rows that lose nothing; what they lose takes more")
    else:
        offered = usual_guarantees(names)
        if about.lower_share is not None:
            ends = shares_of(alpha, about.lower_share)
            alpha = min(ends)
            notes.append(f"each end has its share of alpha; this is the plan of the dearer one, at {float(alpha):g}")
    if own.by_class or own.by_group:
        notes.append(each_class(alpha))
    elif own not in [one for _, one in offered]:
        offered = [(label_of(own), own), *offered]
    planned = _Planned(alpha, ends, names, sizes, rates, about.risk)
    return RenewalPlan(
        alpha=float(alpha),
        sites=names,
        last_time=sizes,
        rows_per_week=None if rates is None else [float(rate) for rate in rates],
        options=[planned.option(label, one, as_before=one == own) for label, one in offered],
        notes=notes,
    )


class _Planned(msgspec.Struct, frozen=True):
    alpha: Fraction
    ends: tuple[Fraction, ...]
    """The shares of alpha of both ends of an interval, where each has its own."""
    names: list[str]
    last: list[int]
    rates: list[Fraction] | None
    losses: RiskRecord | None

    def option(self, label: str, guarantee: Guarantee, *, as_before: bool) -> Renewal:
        bound = guarantee.bind(self.names, self.last)
        if bound.missing(self.alpha, self.last).sites:
            words = text.shortfall(bound, self.alpha, self.last, self.names)
            return Renewal(guarantee=label, as_before=as_before, fewest=None, last_time=None, missing=words)
        sized = self._sized(bound)
        least = least_enough(lambda number: self._enough(guarantee, sized(number)), most=MOST_WEEKS)
        then = self._step(guarantee, self.last) if self._enough(guarantee, self.last) else None
        return Renewal(
            guarantee=label,
            as_before=as_before,
            fewest=self._step(guarantee, sized(least)) if least else None,
            last_time=then,
            missing="" if least else "no number of rows that come like this is enough",
        )

    def _sized(self, bound: Guarantee) -> Callable[[int], list[int]]:
        """Return the rows at each site after a number of weeks; or as many at each site that counts, or in all."""
        rates, total = self.rates, sum(self.last)
        if rates is not None:
            return lambda weeks: [math.floor(rate * weeks) for rate in rates]
        if bound.sites_apart:
            bounds = bound.miss_rate_bounds(self.alpha, self.last, FAILURE)
            weighty = {k for one in bounds for k, share in enumerate(one.shares or ()) if share}
            inside = weighty | {one.site for one in bounds if one.site is not None} or set(range(len(self.last)))
            return lambda number: [number if k in inside else 1 for k in range(len(self.last))]
        before = [sum(self.last[:k]) for k in range(len(self.last) + 1)]
        return lambda number: [
            max(1, number * end // total - number * start // total) for start, end in pairwise(before)
        ]

    def _enough(self, guarantee: Guarantee, sizes: list[int]) -> bool:
        if min(sizes) < 1:
            return False
        bound = guarantee.bind(self.names, sizes)
        if self.losses is not None:
            return least_risk(bound, sizes) <= self.alpha
        return feasible(bound, self.alpha, sizes)

    def _step(self, guarantee: Guarantee, sizes: list[int]) -> Step:
        bound = guarantee.bind(self.names, sizes)
        weeks = None
        if self.rates is not None and all(self.rates):
            weeks = max(math.ceil(n / rate) for n, rate in zip(sizes, self.rates, strict=True))
        if self.losses is not None:
            most = self.losses.bound
            lost = mean_loss(bound, self.alpha, sizes, most)
            return Step(rows=sizes, weeks=weeks, coverage_at_most=None, mean_loss=lost, watch_limit=None)
        each, count = bound if len(self.ends) == 1 else bound.bind(self.names, sizes, "end"), len(self.ends)
        limits = [each.miss_rate_bounds(end, sizes, FAILURE / count) for end in self.ends]
        return Step(
            rows=sizes,
            weeks=weeks,
            coverage_at_most=float(bound.band(self.alpha, sizes).most),
            mean_loss=None,
            watch_limit=min(1.0, sum(max(one.rate for one in end) for end in limits)) if all(limits) else None,
        )


def _rates(rows_per_week: Sequence[Any], count: int) -> list[Fraction]:
    try:
        rates = [Fraction(str(rate)) for rate in rows_per_week]
    except (ValueError, ZeroDivisionError):
        rates = []
    if len(rates) != count or min(rates, default=-1) < 0:
        raise InputError(f"rows_per_week is {abbreviate(rows_per_week)}, expected {count} numbers from 0, one a site")
    return rates
