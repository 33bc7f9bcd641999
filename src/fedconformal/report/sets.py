"""The page about sets: the board, coverage in groups, what another alpha would give, and the fine print."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape

import msgspec
import numpy as np

from fedconformal._base.names import join_names
from fedconformal.calibration.curve import PromiseCurve
from fedconformal.calibration.predictor import Predictor
from fedconformal.certificates.certificate import Certificate
from fedconformal.certificates.remarks import remarks
from fedconformal.certificates.text import full_set_count
from fedconformal.certificates.uninformative import explain_uninformative
from fedconformal.errors import InputError
from fedconformal.evaluation import Evaluation, Selective, reliability, selective_classification
from fedconformal.losses import SelectiveError
from fedconformal.report.board import LISTS, holds, promised, to_do
from fedconformal.report.charts import (
    Bar,
    Bars,
    Plot,
    percent,
    promise_chart,
    reliability_plot,
)
from fedconformal.report.coverage import coverage_by, coverage_by_site, limit_text, promise_card, site_card
from fedconformal.report.fine_print import fine_print
from fedconformal.report.html import (
    Answer,
    board,
    card,
    columns,
    name_of_label,
    notes,
    page,
    resource,
    site_count,
    soft,
    table,
)
from fedconformal.report.rows import LabelledRows
from fedconformal.report.slider import slider, slider_card, slider_data

MAX_BARS = 16
WANTED = (0.8, 0.9, 0.95)
"""Accuracies for which the report says which sets to answer, where the model does not have them anyway."""

HEURISTIC = (
    "Accuracy of the top label if only rows with small sets are answered. A heuristic: the promise is for all rows, "
    "and a limit that was chosen on these rows looks better on them than it is. Losses of the kind selective-error "
    "and the guarantee learn-then-test certify a limit."
)


def report_page(
    predictor: Predictor,
    evaluation: Evaluation | None = None,
    *,
    rows: LabelledRows | None = None,
    sent: Mapping[str, int] | None = None,
    names: Sequence[str] = (),
    answers: Predictor | None = None,
) -> str:
    """Return the whole page as HTML, with nothing to load from anywhere else.

    Parameters
    ----------
    predictor
        The predictor that the report is about.
    evaluation
        Its sets on rows with known labels.
    rows
        These rows, for sizes and sets at other alphas, reliability and examples.
    sent
        Bytes of each summary, by its SHA-256.
    names
        Names of the labels.
    answers
        A promise on how often answers to easy rows are wrong, by `SelectiveError`.
    """
    about = predictor.certificate
    if not names and isinstance(about.class_names, list):
        names = about.class_names
    found = slider(predictor, rows)
    chart, places = found.chart() if rows is not None else (_curve(predictor), [])
    sites = site_count(about.sites)
    sections = [
        board(_answers(about, evaluation, names)),
        notes(_notes(predictor, evaluation)),
        columns(_coverage_cards(evaluation, about, names)),
        f'<div class="screen">{slider_card(found, chart, names)}',
        f'<div class="grid3">{"".join(_model(predictor, rows, answers))}',
        f"{_thresholds(predictor, rows, names)}</div></div>",
        fine_print(about, evaluation, str(predictor.score), sent or {}),
    ]
    script = f'<script type="application/json" id="data">{slider_data(found, places, names)}</script>'
    script += f"<script>{resource('slider.js')}</script>"
    lede = "For each case the model gives a list of possible answers, a prediction set, instead of a single guess."
    lede += f" The answers are {join_names(names)}." if names else ""
    return page(sites, f"Prediction sets across {sites}", sections, lede=lede, script=script)


def _answers(about: Certificate, evaluation: Evaluation | None, names: Sequence[str]) -> Iterator[Answer]:
    infinite = np.isinf(about.limit)
    endless = bool(np.all(infinite))
    without, of = [], "answers without a promise" if about.by != "group" else "groups with too few"
    if about.by == "group":
        left = [str(group) for group, own in zip(about.parts, infinite, strict=True) if np.any(own)]
        which = "every answer" if infinite.ndim == 1 else "some answers always"
        without = [f"These groups have too few cases, so their lists name {which}: {join_names(left)}."] if left else []
    elif left := [name_of_label(label, names) for label in np.flatnonzero(infinite).tolist()]:
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
    """Warn where sets say nothing, of sites that outweigh the others, and of sites that say less than the others."""
    rows = 0 if evaluation is None else evaluation.overall.rows
    full = 0 if evaluation is None else evaluation.full_sets
    classes = None if evaluation is None else len(evaluation.size_histogram) - 1
    share = full / rows if rows else None
    why = explain_uninformative(predictor.certificate, score=predictor.score, classes=classes, share=share)
    if why is not None:
        yield (f"<b>{full_set_count(full, rows)}</b>: " if full else "") + escape(why)
    yield from (escape(str(remark)) for remark in remarks(predictor.certificate))


def _coverage_cards(evaluation: Evaluation | None, about: Certificate, names: Sequence[str]) -> Iterator[str]:
    """Yield the cards; without rows there are none."""
    if evaluation is None:
        return
    yield coverage_by_site(evaluation, about, "sets (lists)")
    classes = evaluation.by_class
    if not isinstance(about.class_names, list):  # else they have their names
        classes = [msgspec.structs.replace(group, name=name_of_label(int(group.name), names)) for group in classes]
    yield coverage_by("class", classes, evaluation, about)
    for column, found in evaluation.by_group.items():
        yield coverage_by(column, found, evaluation, about)
    full = soft(f"{full_set_count(evaluation.full_sets, evaluation.overall.rows)}.")
    numbers = table(("set size", *evaluation.columns), (group.cells for group in evaluation.by_size))
    yield card("Set sizes", full + _size_chart(evaluation), numbers)


def _model(predictor: Predictor, rows: LabelledRows | None, answers: Predictor | None) -> Iterable[str]:
    if rows is None or not len(rows.labels):
        return
    after = reliability(rows.probs, rows.labels)
    drawn, errors = {"the model": after}, f"expected error {after.ece:.3f}, largest {after.mce:.3f}"
    if rows.plain is not None:
        before = reliability(rows.plain, rows.labels)
        drawn = {"after temperature": after, "before": before}
        errors += f"; before temperature {before.ece:.3f} and {before.mce:.3f}"
    text = soft(f"Is the model as often right as it is sure? Calibration: {errors}.")
    yield card("Reliability", text + reliability_plot(drawn).svg())
    yield _easy_rows(predictor, rows, answers)


def _curve(predictor: Predictor) -> str:
    """Draw the promise curve, where there is one for all classes."""
    about = predictor.certificate
    if not isinstance(predictor.curve, PromiseCurve):
        return ""
    return promise_chart(predictor.curve, about.threshold, 1 - about.alpha)


def _thresholds(predictor: Predictor, rows: LabelledRows | None, names: Sequence[str]) -> str:
    """Write what each threshold promises; without rows, the curve is beside the slider already."""
    about = predictor.certificate
    if about.by == "site":
        return site_card(about)
    if isinstance(predictor.curve, PromiseCurve):
        return "" if rows is None else promise_card(predictor.curve, about)
    if about.by == "group":
        groups = (
            (str(group), f"{sum(one.scores for one in part):,}", "by class" if len(part) > 1 else limit_text(part[0]))
            for group, part in about.parts.items()
        )
        text = soft(
            "Calibration scores and threshold. A row takes the largest threshold of its groups. A group with too few "
            "scores has no threshold: its sets hold every label."
        )
        return card("Every group by itself", text + table(("group", "scores", "threshold"), groups))
    classes = (
        (name_of_label(int(label), names), str(one.scores), limit_text(one), f"{one.coverage_at_least:.4f}")
        for label, (one,) in about.parts.items()
    )
    text = soft(
        "Calibration scores, threshold and promised coverage. A class with too few scores has no threshold: it is in "
        "every set."
    )
    return card("Every class by itself", text + table(("class", "scores", "threshold", "at least"), classes))


def _easy_rows(predictor: Predictor, rows: LabelledRows, answers: Predictor | None) -> str:
    """Write the card; `answers` is what promises how often answers are wrong."""
    found = selective_classification(predictor.predict_set(rows.probs, **rows.strata_at()), rows.probs, rows.labels)
    if answers is None:
        advice = [
            f"to be right {wanted:.0%} of the time, answer sets of at most {limit.size} ({limit.kept:.1%} of the rows)"
            for wanted in WANTED
            if wanted > found.limits[-1].accuracy and (limit := found.limit_for(wanted)) is not None
        ]
        text = soft(HEURISTIC) + (f"<p>On these rows: {'; '.join(advice)}.</p>" if advice else "")
    else:
        text = _certified(answers, rows) + soft(
            "Below, for comparison, a heuristic: only rows with small sets are answered."
        )
    cells = [
        (f"{one.size}", f"{one.kept:.1%}", f"{one.accuracy:.1%}", f"{one.coverage:.1%}") for one in found.limits[:30]
    ]
    head = ("largest set", "rows answered", "accuracy", "coverage")
    return card("Answer only the easy rows", text + _selective_chart(found), table(head, cells))


def _certified(answers: Predictor, rows: LabelledRows) -> str:
    """Say which rows to answer, what is promised of these answers, and how they did on these rows."""
    if not isinstance(answers.loss, SelectiveError):
        raise InputError(f"answers: limits {answers.loss or 'a loss without a name'}, expected a selective error")
    limit = answers.certificate.limit
    if np.isinf(limit):
        return f"<p>{escape(answers.certificate.sentence())} So no row is answered.</p>"
    given = answers.loss.predict(rows.probs, float(limit))
    answered = given.any(axis=1)
    wrong = answered & ~given[np.arange(len(given)), rows.labels]
    share = f"{wrong.sum() / answered.sum():.1%} of these answers are wrong" if answered.any() else "none is answered"
    status = "Certified" if answers.certificate.status == "certified" else "Estimated, not certified"
    return (
        f"<p><b>{status}:</b> answer a row if the largest probability is at least {limit:.4g}. "
        f"{escape(answers.certificate.sentence())} On these rows: {answered.mean():.1%} are answered, {share}.</p>"
    )


def _size_chart(evaluation: Evaluation) -> str:
    """Draw how often each set size occurs; many sizes are drawn in classes."""
    last = max(size for size, count in enumerate(evaluation.size_histogram) if count)
    bars = [(str(size), count) for size, count in enumerate(evaluation.size_histogram[: last + 1])]
    if len(bars) > MAX_BARS:
        bars = [(group.name, group.rows) for group in evaluation.by_size]
    else:
        bars = bars[next(size for size, (_, count) in enumerate(bars) if count) :]
    total = sum(count for _, count in bars)
    drawn = [
        Bar(f"{name} label{'' if name == '1' else 's'}", count, f"{count} ({count / total:.1%})")
        for name, count in bars
    ]
    return Bars(title="How many rows have sets of each size", bars=drawn).svg()


def _selective_chart(found: Selective) -> str:
    """Draw accuracy against the share of rows that are answered."""
    lowest = min(one.accuracy for one in found.limits)
    plot = Plot(
        title="Accuracy when the largest sets are left out",
        x=(0.0, 1.0),
        y=(max(0.0, math.floor(lowest * 10 - 1e-9) / 10), 1.0),
        x_label="rows answered",
        y_label="accuracy on them",
        x_text=percent,
        y_text=percent,
    )
    plot.line([(one.kept, one.accuracy) for one in found.limits], "", markers=len(found.limits) <= 20)
    return plot.svg()
