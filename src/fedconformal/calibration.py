"""From summaries and a guarantee to a threshold and a certificate."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from typing import Any

import msgspec
import numpy as np

from fedconformal.certificate import Certificate, ClassRecord, SummaryRecord, threshold_json, threshold_text, versions
from fedconformal.curve import ClassCurves, PromiseCurve
from fedconformal.errors import InfeasibleWarning, InputError
from fedconformal.guarantees import ByClass, Guarantee, Mixture
from fedconformal.guarantees.by_class import shortfalls, to_classes
from fedconformal.search import Search
from fedconformal.summaries import ClassSummary
from fedconformal.summaries.base import Summary, check_together
from fedconformal.validation import Floats, Integers, as_alpha


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
        """Tell what is promised."""
        return f"Calibration(threshold={threshold_text(self.threshold)}, {self.certificate.sentence()!r})"


def calibrate(
    summaries: Sequence[Summary], *, alpha: Any = 0.1, guarantee: Guarantee | ByClass | None = None
) -> Calibration:
    """Find the smallest threshold that promises coverage 1 - alpha, or the smallest for each class.

    >>> from fedconformal import summarize
    >>> sites = [summarize([i / 20 for i in range(20)], site="a"), summarize([0.5, 0.7, 0.9], site="b")]
    >>> result = calibrate(sites, alpha=0.2)  # ceil(0.8 (23 + 2)) = 20
    >>> result.threshold, result.certificate.rank, result.certificate.coverage_at_most
    (0.85, 20, 0.84)
    """
    wanted = as_alpha(alpha)
    guarantee = Mixture() if guarantee is None else guarantee
    if not isinstance(guarantee, Guarantee | ByClass):
        raise InputError(f"guarantee is {guarantee!r:.60}, expected one such as fedconformal.Mixture()")
    summaries = _checked(summaries)
    names, sizes = site_names(summaries), [n for summary in summaries for n in summary.sizes]
    kept = guarantee.guarantee if isinstance(guarantee, ByClass) else guarantee
    bound = kept.bind(names, sizes)
    if bound.sites_apart and len(summaries) != len(sizes):
        pooled = next(summary for summary in summaries if len(summary.sizes) > 1)
        raise InputError(
            f"{pooled.label} came pooled, and {kept.name} needs every site's own summary; "
            "use one that weighs all scores alike (mixture proportional, exchangeable, pac), or send the sites apart"
        )
    if isinstance(guarantee, ByClass):
        return _by_class(summaries, wanted, guarantee, bound, sizes, names)
    search = Search(summaries, bound, sizes)
    threshold = search.smallest([wanted])[0]
    if threshold == math.inf:
        warnings.warn(
            f"alpha={float(wanted):g} cannot be promised from these scores, so every label is in every set; "
            + bound.shortfall(wanted, sizes, names),
            InfeasibleWarning,
            stacklevel=2,
        )
    found = {"target": str(bound.at_least(wanted, sizes)), **_band(bound, wanted, threshold, sizes, summaries)}
    certificate = _certificate(summaries, wanted, guarantee, names, sizes, found)
    return Calibration(certificate, partial(search.curve, wanted))


def _checked(summaries: Sequence[Summary]) -> list[Summary]:
    summaries = [summaries] if isinstance(summaries, Summary) else list(summaries)
    if not summaries:
        raise InputError("there are no summaries to calibrate from")
    check_together(summaries)
    return summaries


def site_names(summaries: Sequence[Summary]) -> list[str]:
    """Name every site; those without a name are numbered."""
    names: list[str] = []
    for summary in summaries:
        count = len(summary.sizes)
        names += summary.sites or [f"#{len(names) + i + 1}" for i in range(count)]
    return names


def _by_class(
    summaries: Sequence[Summary],
    alpha: Fraction,
    guarantee: ByClass,
    bound: Guarantee,
    sizes: Sequence[int],
    names: Sequence[str],
) -> Calibration:
    """Search class by class."""
    sites: list[ClassSummary] = []
    for summary in summaries:
        if not isinstance(summary, ClassSummary):
            raise InputError(f"{summary.label} was not summarised by class; use by_class=True, or --by-class")
        sites.append(summary)
    bound = bound.in_class(sizes)
    searches: list[Search | None] = []
    records: list[ClassRecord] = []
    seen = {label for site in sites for label in site.parts}
    absent: ClassRecord | None = None
    for label in range(max(site.classes for site in sites)):
        if label not in seen and absent is not None:  # there may be very many of them, all alike
            searches.append(None)
            records.append(msgspec.structs.replace(absent, label=label))
            continue
        held = [site.parts.get(label, _Absent()) for site in sites]
        of_class = _of_class(sites, label)
        search = Search(held, bound, of_class) if label in seen else None
        threshold = search.smallest([alpha])[0] if search else math.inf
        searches.append(search)
        records.append(ClassRecord(label=label, scores=sum(of_class), **_band(bound, alpha, threshold, of_class, held)))
        absent = absent if search else records[-1]
    if lacking := [record.label for record in records if record.threshold == "inf"]:
        warnings.warn(
            f"alpha={float(alpha):g} cannot be promised {to_classes(lacking)} in every set; "
            + shortfalls(bound, alpha, lacking, partial(_of_class, sites), names),
            InfeasibleWarning,
            stacklevel=3,
        )
    worst = {
        "rank": None,
        "rank_out_of": None,
        "slack": max(record.slack for record in records),
        "coverage_at_least": min(record.coverage_at_least for record in records),
        "coverage_at_most": max(record.coverage_at_most for record in records),
    }
    thresholds = [record.threshold for record in records]
    about = {"threshold": thresholds, "target": str(1 - alpha), "classes": records, **worst}
    certificate = _certificate(summaries, alpha, guarantee, names, sizes, about)
    return Calibration(
        certificate, lambda: ClassCurves([search.curve(alpha) if search else None for search in searches])
    )


def _of_class(sites: Sequence[ClassSummary], label: int) -> list[int]:
    return [n for site in sites for n in site.sizes_of(label)]


class _Absent:
    """A site without scores of a class."""

    points: Floats = np.empty(0)
    reached: Integers = np.empty(0, dtype=np.int64)
    gap = 0
    certified = True

    def bounds(self, q: Floats) -> tuple[Integers, Integers]:
        """Count nothing."""
        return np.zeros(len(q), dtype=np.int64), np.zeros(len(q), dtype=np.int64)


def _band(
    bound: Guarantee, alpha: Fraction, threshold: float, sizes: Sequence[int], held: Sequence[Summary | _Absent]
) -> dict[str, Any]:
    """Say what a threshold promises: the target and the theorem's band, never the count that came out."""
    gaps = [summary.gap for summary in held]
    if not all(summary.certified for summary in held):  # an estimate promises nothing
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


def _certificate(
    summaries: Sequence[Summary],
    alpha: Fraction,
    guarantee: Guarantee | ByClass,
    names: Sequence[str],
    sizes: Sequence[int],
    found: dict[str, Any],
) -> Certificate:
    origin = summaries[0].origin
    return Certificate(
        status="certified" if all(summary.certified for summary in summaries) else "estimated",
        promise=guarantee.promise(names),
        assumption=guarantee.assumption,
        caveat=guarantee.caveat,
        alpha=float(alpha),
        guarantee=guarantee.to_dict(),
        clients=len(sizes),
        scores=sum(sizes),
        score=None if origin.score is None else origin.score.to_dict(),
        seed=getattr(origin.score, "random_state", None) if getattr(origin.score, "randomized", False) else None,
        model=origin.model,
        temperature=origin.temperature,
        summaries=[SummaryRecord(sites=s.sites, sizes=s.sizes, kind=s.name, sha256=s.digest()) for s in summaries],
        versions=versions(),
        **found,
    )
