"""The page: four answers for a board, coverage in groups, what another alpha would give, and the fine print.

One file with everything in it: charts are SVG, the slider is some fifty lines of script, and a content policy keeps
the page from asking anything of the network.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape

from fedconformal.calibration.certificate import remarks
from fedconformal.calibration.curve import PromiseCurve
from fedconformal.calibration.predictor import Predictor
from fedconformal.calibration.risk_predictor import RiskPredictor
from fedconformal.evaluation import (
    Evaluation,
    full_words,
    reliability,
    why_full,
)
from fedconformal.evaluation.mixture import listed
from fedconformal.report.board import board
from fedconformal.report.charts import alpha_chart, promise_chart, reliability_plot
from fedconformal.report.coverage import coverage_cards, group_card, site_card
from fedconformal.report.document import document, resource
from fedconformal.report.fine_print import fine_print
from fedconformal.report.html import card, columns, name_of_label, soft, table
from fedconformal.report.rows import LabelledRows
from fedconformal.report.selective import easy_rows
from fedconformal.report.slider import slider, slider_card, slider_data


def report_page(
    predictor: Predictor,
    evaluation: Evaluation | None = None,
    *,
    rows: LabelledRows | None = None,
    sent: Mapping[str, int] | None = None,
    names: Sequence[str] = (),
    answers: RiskPredictor | None = None,
) -> str:
    """Return the whole page as HTML, with nothing to load from anywhere else.

    Args:
        predictor: what the report is about.
        evaluation: how its sets did on rows with known labels.
        rows: these rows, for sizes and sets at other alphas, reliability and examples.
        sent: how many bytes each summary has, by its SHA-256.
        names: what to call the labels.
        answers: what promises how often answers to easy rows are wrong, by `SelectiveError`.
    """
    about = predictor.certificate
    if not names and isinstance(about.labels, list):
        names = about.labels
    found = slider(predictor, rows)
    chart, places = alpha_chart(found) if rows is not None else (_curve(predictor), [])
    sites = f"{about.sites} site{'s' if about.sites > 1 else ''}"
    parts = [
        f"<h1>Prediction sets across {sites}</h1>",
        f'<p class="lede">{escape(_lede(names))}</p>',
        board(about, evaluation, names),
        _warnings(predictor, evaluation),
        columns(coverage_cards(evaluation, about, names)),
        f'<div class="screen">{slider_card(found, chart, names)}',
        f'<div class="grid3">{"".join(_model(predictor, rows, answers))}',
        f"{_thresholds(predictor, rows, names)}</div></div>",
        fine_print(about, evaluation, str(predictor.score), sent or {}),
    ]
    script = f'<script type="application/json" id="data">{slider_data(found, places, names)}</script>'
    script += f"<script>{resource('slider.js')}</script>"
    return document(sites, parts, script)


def _lede(names: Sequence[str]) -> str:
    text = "For each case the model gives a list of possible answers, a prediction set, instead of a single guess."
    return f"{text} The answers are {listed(names)}." if names else text


def _warnings(predictor: Predictor, evaluation: Evaluation | None) -> str:
    """Warn where sets say nothing, of sites that outweigh the others, and of sites that say less than the others."""
    rows = 0 if evaluation is None else evaluation.overall.rows
    full = 0 if evaluation is None else evaluation.full_sets
    classes = None if evaluation is None else len(evaluation.size_histogram) - 1
    share = full / rows if rows else None
    why = why_full(predictor.certificate, score=predictor.score, classes=classes, share=share)
    counted = f"<b>{full_words(full, rows)}</b>: " if full else ""
    notes = [f"{counted}{escape(why)}"] if why is not None else []
    notes += [escape(str(remark)) for remark in remarks(predictor.certificate)]
    return "".join(f'<p class="warning" role="note">{note}.</p>' for note in notes)


def _model(predictor: Predictor, rows: LabelledRows | None, answers: RiskPredictor | None) -> Iterable[str]:
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
    yield easy_rows(predictor, rows, answers)


def _curve(predictor: Predictor) -> str:
    """Draw the promise curve, where there is one for all classes."""
    about = predictor.certificate
    if not isinstance(predictor.curve, PromiseCurve):
        return ""
    return promise_chart(predictor.curve, float(about.limit), 1 - about.alpha)


def _thresholds(predictor: Predictor, rows: LabelledRows | None, names: Sequence[str]) -> str:
    """Write what each threshold promises; without rows, the curve is beside the slider already."""
    if predictor.certificate.by_site is not None:
        return site_card(predictor.certificate.by_site)
    if isinstance(predictor.curve, PromiseCurve):
        text = soft("The promise curve. Valid for an alpha fixed beforehand.")
        return "" if rows is None else card("What each threshold promises", text + _curve(predictor))
    if predictor.certificate.groups is not None:
        return group_card(predictor.certificate.groups)
    cells = (
        (
            name_of_label(record.label, names),
            str(record.scores),
            "none" if record.threshold == "inf" else f"{float(record.threshold):.4g}",
            f"{record.coverage_at_least:.4f}",
        )
        for record in predictor.certificate.classes or ()
    )
    text = soft(
        "Calibration scores, threshold and promised coverage. A class with too few scores has no threshold: it is in "
        "every set."
    )
    return card("Every class by itself", text + table(("class", "scores", "threshold", "at least"), cells))
