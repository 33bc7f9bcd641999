"""Before any loss is known: which limits on the expected loss can be promised from sites of these sizes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import msgspec
import numpy as np

from fedconformal._base.arrays import as_sizes
from fedconformal.calibration.risk import as_limit
from fedconformal.errors import InputError
from fedconformal.guarantees import PAC, EverySite, Guarantee, Mixture, NewSite, OneSite
from fedconformal.guarantees.guarantee import summed
from fedconformal.summaries.provenance import as_bound

DEFAULT_PAC = PAC()
STEPS = 10**6
"""Mean losses are looked for in steps of the bound divided by this."""


class RiskOption(msgspec.Struct, frozen=True, kw_only=True):
    """One guarantee: the least limit that it can promise, and what the rows may lose on average at the wanted one."""

    guarantee: str
    feasible: bool
    least_limit: float
    """What is promised if no row loses anything."""
    mean_loss: float | None
    """The largest mean loss of every site's rows with which the limit is promised; None if it cannot be."""


def plan_risk(
    *, risk: Any, sizes: Sequence[int], bound: float = 1, sites: Sequence[str] | None = None, pac: PAC | None = None
) -> list[RiskOption]:
    """Say which guarantees can promise an expected loss of at most `risk`, and how much room that leaves.

    >>> for option in plan_risk(risk=0.1, sizes=[200, 50, 5])[:3]:
    ...     print(option.guarantee, round(option.least_limit, 4), option.mean_loss)
    mixture 0.0039 0.096078
    mixture uniform 0.0637 0.038718
    every-site 0.1667 None
    """
    counts, most = as_sizes(sizes), as_bound(bound)
    limit = as_limit(risk, most) / Fraction(most)
    names = list(sites) if sites is not None else [f"#{k + 1}" for k in range(len(counts))]
    if len(names) != len(counts):
        raise InputError(f"sites: {len(names)} names were given for {len(counts)} sites")
    offered = usual_for_losses(names, PAC() if pac is None else pac)
    return [_option(label, one.bind(names, counts), limit, counts, most) for label, one in offered]


def usual_for_losses(names: Sequence[str], pac: PAC = DEFAULT_PAC) -> list[tuple[str, Guarantee]]:
    """Return what a plan compares, by what it is called there."""
    return [
        ("mixture", Mixture()),
        ("mixture uniform", Mixture(weights="uniform")),
        ("every-site", EverySite()),
        ("new-site", NewSite()),
        (f"pac {pac.failure:g}", pac),
        *((f"one-site {name}", OneSite(site=k)) for k, name in enumerate(names)),
    ]


def least_risk(bound: Guarantee, sizes: Sequence[int]) -> Fraction:
    """Return what is promised if no row loses anything, as a part of the bound."""
    return _risk(bound, sizes)(0)


def mean_loss(bound: Guarantee, limit: Fraction, sizes: Sequence[int], most: float) -> float | None:
    """Return the largest mean loss of every site's rows with which the limit is promised; None if it cannot be."""
    risk = _risk(bound, sizes)
    low, high = -1, STEPS  # the risk of `low` is enough, if it is not -1, and that of `high` is not
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if risk(middle) <= limit else (low, middle)
    return low / STEPS * most if low >= 0 else None


def _risk(bound: Guarantee, sizes: Sequence[int]) -> Callable[[int], Fraction]:
    group, promise = bound.grouped(sizes, STEPS)

    def risk(lost: int) -> Fraction:
        """Return what is promised if every row loses this many steps."""
        kept = np.array([[n * (STEPS - lost)] for n in sizes])
        return 1 - promise(summed(kept, group, sum(sizes) * STEPS))[0]

    return risk


def _option(label: str, bound: Guarantee, limit: Fraction, sizes: list[int], most: float) -> RiskOption:
    lost = mean_loss(bound, limit, sizes, most)
    least = math.ceil(least_risk(bound, sizes) * 10**12) / 10**12 * most
    return RiskOption(guarantee=label, feasible=lost is not None, least_limit=least, mean_loss=lost)
