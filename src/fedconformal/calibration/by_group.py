"""Calibrate from summaries by group: a threshold for each group, or one for each class in it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from typing import NamedTuple

import numpy as np

from fedconformal._base.groups import ALL, NONE
from fedconformal._base.names import listed
from fedconformal.calibration.by_class import class_names, searched
from fedconformal.calibration.certificate import GroupRecord
from fedconformal.calibration.curve import ClassCurves, GroupCurves, PromiseCurve
from fedconformal.calibration.result import Calibration, are_sure, band_of, certificate_of
from fedconformal.calibration.search import Search
from fedconformal.certificates import text
from fedconformal.errors import InfeasibleWarning, InputError
from fedconformal.guarantees import ByClass, ByGroup, Guarantee
from fedconformal.summaries.exact import ExactSummary
from fedconformal.summaries.format import MAX_GROUPS
from fedconformal.summaries.strata import StratifiedSummary, check_columns
from fedconformal.summaries.summary import Summary

MOST_SAID = 5
"""Of more groups that lack scores, how many are needed is said of the first ones."""

NO_UPPER_END = {"coverage_at_most": 1.0}
"""A row takes the largest threshold of its groups, so that each of them may be covered more often than it needs."""


class Found(NamedTuple):
    """What was found for one group.

    `lacking` are the classes that lack scores, or the group itself, in words. Their sizes are worked out for those that
    are said: there may be thousands of groups, each with a million sites that one message claims.
    """

    record: GroupRecord
    make_curve: Callable[[], PromiseCurve | ClassCurves]
    lacking: Sequence[tuple[str, Guarantee, Callable[[], list[int]]]]


def by_group(
    summaries: Sequence[Summary], alpha: Fraction, guarantee: ByGroup, bound: Guarantee, names: Sequence[str]
) -> Calibration:
    """Search group by group; `bound` is what promises coverage to one of them."""
    sites = _group_summaries(summaries)
    kept = guarantee.guarantee
    of_group = _of_classes(sites, alpha, bound) if isinstance(kept, ByClass) else _of_rows(sites, alpha, bound)
    found = [of_group(group) for group in _groups(sites)]
    if lacking := [one for group in found for one in group.lacking]:
        every = "which are in every set there" if guarantee.by_class else "where every label is in every set"
        needed = [
            f"{name}: {text.shortfall(own, alpha, sizes(), names, stratum='group')}"
            for name, own, sizes in lacking[:MOST_SAID]
        ]
        words = f"cannot be promised to {listed([name for name, _, _ in lacking])}, {every}; {'; '.join(needed)}"
        warnings.warn(f"alpha={float(alpha):g} {words}", InfeasibleWarning, stacklevel=5)
    records = [one.record for one in found]
    certificate = certificate_of(
        summaries,
        alpha,
        guarantee,
        threshold=[record.threshold for record in records],
        target=str(1 - alpha),
        groups=records,
        rank=None,
        rank_out_of=None,
        slack=max(record.slack for record in records),
        coverage_at_least=min(record.coverage_at_least for record in records),
        coverage_at_most=1.0,
    )
    return Calibration(certificate, lambda: GroupCurves({one.record.group: one.make_curve() for one in found}))


def _of_rows(sites: Sequence[StratifiedSummary], alpha: Fraction, bound: Guarantee) -> Callable[[str], Found]:
    sure, none = are_sure(sites), ExactSummary(values=np.empty(0), sizes=(0,))

    def found(group: str) -> Found:
        held = [site.in_group(group) if group in site.groups else none for site in sites]
        sizes = _sizes(sites, group)
        search = Search(held, bound, sizes)
        band = band_of(bound, alpha, search.smallest(alpha), sizes, [part.gap for part in held], sure=sure)
        record = GroupRecord(group=group, scores=sum(sizes), **band | NO_UPPER_END)
        lacking = [(group, bound, partial(_sizes, sites, group))] if record.threshold == "inf" else []
        return Found(record, partial(search.curve, alpha), lacking)

    return found


def _of_classes(sites: Sequence[StratifiedSummary], alpha: Fraction, bound: Guarantee) -> Callable[[str], Found]:
    called = class_names([_within(site, ALL) for site in sites])

    def found(group: str) -> Found:
        held = [_within(site, group) for site in sites]
        searches, classes = searched(held, alpha, bound, called)
        record = GroupRecord(
            group=group,
            scores=sum(one.n for one in held),
            threshold=[one.threshold for one in classes],
            rank=None,
            rank_out_of=None,
            slack=max(one.slack for one in classes),
            coverage_at_least=min(one.coverage_at_least for one in classes),
            coverage_at_most=1.0,
        )
        lacking = [
            (f"class {called[one.label]} in {group}", bound, partial(_sizes, held, None, one.label))
            for one in classes
            if one.threshold == "inf"
        ]
        return Found(record, lambda: ClassCurves([one.curve(alpha) if one else None for one in searches]), lacking)

    return found


def _within(site: StratifiedSummary, group: str) -> StratifiedSummary:
    """Return a site's scores of one group by class; with a size for every site in it, also those without the group."""
    part = site.in_group(group)
    if not isinstance(part, StratifiedSummary):
        raise InputError(f"{site} was not summarised by class; summarise with by_class=True", param="by_class")
    return part


def _group_summaries(summaries: Sequence[Summary]) -> list[StratifiedSummary]:
    sites: list[StratifiedSummary] = []
    for summary in summaries:
        if not isinstance(summary, StratifiedSummary) or not summary.columns:
            raise InputError(f"{summary} was not summarised by group; summarise with groups=", param="groups")
        sites.append(summary)
    check_columns(sites)
    return sites


def _groups(sites: Sequence[StratifiedSummary]) -> list[str]:
    """Name the groups of all sites: all rows first, those in no other group last."""
    found = {group for site in sites for group in site.groups if group is not None}
    if len(found) > MAX_GROUPS:
        raise InputError(
            f"the sites have {len(found)} groups together, more than {MAX_GROUPS}; name values alike at all sites"
        )
    return [ALL, *sorted(found - {ALL, NONE}), *([NONE] if NONE in found else [])]


def _sizes(sites: Sequence[StratifiedSummary], group: str | None, label: int | None = None) -> list[int]:
    return [n for site in sites for n in site.sizes_of(group, label)]
