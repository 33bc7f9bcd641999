"""From summaries and a guarantee to a threshold and a certificate."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from typing import Any

import msgspec
import numpy as np

from fedconformal._base.arrays import Floats, as_alpha
from fedconformal._base.names import shown
from fedconformal.calibration.certificate import (
    Certificate,
    ClassRecord,
    SummaryRecord,
    made_certificate,
    site_names,
    threshold_json,
    threshold_text,
    warn_of_sites,
)
from fedconformal.calibration.curve import ClassCurves, PromiseCurve
from fedconformal.calibration.search import Search
from fedconformal.errors import InfeasibleWarning, InputError
from fedconformal.guarantees import ByClass, Guarantee, Mixture
from fedconformal.guarantees.by_class import held_at, shortfalls, to_classes
from fedconformal.guarantees.planning import shortfall, what_is_missing
from fedconformal.summaries import ClassSummary
from fedconformal.summaries.exact import ExactSummary
from fedconformal.summaries.origin import all_joined, number_of
from fedconformal.summaries.summary import Summary, check_together

UNSEEN = 4096
"""A certificate by class lists this many classes of which no score was seen, and as many more as were seen."""


@dataclass(frozen=True, eq=False)
class Calibration:
    """The threshold, the certificate that says what it promises, and the promise at other thresholds."""

    certificate: Certificate
    make_curve: Callable[[], PromiseCurve | ClassCurves]

    @cached_property
    def curve(self) -> PromiseCurve | ClassCurves:
        """What every threshold promises; worked out when it is first asked for."""
        return self.make_curve()

    @property
    def threshold(self) -> float | Floats:
        """The threshold at the certified alpha, or one for each class; +inf if alpha cannot be promised."""
        return self.certificate.limit

    def __repr__(self) -> str:
        return f"Calibration(threshold={threshold_text(self.threshold)}, {self.certificate.sentence()!r})"


def calibrate(summaries: Sequence[Summary], *, alpha: Any = 0.1, guarantee: Guarantee | None = None) -> Calibration:
    """Find the smallest threshold that promises coverage 1 - alpha, or the smallest for each class.

    >>> from fedconformal import summarize
    >>> sites = [summarize([i / 20 for i in range(20)], site="a"), summarize([0.5, 0.7, 0.9], site="b")]
    >>> result = calibrate(sites, alpha=0.2)  # ceil(0.8 (23 + 2)) = 20
    >>> result.threshold, result.certificate.rank, result.certificate.coverage_at_most
    (0.85, 20, 0.84)
    """
    result = _calibrated(summaries, as_alpha(alpha), guarantee)
    warn_of_sites(result.certificate)
    return result


def calibrate_again(
    summaries: Sequence[Summary], *, alpha: Any = 0.1, guarantee: Guarantee | None = None
) -> Calibration:
    """Calibrate from summaries that go together, also if they have expired meanwhile: what `verify` recomputes."""
    return _calibrated(summaries, as_alpha(alpha), guarantee, expired=True)


def _calibrated(
    summaries: Sequence[Summary], wanted: Fraction, guarantee: Guarantee | None, *, expired: bool = False
) -> Calibration:
    summaries = usable(summaries, wanted, expired=expired)
    guarantee = Mixture() if guarantee is None else guarantee
    if not isinstance(guarantee, Guarantee):
        raise InputError(f"guarantee is {guarantee!r:.60}, expected one such as fedconformal.Mixture()")
    if guarantee.by_class and guarantee.kept is guarantee:
        return _over_classes(summaries, wanted, guarantee)
    names, sizes = site_names(summaries), [n for summary in summaries for n in summary.sizes]
    bound = guarantee.kept.bind(names, sizes)
    if bound.sites_apart and len(summaries) != len(sizes):
        pooled = next(summary for summary in summaries if len(summary.sizes) > 1)
        raise InputError(
            f"{pooled.label} came pooled, and {guarantee.kept.name} needs every site's own summary; "
            "use one that weighs all scores alike (mixture proportional, independent, exchangeable, pac), "
            "or send the sites apart"
        )
    if isinstance(guarantee, ByClass):
        return _by_class(summaries, wanted, guarantee, bound.in_class(sizes), names)
    search = Search(summaries, bound, sizes)
    threshold = search.smallest(wanted)
    if threshold == math.inf:
        _warn_of_too_few(wanted, shortfall(bound, wanted, sizes, names))
    band = _band(bound, wanted, threshold, sizes, [summary.gap for summary in summaries], sure=_sure(summaries))
    certificate = _certificate(summaries, wanted, guarantee, target=str(bound.at_least(wanted, sizes)), **band)
    return Calibration(certificate, partial(search.curve, wanted))


def _warn_of_too_few(alpha: Fraction, lacking: str, *, stacklevel: int = 4) -> None:
    every = "cannot be promised from these scores, so every label is in every set"
    warnings.warn(f"alpha={float(alpha):g} {every}; {lacking}", InfeasibleWarning, stacklevel=stacklevel)


def usable(summaries: Sequence[Summary], alpha: Fraction, *, expired: bool = False) -> list[Summary]:
    """Check that summaries go together, are for this alpha, and may still be used today unless `expired` is allowed."""
    summaries = [summaries] if isinstance(summaries, Summary) else list(summaries)
    if not summaries:
        raise InputError("there are no summaries to calibrate from")
    check_together(summaries)
    for summary in {id(summary.origin): summary for summary in summaries}.values():
        summary.origin.check_use(alpha, summary.label, expired=expired)
    return summaries


def _by_class(
    summaries: Sequence[Summary],
    alpha: Fraction,
    guarantee: ByClass,
    bound: Guarantee,
    names: Sequence[str],
) -> Calibration:
    """Search class by class."""
    sites = _class_summaries(summaries)
    called = _class_names(sites)
    places = guarantee.places(called, names)
    _check_holders(sites, places, called, names)
    sure = _sure(sites)
    searches: list[Search | None] = []
    records: list[ClassRecord] = []
    seen = {label for site in sites for label in site.parts}
    none = ExactSummary(values=np.empty(0), sizes=(0,))
    absent: ClassRecord | None = None
    for label in range(len(called)):
        if label not in seen and absent is not None and label not in places:  # there may be very many, all alike
            searches.append(None)
            records.append(msgspec.structs.replace(absent, label=label))
            continue
        held = [site.parts.get(label, none) for site in sites]
        of_class = _of_class(sites, label)
        own = held_at(bound, places.get(label))
        search = Search(held, own, of_class) if label in seen else None
        threshold = search.smallest(alpha) if search else math.inf
        searches.append(search)
        band = _band(own, alpha, threshold, of_class, [part.gap for part in held], sure=sure)
        records.append(ClassRecord(label=label, scores=sum(of_class), **band))
        absent = absent if search or label in places else records[-1]
    if lacking := [record.label for record in records if record.threshold == "inf"]:
        stated = all_joined(site.origin for site in sites).classes
        warnings.warn(
            f"alpha={float(alpha):g} cannot be promised {to_classes(lacking, stated)} in every set; "
            + shortfalls(
                lambda label: held_at(bound, places.get(label)),
                alpha,
                lacking,
                partial(_of_class, sites),
                names,
                stated,
            ),
            InfeasibleWarning,
            stacklevel=3,
        )
    certificate = _certificate(
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


def _over_classes(summaries: Sequence[Summary], alpha: Fraction, guarantee: Guarantee) -> Calibration:
    """Search for one threshold, where the classes play the sites: the scores of a class at all sites count together."""
    sites = _class_summaries(summaries)
    names = _class_names(sites)
    classes = range(len(names))
    parts = [(label, part) for site in sites for label, part in site.parts.items()]
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
        _warn_of_too_few(alpha, what_is_missing(bound, alpha, sizes, names, classes=True), stacklevel=5)
    band = _band(bound, alpha, threshold, sizes, gaps, sure=_sure(sites))
    certificate = _certificate(summaries, alpha, guarantee, target=str(1 - alpha), class_scores=sizes, **band)
    return Calibration(certificate, partial(search.curve, alpha))


def _class_summaries(summaries: Sequence[Summary]) -> list[ClassSummary]:
    sites: list[ClassSummary] = []
    for summary in summaries:
        if not isinstance(summary, ClassSummary):
            raise InputError(f"{summary.label} was not summarised by class; summarise with by_class=True")
        sites.append(summary)
    return sites


def _check_holders(
    sites: Sequence[ClassSummary], places: Mapping[int, Sequence[int]], classes: Sequence[str], names: Sequence[str]
) -> None:
    """Refuse rows of a class from a site that cannot hold it, or from one that is pooled with such a site."""
    start = 0
    for site in sites:
        own = range(start, start + len(site.sizes))
        start = own.stop
        for label in places.keys() & site.parts.keys():
            if outside := set(own) - set(places[label]):
                raise InputError(
                    f"site {names[min(outside)]!r} is not among the sites that can hold class {shown(classes[label])}, "
                    "and sent rows of it; add it to holders, or send pooled sites apart"
                )


def _class_names(sites: Sequence[ClassSummary]) -> Sequence[str]:
    """Name all classes, by their numbers if the summaries do not name them."""
    count, stated = _number_of_classes(sites), all_joined(site.origin for site in sites).classes
    return stated if isinstance(stated, tuple) else [str(label) for label in range(count)]


def _number_of_classes(sites: Sequence[ClassSummary]) -> int:
    """Count the classes: as stated, or up to the largest label; refuse very many that nobody has seen."""
    last = max(sites, key=lambda site: site.classes)
    stated = all_joined(site.origin for site in sites).classes
    classes = last.classes if stated is None else number_of(stated)
    seen = len({label for site in sites for label in site.parts})
    if last.classes > classes:
        raise InputError(f"{last.label} has scores of class {last.classes - 1}, and there are {classes} classes")
    if classes > 2 * seen + UNSEEN:
        raise InputError(
            f"{last.label} names class {classes - 1}, and only {seen} classes have scores; number the classes from 0"
        )
    return classes


def _of_class(sites: Sequence[ClassSummary], label: int) -> list[int]:
    return [n for site in sites for n in site.sizes_of(label)]


def _band(
    bound: Guarantee,
    alpha: Fraction,
    threshold: float,
    sizes: Sequence[int],
    gaps: Sequence[int],
    *,
    sure: bool,
) -> dict[str, Any]:
    """Say what a threshold promises: the target and the theorem's band, never the count that came out."""
    if not sure:  # an estimate promises nothing
        lowest, highest = Fraction(0), Fraction(1)
    elif threshold == math.inf:
        lowest = highest = Fraction(1)
    else:
        lowest, highest = bound.at_least(alpha, sizes), bound.at_most(alpha, sizes, gaps)
    rank, out_of = bound.rank(alpha, sizes) or (None, None)
    return {
        "threshold": threshold_json(threshold),
        "rank": rank,
        "rank_out_of": out_of,
        "slack": float(bound.slack(gaps, sizes)),
        "coverage_at_least": float(lowest),
        "coverage_at_most": float(highest),
    }


def _certificate(summaries: Sequence[Summary], alpha: Fraction, guarantee: Guarantee, **found: Any) -> Certificate:
    return made_certificate(
        guarantee=guarantee,
        origin=all_joined([summary.origin for summary in summaries]),
        status="certified" if _sure(summaries) else "estimated",
        alpha=float(alpha),
        summaries=[SummaryRecord(sites=s.sites, sizes=s.sizes, kind=s.name, sha256=s.digest()) for s in summaries],
        version_1_sites=_silent_sites(summaries) or None,
        **found,
    )


def _sure(summaries: Sequence[Summary]) -> bool:
    """Whether all counts are bounded for sure, and a theorem covers how all scores were made."""
    return all(summary.certified and not summary.origin.estimated for summary in summaries)


def _silent_sites(summaries: Sequence[Summary]) -> list[str]:
    """Name the sites whose summaries are of version 1, if others' are not."""
    if len({id(summary.origin) for summary in summaries}) == 1:
        return []
    silent = [summary.origin.silent for summary in summaries for _ in summary.sizes]
    return [] if all(silent) else [name for name, quiet in zip(site_names(summaries), silent, strict=True) if quiet]
