"""The page about intervals: four answers for a board, coverage and width in groups, every interval, the fine print."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedconformal._base.arrays import Floats
from fedconformal.calibration.certificate import Certificate, remarks
from fedconformal.calibration.curve import PromiseCurve
from fedconformal.calibration.interval_predictor import IntervalPredictor
from fedconformal.certificates import text
from fedconformal.evaluation import IntervalEvaluation, IntervalGroup, why_full
from fedconformal.evaluation.mixture import listed
from fedconformal.evaluation.regression import infinite_words
from fedconformal.report.board import (
    FOUND,
    badge,
    checked_interval,
    next_check,
    sites_without_rows,
    to_promise,
    why_estimated,
)
from fedconformal.report.charts import MAX_GROUPS, coverage_chart, promise_chart
from fedconformal.report.coverage import site_card
from fedconformal.report.document import document
from fedconformal.report.fine_print import fine_print
from fedconformal.report.html import answer, card, columns, soft, table
from fedconformal.report.interval_charts import (
    MOST_ROWS,
    distribution_chart,
    intervals_chart,
    width_chart,
    widths_chart,
)
from fedconformal.summaries.provenance import has_expired


@dataclass(frozen=True, kw_only=True, eq=False)
class NumberRows:
    """Test rows: what the regressor predicts, in the columns of the score, and the true numbers."""

    predictions: NDArray[Any]
    y: Floats
    sites: NDArray[Any] | None = None
    """Where each site has a threshold of its own."""


def interval_page(
    predictor: IntervalPredictor,
    evaluation: IntervalEvaluation | None = None,
    *,
    rows: NumberRows | None = None,
    sent: Mapping[str, int] | None = None,
) -> str:
    """Return the whole page as HTML, with nothing to load from anywhere else.

    Args:
        predictor: what the report is about.
        evaluation: how its intervals did on rows with known values.
        rows: these rows, to draw them, and the widths at other alphas.
        sent: how many bytes each summary has, by its SHA-256.
    """
    about = predictor.certificate
    sites = f"{about.sites} site{'s' if about.sites > 1 else ''}"
    lede = "For each case the model gives a range of values, a prediction interval, instead of a single number."
    parts = [
        f"<h1>Prediction intervals across {sites}</h1>",
        f'<p class="lede">{lede}</p>',
        _board(about, evaluation),
        _warnings(about, evaluation),
        columns(_cards(predictor, evaluation, rows)),
        fine_print(about, evaluation, str(predictor.score), sent or {}),
    ]
    return document(sites, parts)


def _board(about: Certificate, evaluation: IntervalEvaluation | None) -> str:
    big, holds, level = _holds(about, evaluation)
    actions = "".join(f"<li>{escape(text)}</li>" for text in _to_do(about, evaluation))
    verdict = None if evaluation is None else evaluation.verdict
    answers = (
        answer("What is promised", *_promised(about)),
        answer("Does it hold?", big, holds, mark=badge(about, verdict), kind=level),
        answer("What it costs", *_costs(evaluation)),
        f'<section class="card answer"><h2>What to do</h2><ul>{actions}</ul></section>',
    )
    return f'<div class="board">{"".join(answers)}</div>'


def _promised(about: Certificate) -> tuple[str, list[str]]:
    wanted = f"{100 * (1 - about.alpha):.10g}%"
    if why_full(about) is not None and _endless(about).all():
        few = f"There are not enough calibration cases to promise {wanted}, so every interval is the whole line."
        return "Nothing", [few, "Such an interval is always right and says nothing."]
    if about.status != "certified":
        return "Nothing", [f"The intervals aim to hold the true value in {wanted} of new cases. {why_estimated(about)}"]
    guarantee, sites, _ = about.terms()
    texts = [f"The interval holds the true value in at least {wanted} of {text.lay_description(guarantee, sites)}."]
    if _endless(about).any():
        texts.append("The intervals have one end only: there are too few calibration cases for the other.")
    if has_expired(about.expires):
        texts.append(f"The promise ended on {about.expires}.")
    return wanted, texts


def _holds(about: Certificate, evaluation: IntervalEvaluation | None) -> tuple[str, list[str], str]:
    if evaluation is None:
        return "Not checked", ["No cases with known values were given to check it on."], ""
    verdict, overall = evaluation.verdict, evaluation.overall
    texts = [
        f"of {overall.rows:,} checked cases have the true value in their interval ({checked_interval(evaluation)})."
    ]
    if verdict is not None:
        texts.append(FOUND[verdict.kind])
    if evaluation.by_site and (lacking := sites_without_rows(about, evaluation)):
        texts.append(f"No checked case is from {listed(lacking)}.")
    level = {"no contradiction": "good", "below the promise": "bad"}.get(verdict.kind if verdict else "", "caution")
    return f"{overall.coverage:.1%}", texts, level


def _costs(evaluation: IntervalEvaluation | None) -> tuple[str, list[str]]:
    if evaluation is None:
        return "Not known", ["How wide the intervals are is known once there are cases to check."]
    overall = evaluation.overall
    texts = ["is the mean width of an interval, in the units of the value."]
    if overall.median_width is not None and overall.mean_width is not None:
        texts.append(f"Half of the intervals are at most {overall.median_width:.4g} wide.")
    if overall.infinite:
        texts.append(f"{infinite_words(overall.infinite, overall.rows)}, and so say little.")
    return overall.width_text, texts


def _to_do(about: Certificate, evaluation: IntervalEvaluation | None) -> list[str]:
    verdict = None if evaluation is None else evaluation.verdict
    steps = []
    if verdict is not None and verdict.below:
        steps.append(
            "Do not rely on the intervals until the cause is found: other patients, other devices, a new model?"
        )
        steps.append("Then calibrate again with recent cases.")
    if _endless(about).any():
        steps.append("Collect more calibration cases: the note below says how many.")
    if about.status != "certified":
        steps.append(to_promise(about))
    if has_expired(about.expires):
        steps.append("Calibrate again: the promise has ended.")
    use = "Use the intervals. A wide one means that the model is not sure: let a person decide."
    return steps + next_check(about, evaluation, usable=not steps, use=use)


def _endless(about: Certificate) -> Floats:
    lower = [] if about.lower is None else [float(about.lower.threshold)]
    found: Floats = np.isinf([*lower, float(about.limit)])
    return found


def _warnings(about: Certificate, evaluation: IntervalEvaluation | None) -> str:
    notes = []
    if why := why_full(about):
        overall = None if evaluation is None else evaluation.overall
        counted = f"<b>{infinite_words(overall.infinite, overall.rows)}</b>: " if overall and overall.infinite else ""
        notes.append(f"{counted}{escape(why)}")
    notes += [escape(str(remark)) for remark in remarks(about)]
    return "".join(f'<p class="warning" role="note">{note}.</p>' for note in notes)


def _cards(
    predictor: IntervalPredictor, evaluation: IntervalEvaluation | None, rows: NumberRows | None
) -> Iterator[str]:
    about = predictor.certificate
    if evaluation is not None:
        groups = evaluation.by_site or [evaluation.overall]
        text = f"Dots: share of intervals that hold the truth; dashed: the target. Lines: {evaluation.interval_words}"
        title = "Coverage by site" if evaluation.by_site else "Coverage"
        yield _coverage(title, "site", groups, evaluation, about, text)
        for column, found in evaluation.by_group.items():
            yield _coverage(f"Coverage by {column}", column, found, evaluation, about)
        for column, found in {"site": evaluation.by_site, **evaluation.by_group}.items():
            if found:
                yield card(f"Mean width by {column}", widths_chart(found))
    if rows is not None:
        ends = predictor.predict_interval(rows.predictions, sites=rows.sites)
        some = f" Drawn: {MOST_ROWS} of {len(ends):,}, evenly spaced." if len(ends) > MOST_ROWS else ""
        yield card(
            "Every interval",
            soft(f"A line is an interval, a dot the true value.{some}") + intervals_chart(ends, rows.y),
        )
        if chart := width_chart(predictor, rows.predictions, rows.sites):
            text = soft("What another alpha would cost. Valid for an alpha fixed beforehand.")
            yield card("Width at another alpha", text + chart)
        if chart := distribution_chart(predictor, rows.predictions, rows.y):
            text = soft(
                "For each level, the share of rows whose value is at most that of the predictive distribution. "
                "Pointwise: each level holds by itself."
            )
            yield card("Calibration of the distribution", text + chart)
    if about.by_site is not None:
        yield site_card(about.by_site)
    if isinstance(predictor.curve, PromiseCurve):
        text = soft("The promise curve. Valid for an alpha fixed beforehand.")
        chart = promise_chart(predictor.curve, float(about.limit), 1 - about.alpha)
        yield card("What each threshold promises", text + chart)


def _coverage(
    title: str,
    column: str,
    groups: Sequence[IntervalGroup],
    evaluation: IntervalEvaluation,
    about: Certificate,
    text: str = "",
) -> str:
    drawn = f" Drawn: the {MAX_GROUPS} lowest of {len(groups)}." if len(groups) > MAX_GROUPS else ""
    numbers = table((column, *evaluation.columns), (group.cells for group in groups))
    words = f"{text}{drawn}".strip()
    return card(title, (soft(words) if words else "") + coverage_chart(groups, 1 - about.alpha), numbers)
