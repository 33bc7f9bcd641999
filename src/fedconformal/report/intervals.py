"""The report about intervals: the board, coverage and width in groups, single intervals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

import numpy as np

from fedconformal._base.arrays import Floats
from fedconformal.calibration.curve import PromiseCurve
from fedconformal.calibration.predictor import Predictor
from fedconformal.certificates.certificate import Certificate
from fedconformal.certificates.uninformative import explain_uninformative
from fedconformal.evaluation import IntervalEvaluation, IntervalGroup
from fedconformal.evaluation.regression import infinite_words
from fedconformal.report.board import INTERVALS, holds, promised, to_do
from fedconformal.report.cards import coverage_by, coverage_by_site, promise_card, strata_card
from fedconformal.report.charts import LONGEST, MAX_GROUPS, Bar, Bars, Plot, shortened
from fedconformal.report.content import CheckedRows, Content
from fedconformal.report.html import Answer, card, columns, soft

MOST_ROWS = 150
"""Of more rows, evenly spaced ones are drawn."""
MARGIN = 0.05


def interval_content(predictor: Predictor, evaluation: IntervalEvaluation | None, rows: CheckedRows | None) -> Content:
    """Return the parts of a report about intervals."""
    about = predictor.certificate
    return Content(
        title="Prediction intervals",
        lede="For each case the model gives a range of values, a prediction interval, instead of a single number.",
        answers=_answers(about, evaluation),
        notes=_notes(about, evaluation),
        sections=[columns(_cards(predictor, evaluation, rows))],
    )


def _answers(about: Certificate, evaluation: IntervalEvaluation | None) -> Iterator[Answer]:
    endless = np.isinf([one.limit for one in about.whole])
    one_end = "The intervals have one end only: there are too few calibration cases for the other."
    whole_line = explain_uninformative(about) is not None and bool(endless.all())
    yield promised(about, INTERVALS, endless=whole_line, more=[one_end] * bool(endless.any()))
    yield holds(about, evaluation, INTERVALS)
    yield _costs(evaluation)
    few = ["Collect more calibration cases: the note below says how many."]
    yield to_do(about, evaluation, INTERVALS, collect=few * bool(endless.any()))


def _costs(evaluation: IntervalEvaluation | None) -> Answer:
    if evaluation is None:
        unknown = "How wide the intervals are is known once there are cases to check."
        return Answer("What it costs", "Not known", [unknown])
    overall = evaluation.overall
    texts = ["is the mean width of an interval, in the units of the value."]
    if overall.median_width is not None and overall.mean_width is not None:
        texts.append(f"Half of the intervals are at most {overall.median_width:.4g} wide.")
    if overall.infinite:
        texts.append(f"{infinite_words(overall.infinite, overall.rows)}, and so say little.")
    return Answer("What it costs", overall.width_text, texts)


def _notes(about: Certificate, evaluation: IntervalEvaluation | None) -> Iterator[str]:
    if why := explain_uninformative(about):
        overall = None if evaluation is None else evaluation.overall
        counted = f"<b>{infinite_words(overall.infinite, overall.rows)}</b>: " if overall and overall.infinite else ""
        yield f"{counted}{escape(why)}"


def _cards(predictor: Predictor, evaluation: IntervalEvaluation | None, rows: CheckedRows | None) -> Iterator[str]:
    about = predictor.certificate
    if evaluation is not None:
        yield coverage_by_site(evaluation, about, "intervals")
        for column, found in evaluation.by_group.items():
            yield coverage_by(column, found, evaluation, about)
        for column, found in {"site": evaluation.by_site, **evaluation.by_group}.items():
            if found:
                yield card(f"Mean width by {column}", soft("No width is promised.") + _group_widths(found))
    if rows is not None:
        ends = predictor.predict_interval(rows.outputs, sites=rows.sites)
        some = f" Drawn: {MOST_ROWS} of {len(ends):,}, evenly spaced." if len(ends) > MOST_ROWS else ""
        text = soft(f"A line is an interval, a dot the true value.{some}")
        yield card("Every interval", text + intervals_chart(ends, rows.truth))
    if about.by == "site":
        yield strata_card(about)
    if isinstance(predictor.curve, PromiseCurve):
        yield promise_card(predictor.curve, about)


def intervals_chart(intervals: Floats, y: Floats) -> str:
    """Draw intervals from low to high, the true values in them, and those that are missed."""
    with np.errstate(invalid="ignore"):
        middle = intervals @ np.array([0.5, 0.5])
    middle = np.where(np.isfinite(middle), middle, y)
    order = np.argsort(middle, kind="stable")
    order = order[np.unique(np.linspace(0, len(order) - 1, min(len(order), MOST_ROWS)).round().astype(np.int64))]
    low, high, truth = intervals[order, 0], intervals[order, 1], y[order]
    ends = np.concatenate([low[np.isfinite(low)], high[np.isfinite(high)], truth])
    margin = MARGIN * ((ends.max() - ends.min()) or 1.0)
    bottom, top = float(ends.min() - margin), float(ends.max() + margin)
    plot = Plot(
        title=f"Intervals of {len(order)} rows and the true values",
        x=(0.0, float(len(order) + 1)),
        y=(bottom, top),
        x_label="rows, by the middle of their interval",
        y_label="value",
        x_text=lambda _: "",
    )
    lines = zip(np.clip(low, bottom, top).tolist(), np.clip(high, bottom, top).tolist(), strict=True)
    for row, (start, end) in enumerate(lines, start=1):
        (x, above), (_, below) = plot.at(row, end), plot.at(row, start)
        plot.raw(
            f'<line class="interval s0" opacity=".45" x1="{x:.1f}" x2="{x:.1f}" y1="{above:.1f}" y2="{below:.1f}"/>'
        )
    inside = (low <= truth) & (truth <= high)
    for row in np.flatnonzero(inside).tolist():
        x, place = plot.at(row + 1, float(truth[row]))
        plot.raw(f'<circle class="f0" cx="{x:.1f}" cy="{place:.1f}" r="1.8"/>')
    plot.key("true value in its interval", '<circle class="f0" cx="11" cy="0" r="1.8"/>')
    plot.line([], "interval")  # so that what is missed has the second colour
    plot.dots([(row + 1, float(truth[row])) for row in np.flatnonzero(~inside).tolist()], "missed")
    return plot.svg()


def _group_widths(groups: Sequence[IntervalGroup]) -> str:
    """Draw the mean width of each group; one that is infinite has no bar."""
    bars = [
        Bar(shortened(group.name, LONGEST), group.mean_width or 0.0, group.width_text) for group in groups[:MAX_GROUPS]
    ]
    return Bars(title="Mean width of the intervals", bars=bars).svg()
