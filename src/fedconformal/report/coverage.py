"""Cards that the pages of sets and of intervals share: coverage in groups, thresholds of sites, the promise curve."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedconformal._base.names import join_names
from fedconformal.calibration.curve import PromiseCurve
from fedconformal.certificates.certificate import Certificate, Promise, combined
from fedconformal.evaluation import AnyEvaluation
from fedconformal.report.board import sites_without_rows
from fedconformal.report.charts import coverage_chart, drawn_note, promise_chart
from fedconformal.report.html import card, soft, table


def coverage_by_site(evaluation: AnyEvaluation, about: Certificate, what: str) -> str:
    """Draw the coverage of all rows, by site where sites are known."""
    groups = evaluation.by_site or [evaluation.overall]
    text = (
        f"Dots: share of {what} that hold the truth; dashed: the target. A dot a little below the target is no "
        f"violation. Lines: {evaluation.interval_words}"
    )
    lacking = sites_without_rows(about, evaluation)
    text += f" No test row is from {join_names(lacking)}." if lacking else ""
    return coverage_by("site" if evaluation.by_site else "", groups, evaluation, about, text)


def coverage_by(
    column: str, groups: Sequence[Any], evaluation: AnyEvaluation, about: Certificate, text: str = ""
) -> str:
    """Draw the coverage of groups of rows."""
    words = soft(f"{text}{drawn_note(groups)}".strip())
    numbers = table((column or "site", *evaluation.columns), (group.cells for group in groups))
    title = f"Coverage by {column}" if column else "Coverage"
    return card(title, words + coverage_chart(groups, 1 - about.alpha), numbers)


def promise_card(curve: PromiseCurve, about: Certificate) -> str:
    """Draw what each threshold promises."""
    text = soft("The promise curve. Valid for an alpha fixed beforehand.")
    return card("What each threshold promises", text + promise_chart(curve, about.threshold, 1 - about.alpha))


def site_card(about: Certificate) -> str:
    """Write what is promised to each site; a row whose site is not given takes the largest threshold."""
    cells = []
    for site, part in about.parts.items():
        one = combined(part)
        rank = "none" if one.rank is None else f"{one.rank:,} of {one.rank_out_of or 0:,}"
        band = f"{one.coverage_at_least:.4f} to {one.coverage_at_most:.4f}"
        cells.append((str(site), f"{one.scores:,}", " to ".join(map(limit_text, part)), rank, band))
    text = soft(
        "Calibration scores, threshold, rank and promised coverage. A case whose site is not given takes the largest "
        "threshold. A site with too few scores has none: nothing is ruled out there."
    )
    return card("Every site by itself", text + table(("site", "scores", "threshold", "rank", "coverage"), cells))


def limit_text(promise: Promise) -> str:
    """Write a threshold."""
    return "none" if np.isinf(promise.limit) else f"{promise.limit:.4g}"
