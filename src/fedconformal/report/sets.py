"""The report about sets: the board, coverage in groups, set sizes, the slider and reliability."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

import numpy as np

from fedconformal._base.names import join_names
from fedconformal.calibration.curve import PromiseCurve
from fedconformal.calibration.predictor import Predictor
from fedconformal.certificates.certificate import Certificate
from fedconformal.certificates.text import class_called, full_set_count
from fedconformal.certificates.uninformative import explain_uninformative
from fedconformal.evaluation import Evaluation, reliability
from fedconformal.report.board import LISTS, holds, promised, to_do
from fedconformal.report.cards import coverage_by, coverage_by_site, promise_card, strata_card
from fedconformal.report.charts import Bar, Bars, promise_chart, reliability_plot
from fedconformal.report.content import CheckedRows, Content
from fedconformal.report.html import Answer, card, columns, soft, table
from fedconformal.report.slider import slider

MAX_BARS = 16


def set_content(predictor: Predictor, evaluation: Evaluation | None, rows: CheckedRows | None) -> Content:
    """Return the parts of a report about sets."""
    about = predictor.certificate
    names = about.class_names if isinstance(about.class_names, list) else []
    found = slider(predictor, rows)
    single = predictor.curve if isinstance(predictor.curve, PromiseCurve) else None
    cards = [_reliability(rows)] if rows is not None and len(rows.truth) else []
    chart = "" if single is None else promise_chart(single, about.threshold, 1 - about.alpha)
    if single is None or about.by == "site":
        cards.append(strata_card(about))
    elif rows is not None:  # without rows, the curve is beside the slider
        cards.append(promise_card(single, about))
    lede = "For each case the model gives a list of possible answers, a prediction set, instead of a single guess."
    return Content(
        title="Prediction sets",
        lede=lede + (f" The answers are {join_names(names)}." if names else ""),
        answers=_answers(about, evaluation),
        notes=_notes(predictor, evaluation),
        sections=[
            columns(_coverage_cards(evaluation, about)),
            f'<div class="screen">{found.card(chart)}<div class="grid3">{"".join(cards)}</div></div>',
        ],
        script=found.script(),
    )


def _answers(about: Certificate, evaluation: Evaluation | None) -> Iterator[Answer]:
    infinite = np.isinf(about.limit)
    endless = bool(np.all(infinite))
    without, of = [], "answers without a promise" if about.by != "group" else "groups with too few"
    if about.by == "group":
        left = [str(group) for group, own in zip(about.parts, infinite, strict=True) if np.any(own)]
        which = "every answer" if infinite.ndim == 1 else "some answers always"
        without = [f"These groups have too few cases, so their lists name {which}: {join_names(left)}."] if left else []
    elif left := [class_called(label, about.class_names) for label in np.flatnonzero(infinite).tolist()]:
        without = [f"Nothing is promised for the answers {join_names(left)}: every list names them."]
    rows, full = (0, 0) if evaluation is None else (evaluation.overall.rows, evaluation.full_sets)
    yield promised(about, LISTS, endless=endless, more=without)
    yield holds(about, evaluation, LISTS, endless=full == rows)
    yield _costs(evaluation)
    collect = [f"Collect more calibration cases of the {of}."] * bool(np.any(infinite))
    long = evaluation is not None and 2 * full >= rows
    yield to_do(about, evaluation, LISTS, endless=endless, collect=collect, long=long)


def _costs(evaluation: Evaluation | None) -> Answer:
    if evaluation is None:
        unknown = "How long the lists are is known once there are cases to check."
        return Answer("What it costs", "Not known", [unknown])
    sizes, rows, full = evaluation.size_histogram, evaluation.overall.rows, evaluation.full_sets
    some = f"{full:,} of {rows:,} name every answer and so say nothing" if full else "none names every answer"
    texts = [
        f"answers are on a list on average, of {len(sizes) - 1} that there are.",
        f"{sizes[1] / rows:.0%} of the lists name one answer; {some}.",
    ]
    return Answer("What it costs", f"{evaluation.mean_size:.2f}", texts)


def _notes(predictor: Predictor, evaluation: Evaluation | None) -> Iterator[str]:
    """Explain why sets are uninformative, if they are."""
    rows = 0 if evaluation is None else evaluation.overall.rows
    full = 0 if evaluation is None else evaluation.full_sets
    classes = None if evaluation is None else len(evaluation.size_histogram) - 1
    share = full / rows if rows else None
    why = explain_uninformative(predictor.certificate, score=predictor.score, classes=classes, share=share)
    if why is not None:
        yield (f"<b>{full_set_count(full, rows)}</b>: " if full else "") + escape(why)


def _coverage_cards(evaluation: Evaluation | None, about: Certificate) -> Iterator[str]:
    if evaluation is None:
        return
    yield coverage_by_site(evaluation, about, "sets (lists)")
    yield coverage_by("class", evaluation.by_class, evaluation, about)
    for column, found in evaluation.by_group.items():
        yield coverage_by(column, found, evaluation, about)
    full = soft(f"{full_set_count(evaluation.full_sets, evaluation.overall.rows)}.")
    numbers = table(("set size", *evaluation.columns), (group.cells for group in evaluation.by_size))
    yield card("Set sizes", full + _size_chart(evaluation), numbers)


def _size_chart(evaluation: Evaluation) -> str:
    """Draw the frequency of each set size; many sizes are drawn in classes."""
    counts = np.array(evaluation.size_histogram)
    first, last = np.flatnonzero(counts)[[0, -1]].tolist()
    bars = [(str(size), int(counts[size])) for size in range(first, last + 1)]
    if last >= MAX_BARS:
        bars = [(group.name, group.rows) for group in evaluation.by_size]
    drawn = [
        Bar(f"{name} label{'' if name == '1' else 's'}", count, f"{count} ({count / counts.sum():.1%})")
        for name, count in bars
    ]
    return Bars(title="How many rows have sets of each size", bars=drawn).svg()


def _reliability(rows: CheckedRows) -> str:
    found = reliability(rows.outputs, rows.truth)
    text = soft(
        "Is the model as often right as it is sure? "
        f"Calibration: expected error {found.ece:.3f}, largest {found.mce:.3f}."
    )
    return card("Reliability", text + reliability_plot({"the model": found}).svg())
