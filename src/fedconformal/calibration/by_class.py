"""Calibrate from summaries by class: a threshold for each class, or one for which the classes play the sites."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from fractions import Fraction
from functools import partial

import msgspec
import numpy as np

from fedconformal.calibration.certificate import ClassRecord
from fedconformal.calibration.curve import ClassCurves
from fedconformal.calibration.result import Calibration, are_sure, band_of, certificate_of
from fedconformal.calibration.search import Search
from fedconformal.certificates import text
from fedconformal.errors import InfeasibleWarning, InputError
from fedconformal.guarantees import ByClass, Guarantee
from fedconformal.summaries.exact import ExactSummary
from fedconformal.summaries.provenance import combine_provenances, number_of
from fedconformal.summaries.strata import StratifiedSummary, Stratum
from fedconformal.summaries.summary import Summary

UNSEEN = 4096
"""A certificate by class lists this many classes of which no score was seen, and as many more as were seen."""


def by_class(
    summaries: Sequence[Summary],
    alpha: Fraction,
    guarantee: ByClass,
    bound: Guarantee,
    names: Sequence[str],
) -> Calibration:
    """Search class by class."""
    sites = class_summaries(summaries)
    called = class_names(sites)
    searches, records = searched(sites, alpha, bound, called)
    if lacking := [record.label for record in records if record.threshold == "inf"]:
        stated = combine_provenances(site.origin for site in sites).classes
        warnings.warn(
            f"alpha={float(alpha):g} cannot be promised {text.in_every_set(lacking, stated)}; "
            + text.class_shortfalls(
                bound,
                alpha,
                lacking,
                partial(_of_class, sites),
                names,
                stated,
            ),
            InfeasibleWarning,
            stacklevel=5,
        )
    certificate = certificate_of(
        summaries,
        alpha,
        guarantee,
        threshold=[record.threshold for record in records],
        target=str(1 - alpha),
        classes=records,
        rank=None,
        rank_out_of=None,
        slack=max(record.slack for record in records),
        coverage_at_least=min(record.coverage_at_least for record in records),
        coverage_at_most=max(record.coverage_at_most for record in records),
    )
    return Calibration(
        certificate, lambda: ClassCurves([search.curve(alpha) if search else None for search in searches])
    )


def searched(
    sites: Sequence[StratifiedSummary],
    alpha: Fraction,
    bound: Guarantee,
    classes: Sequence[str],
) -> tuple[list[Search | None], list[ClassRecord]]:
    """Search class by class; None for one of which no score was seen."""
    sure = are_sure(sites)
    searches: list[Search | None] = []
    records: list[ClassRecord] = []
    seen = {label for site in sites for _, label in site.parts}
    none = ExactSummary(values=np.empty(0), sizes=(0,))
    absent: ClassRecord | None = None
    for label in range(len(classes)):
        if label not in seen and absent is not None:  # there may be very many, all alike
            searches.append(None)
            records.append(msgspec.structs.replace(absent, label=label))
            continue
        held = [site.parts.get(Stratum(label=label), none) for site in sites]
        of_class = _of_class(sites, label)
        search = Search(held, bound, of_class) if label in seen else None
        threshold = search.smallest(alpha) if search else math.inf
        searches.append(search)
        band = band_of(bound, alpha, threshold, of_class, [part.gap for part in held], sure=sure)
        records.append(ClassRecord(label=label, scores=sum(of_class), **band))
        absent = absent if search else records[-1]
    return searches, records


def over_classes(summaries: Sequence[Summary], alpha: Fraction, guarantee: Guarantee) -> Calibration:
    """Search for one threshold, where the classes play the sites: the scores of a class at all sites count together."""
    sites = class_summaries(summaries)
    names = class_names(sites)
    classes = range(len(names))
    parts = [(stratum.label or 0, part) for site in sites for stratum, part in site.parts.items()]
    seen = {label for label, _ in parts}
    parts += [(label, ExactSummary(values=np.empty(0), sizes=(0,))) for label in classes if label not in seen]
    strata, held = zip(*parts, strict=True)
    sizes, gaps = [0] * len(classes), [0] * len(classes)
    for label, part in parts:
        sizes[label] += part.n
        gaps[label] += part.gap
    bound = guarantee.bind(names, sizes)
    search = Search(held, bound, sizes, strata)
    threshold = search.smallest(alpha)
    if threshold == math.inf:
        needed = text.shortfall(bound, alpha, sizes, names, owner="class")
        warnings.warn(text.too_few(alpha, needed), InfeasibleWarning, stacklevel=5)
    band = band_of(bound, alpha, threshold, sizes, gaps, sure=are_sure(sites) and guarantee.certified)
    certificate = certificate_of(summaries, alpha, guarantee, target=str(1 - alpha), class_scores=sizes, **band)
    return Calibration(certificate, partial(search.curve, alpha))


def class_summaries(summaries: Sequence[Summary]) -> list[StratifiedSummary]:
    """Check that all summaries are by class."""
    sites: list[StratifiedSummary] = []
    for summary in summaries:
        if not isinstance(summary, StratifiedSummary) or not summary.by_class or summary.columns:
            raise InputError(f"{summary} was not summarised by class; summarise with by_class=True", param="by_class")
        sites.append(summary)
    return sites


def class_names(sites: Sequence[StratifiedSummary]) -> Sequence[str]:
    """Name all classes, by their numbers if the summaries do not name them."""
    count, stated = _number_of_classes(sites), combine_provenances(site.origin for site in sites).classes
    return stated if isinstance(stated, tuple) else [str(label) for label in range(count)]


def _number_of_classes(sites: Sequence[StratifiedSummary]) -> int:
    """Count the classes: as stated, or up to the largest label; refuse very many that nobody has seen."""
    last = max(sites, key=_largest)
    largest = _largest(last)
    stated = combine_provenances(site.origin for site in sites).classes
    classes = largest + 1 if stated is None else number_of(stated)
    seen = len({label for site in sites for _, label in site.parts})
    if largest >= classes:
        raise InputError(f"{last} has scores of class {largest}, and there are {classes} classes")
    if classes > 2 * seen + UNSEEN:
        raise InputError(
            f"{last} names class {classes - 1}, and only {seen} classes have scores; number the classes from 0"
        )
    return classes


def _largest(site: StratifiedSummary) -> int:
    return max((label or 0 for _, label in site.parts), default=0)


def _of_class(sites: Sequence[StratifiedSummary], label: int) -> list[int]:
    return [n for site in sites for n in site.sizes_of(label=label)]
