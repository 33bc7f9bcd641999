"""Coverage by site, by class and by any other column, and how large the sets are: a card for each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from fedconformal.calibration.certificate import Certificate, GroupRecord, SiteRecord
from fedconformal.evaluation import Evaluation, Group, full_words
from fedconformal.evaluation.mixture import listed
from fedconformal.report.board import sites_without_rows
from fedconformal.report.charts import MAX_GROUPS, coverage_chart, size_chart
from fedconformal.report.html import card, name_of_label, soft, table


def coverage_cards(evaluation: Evaluation | None, about: Certificate, names: Sequence[str]) -> Iterator[str]:
    """Yield the cards; without rows there are none."""
    if evaluation is None:
        return
    target = 1 - about.alpha
    groups = evaluation.by_site or [evaluation.overall]
    text = (
        "Dots: share of sets (lists) that hold the truth; dashed: the target. A dot a little below the target is no "
        f"violation. Lines: {evaluation.interval_words}{_drawn(groups)}"
    )
    if evaluation.by_site and (lacking := sites_without_rows(about, evaluation)):
        text += f" No test row is from {listed(lacking)}."
    title = "Coverage by site" if evaluation.by_site else "Coverage"
    yield card(title, soft(text) + coverage_chart(groups, target), _numbers("site", evaluation, groups))
    classes = evaluation.by_class
    if not isinstance(about.labels, list):  # else they have their names
        classes = [msgspec.structs.replace(group, name=name_of_label(int(group.name), names)) for group in classes]
    yield _by("class", classes, evaluation, target)
    for column, found in evaluation.by_group.items():
        yield _by(column, found, evaluation, target)
    full = soft(f"{full_words(evaluation.full_sets, evaluation.overall.rows)}.")
    yield card("Set sizes", full + size_chart(evaluation), _numbers("set size", evaluation, evaluation.by_size))


def _by(column: str, groups: Sequence[Group], evaluation: Evaluation, target: float) -> str:
    drawn = _drawn(groups)
    inside = (soft(drawn.strip()) if drawn else "") + coverage_chart(groups, target)
    return card(f"Coverage by {column}", inside, _numbers(column, evaluation, groups))


def group_card(groups: Sequence[GroupRecord]) -> str:
    """Write what is promised to each group; a row takes the largest threshold of its groups."""
    cells = (
        (
            record.group,
            f"{record.scores:,}",
            "by class" if isinstance(record.threshold, list) else _limit(record.threshold),
        )
        for record in groups
    )
    text = soft(
        "Calibration scores and threshold. A row takes the largest threshold of its groups. A group with too few "
        "scores has no threshold: its sets hold every label."
    )
    return card("Every group by itself", text + table(("group", "scores", "threshold"), cells))


def site_card(sites: Sequence[SiteRecord]) -> str:
    """Write what is promised to each site; a row whose site is not given takes the largest threshold."""
    cells = (
        (
            record.site,
            f"{record.scores:,}",
            ("" if record.lower is None else f"{_limit(record.lower.threshold)} to ") + _limit(record.threshold),
            "none" if record.rank is None else f"{record.rank:,} of {record.rank_out_of or 0:,}",
            f"{record.coverage_at_least:.4f} to {record.coverage_at_most:.4f}",
        )
        for record in sites
    )
    text = soft(
        "Calibration scores, threshold, rank and promised coverage. A case whose site is not given takes the largest "
        "threshold. A site with too few scores has none: nothing is ruled out there."
    )
    return card("Every site by itself", text + table(("site", "scores", "threshold", "rank", "coverage"), cells))


def _limit(threshold: float | str) -> str:
    return "none" if threshold in ("inf", "-inf") else f"{float(threshold):.4g}"


def _drawn(groups: Sequence[Group]) -> str:
    return f" Drawn: the {MAX_GROUPS} lowest of {len(groups)}." if len(groups) > MAX_GROUPS else ""


def _numbers(what: str, evaluation: Evaluation, groups: Iterable[Group]) -> str:
    return table((what, *evaluation.columns), (group.cells for group in groups))
