"""Before any data is collected: which guarantees can be had at this alpha from sites of these sizes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import msgspec
from numpy.typing import ArrayLike

from fedconformal._base.arrays import as_alpha, as_sizes
from fedconformal.calibration.pilot import PilotDraws
from fedconformal.calibration.predictor import Predictor
from fedconformal.certificates import text
from fedconformal.certificates.uninformative import HALF
from fedconformal.errors import InputError
from fedconformal.guarantees import (
    FCP,
    PAC,
    EverySite,
    Guarantee,
    Mixture,
    NewSite,
    OneSite,
    WorstCase,
)
from fedconformal.guarantees.guarantee import Counts, feasible

DEFAULT_SET = WorstCase(contamination=0.1)
DEFAULT_PAC = PAC()


class Option(msgspec.Struct, frozen=True, kw_only=True):
    """One guarantee: can it be had, and what is the band of coverage; if not, what is missing.

    `expected_coverage` is the mean coverage if the sites are alike, where it has a closed form; `mean_size` is
    the mean set size that a pilot predictor suggests.
    """

    guarantee: str
    feasible: bool
    coverage_at_least: float
    coverage_at_most: float
    expected_coverage: float | None
    rank: int | None
    rank_out_of: int | None
    smallest_alpha: float
    missing: str
    mean_size: float | None = None


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What can be promised at this alpha."""

    alpha: float
    sizes: list[int]
    by_class: str
    """How many scores every class takes, if each is promised coverage by itself."""
    condition: str
    notes: list[str]
    options: list[Option]

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists, dicts and numbers, ready for JSON."""
        built: dict[str, Any] = msgspec.to_builtins(self)
        return built


def plan(
    *,
    alpha: Any,
    sizes: Sequence[int],
    sites: Sequence[str] | None = None,
    worst_case: WorstCase = DEFAULT_SET,
    pac: PAC = DEFAULT_PAC,
    others: Sequence[Guarantee] = (),
    pilot: Predictor | None = None,
    probs: ArrayLike | None = None,
) -> Plan:
    """Say which guarantees are feasible, the band of each, and what would make the others feasible.

    `others` are guarantees that stand in no plan by themselves, such as those of another package.
    With a `pilot` predictor and the probabilities `probs` of some rows, also how large the sets would be, and which
    score would help if half of them hold every label. Sizes alone say nothing of sets: without a pilot none is named.

    >>> for option in plan(alpha=0.1, sizes=[200, 50, 5]).options:
    ...     print(option.guarantee, option.feasible, round(option.coverage_at_most, 3), option.missing)
    mixture True 0.906
    mixture uniform True 0.964
    fcp True 0.911
    every-site False 1.0 calibration scores needed: 4 more at site '#3'
    worst-case d=0.1 True 1.0
    new-site False 1.0 sites needed: 6 more, from the same population
    pac 0.05 True 1.0
    one-site #1 True 0.9
    one-site #2 True 0.902
    one-site #3 False 1.0 calibration scores needed: 4 more at site '#3'
    """
    wanted = as_alpha(alpha)
    counts = as_sizes(sizes)
    if (pilot is None) != (probs is None):
        raise InputError("a pilot predictor and probabilities go together; give both or neither")
    if unfit := next((one for one in others if one.by_class and one.inner is one), None):
        raise InputError(f"{unfit.name}: a plan knows the sizes of sites, not of classes; leave it out")
    names = list(sites) if sites is not None else [f"#{k + 1}" for k in range(len(counts))]
    if len(names) != len(counts):
        raise InputError(f"sites: {len(names)} names were given for {len(counts)} sites")
    offered = usual_guarantees(names, worst_case, pac, others)
    options = [_option(label, guarantee, wanted, counts, names) for label, guarantee in offered]
    notes: list[str] = []
    if pilot is not None and probs is not None:
        trial = PilotDraws(pilot, probs, counts)
        found = [trial.sets(guarantee, wanted) for _, guarantee in offered]
        options = [
            msgspec.structs.replace(option, mean_size=sets.mean_size)
            for option, sets in zip(options, found, strict=True)
        ]
        notes.append(
            "mean set sizes are estimates: they draw every new site's scores as the pilot's promise curve says, "
            "so they are for sites that are alike"
        )
        full = [one.guarantee for one, sets in zip(options, found, strict=True) if one.feasible and sets.full >= HALF]
        if full:
            notes.append(
                f"at least half of the sets are estimated to hold every label with {', '.join(full)}; "
                f"{text.BETTER_MODEL}"
            )
    return Plan(
        alpha=float(wanted),
        sizes=counts,
        by_class=each_class(wanted),
        condition=_condition(wanted, counts),
        notes=notes,
        options=options,
    )


def usual_guarantees(
    names: Sequence[str],
    worst_case: WorstCase = DEFAULT_SET,
    pac: PAC = DEFAULT_PAC,
    others: Sequence[Guarantee] = (),
) -> list[tuple[str, Guarantee]]:
    """Return what a plan compares, by what it is called there."""
    return [
        ("mixture", Mixture()),
        ("mixture uniform", Mixture(weights="uniform")),
        ("fcp", FCP()),
        ("every-site", EverySite()),
        (_set_name(worst_case), worst_case),
        ("new-site", NewSite()),
        (f"pac {pac.failure:g}", pac),
        *((label_of(other), other) for other in others),
        *((f"one-site {name}", OneSite(site=k)) for k, name in enumerate(names)),
    ]


def each_class(alpha: Fraction) -> str:
    """Say how many scores of every class it takes."""
    return f"by class or by group, every class or group takes {math.ceil(1 / alpha)} scores in all, at any sites"


def label_of(guarantee: Guarantee) -> str:
    """Name a guarantee with its parameters."""
    about = guarantee.to_dict()
    own = [key for key, value in about.items() if key != "name" and value is not None and not isinstance(value, dict)]
    return " ".join([text.guarantee_name(about), *(f"{key}={about[key]}" for key in own)])


def _set_name(worst_case: WorstCase) -> str:
    if worst_case.contamination is not None:
        return f"worst-case d={worst_case.contamination:g}"
    if worst_case.total_variation is not None:
        return f"worst-case tv={worst_case.total_variation:g}"
    return f"worst-case {'box' if worst_case.box else 'polytope' if worst_case.polytope else 'any'}"


def _option(label: str, guarantee: Guarantee, alpha: Fraction, sizes: list[int], names: list[str]) -> Option:
    stratum = "group" if guarantee.by_group else "class" if guarantee.by_class else None
    guarantee = guarantee.bind(names, sizes)
    can_be = feasible(guarantee, alpha, sizes)
    band = guarantee.band(alpha, sizes)
    expected = expected_coverage(guarantee, alpha, sizes) if can_be else None
    return Option(
        guarantee=label,
        feasible=can_be,
        coverage_at_least=float(band.least) if can_be else 1.0,
        coverage_at_most=float(band.most) if can_be else 1.0,
        expected_coverage=None if expected is None else float(expected),
        rank=band.rank,
        rank_out_of=band.out_of,
        smallest_alpha=float(1 - guarantee.promised(sizes, sizes)),
        missing="" if can_be else text.shortfall(guarantee, alpha, sizes, names, stratum=stratum),
    )


def expected_coverage(guarantee: Guarantee, alpha: Fraction, sizes: Counts) -> Fraction | None:
    """Return the mean coverage if the sites are alike and scores distinct, where the target is a rank: r of N + 1."""
    band = guarantee.band(alpha, sizes)
    if band.rank is None or band.out_of is None:
        return None
    return Fraction(band.rank, band.out_of if guarantee.sites_apart else sum(sizes) + 1)


def _condition(alpha: Fraction, sizes: list[int]) -> str:
    total, (rank, _) = sum(sizes), Mixture().rank(alpha, sizes) or (0, 0)
    holds = "is enough" if rank <= total else "is too few"
    return f"mixture needs 1/alpha = {float(1 / alpha):g} scores in all: rank {rank} of N = {total}, which {holds}"
