"""Planning: feasible guarantees at an alpha, given the number of calibration rows of each site."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import msgspec

from fedconformal._base.arrays import as_alpha, as_sizes
from fedconformal._base.registry import build
from fedconformal.certificates import text
from fedconformal.errors import InputError
from fedconformal.guarantees import Guarantee
from fedconformal.guarantees.guarantee import feasible

USUAL = ("mixture", "mixture:weights=uniform", "fcp", "every-site", "worst-case:contamination=0.1", "new-site", "pac")
"""Guarantees in every plan."""


class Option(msgspec.Struct, frozen=True, kw_only=True):
    """A guarantee: its feasibility, the range of its coverage, and the missing calibration data if infeasible."""

    guarantee: str
    feasible: bool
    coverage_at_least: float
    coverage_at_most: float
    rank: int | None
    rank_out_of: int | None
    smallest_alpha: float
    missing: str


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The feasible guarantees at an alpha."""

    alpha: float
    sizes: list[int]
    rows_of_a_stratum: int
    """Number of rows, over all sites, that a class or a group needs for a conditional promise."""
    options: list[Option]


def plan(
    *,
    alpha: Any,
    sizes: Sequence[int],
    sites: Sequence[str] | None = None,
    guarantees: Sequence[Guarantee | str] = (),
) -> Plan:
    """Determine the feasible guarantees before any data are collected.

    Parameters
    ----------
    alpha
        Miscoverage level.
    sizes
        Number of calibration rows of each site.
    sites
        Names of the sites; by default they are numbered.
    guarantees
        Additional guarantees, or their spec strings such as "one-site:clinic-a".

    Returns
    -------
    Plan

    Examples
    --------
    >>> for option in plan(alpha=0.1, sizes=[200, 50, 5]).options[:4]:
    ...     print(option.guarantee, option.feasible, round(option.coverage_at_most, 3), option.missing)
    mixture True 0.906
    mixture:weights=uniform True 0.964
    fcp True 0.911
    every-site False 1.0 calibration scores needed: 4 more at site '#3'
    """
    level, counts = as_alpha(alpha), as_sizes(sizes)
    names = list(sites) if sites is not None else [f"#{k + 1}" for k in range(len(counts))]
    if len(names) != len(counts):
        raise InputError(f"sites: {len(names)} names were given for {len(counts)} sites", param="sites")
    more = [guarantee for guarantee in guarantees if guarantee not in USUAL]
    return Plan(
        alpha=float(level),
        sizes=counts,
        rows_of_a_stratum=math.ceil(1 / level),
        options=[_option(guarantee, level, counts, names) for guarantee in (*USUAL, *more)],
    )


def _option(spec: Guarantee | str, alpha: Fraction, sizes: list[int], names: list[str]) -> Option:
    guarantee = build(spec, Guarantee)
    if guarantee.over_classes:
        raise InputError(f"{guarantee.name}: a plan knows the sizes of sites, not of classes; leave it out")
    bound = guarantee.bind(names, sizes)
    can_be, band = feasible(bound, alpha, sizes), bound.band(alpha, sizes)
    strata = [noun for noun, has in (("class", guarantee.by_class), ("group", guarantee.by_group)) if has]
    return Option(
        guarantee=str(spec),
        feasible=can_be,
        coverage_at_least=float(band.least) if can_be else 1.0,
        coverage_at_most=float(band.most) if can_be else 1.0,
        rank=band.rank,
        rank_out_of=band.out_of,
        smallest_alpha=float(1 - bound.promised(sizes, sizes)),
        missing="" if can_be else text.shortfall(bound, alpha, sizes, names, stratum=" in each ".join(strata)),
    )
