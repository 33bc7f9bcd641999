"""The page: what is promised and what is not, how the sets did, and what another alpha would give.

One file with everything in it: charts are SVG, the slider is some fifty lines of script, and a content policy keeps
the page from asking anything of the network.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib import resources

import msgspec

from fedconformal.calibration.certificate import Certificate, threshold_text
from fedconformal.calibration.curve import PromiseCurve
from fedconformal.calibration.predictor import Predictor
from fedconformal.calibration.remarks import remarks
from fedconformal.evaluation import (
    Evaluation,
    Group,
    Reweighted,
    full_words,
    reliability,
    selective_classification,
    why_full,
)
from fedconformal.guarantees.by_class import name_of
from fedconformal.report.badge import badge, verdict_words
from fedconformal.report.charts import (
    MAX_GROUPS,
    alpha_chart,
    coverage_chart,
    promise_chart,
    reliability_plot,
    selective_chart,
    size_chart,
)
from fedconformal.report.html import card, name_of_label, shortened, soft, table
from fedconformal.report.plot import CHART_STYLE
from fedconformal.report.rows import LabelledRows
from fedconformal.report.slider import slider, slider_card, slider_data

POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
WANTED = (0.8, 0.9, 0.95)
"""Accuracies for which the report says which sets to answer, where the model does not have them anyway."""


def report_page(
    predictor: Predictor,
    evaluation: Evaluation | None = None,
    *,
    rows: LabelledRows | None = None,
    sent: Mapping[str, int] | None = None,
    names: Sequence[str] = (),
) -> str:
    """Return the whole page as HTML, with nothing to load from anywhere else.

    Args:
        predictor: what the report is about.
        evaluation: how its sets did on rows with known labels.
        rows: these rows, for sizes and sets at other alphas, reliability and examples.
        sent: how many bytes each summary has, by its SHA-256.
        names: what to call the labels.
    """
    about = predictor.certificate
    found = slider(predictor, rows)
    chart, places = alpha_chart(found) if rows is not None else ("", [])
    cards = [*_coverage(evaluation, about, names), *_model(predictor, rows), *_thresholds(predictor, names)]
    parts = [
        f"<h1>Prediction sets across {about.clients} site{'s' if about.clients > 1 else ''}</h1>",
        f'<p class="promise">{escape(about.sentence())} {badge(about, evaluation)}</p>',
        verdict_words(evaluation),
        _warnings(predictor, evaluation),
        _tiles(evaluation, about),
        _promises(about),
        slider_card(found, chart, names),
        f'<div class="grid2">{"".join(cards)}</div>',
        _contributions(about, sent or {}),
        _certificate(about, str(predictor.score)),
    ]
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
    head += f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
    head += f"<title>fedconformal: {about.clients} sites</title><style>{_resource('style.css')}{CHART_STYLE}</style>"
    script = f'<script type="application/json" id="data">{slider_data(found, places, names)}</script>'
    script += f"<script>{_resource('slider.js')}</script>"
    body = f"<main>{''.join(parts)}</main>{script}"
    return f'<!doctype html><html lang="en"><head>{head}</head><body>{body}</body></html>\n'


def _resource(name: str) -> str:
    return resources.files("fedconformal.report").joinpath(name).read_text("utf-8")


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


def _tiles(evaluation: Evaluation | None, about: Certificate) -> str:
    tiles = [(f"{1 - about.alpha:.10g}", "coverage wanted"), (f"{about.scores:,}", "calibration scores")]
    if evaluation is not None:
        overall, mixed = evaluation.overall, evaluation.reweighted
        of_rows = f"coverage on {overall.rows:,} test rows ({_interval(overall, evaluation)})"
        tiles[1:1] = [(f"{overall.coverage:.1%}", of_rows), (f"{overall.mean_size:.2f}", "labels a set, on average")]
        if mixed is not None and mixed.coverage is not None:
            of_sites = f"coverage of the certified mixture, {mixed.mixture} ({_interval(mixed, evaluation)})"
            tiles.insert(2, (f"{mixed.coverage:.1%}", of_sites))
    inside = "".join(f'<div class="tile"><b>{big}</b><span>{escape(small)}</span></div>' for big, small in tiles)
    return f'<div class="tiles">{inside}</div>'


def _interval(of: Group | Reweighted, evaluation: Evaluation) -> str:
    if of.low is None or of.high is None:
        return "no interval: all rows are of one cluster"
    return f"95% interval {of.low:.1%} to {of.high:.1%}, if {evaluation.interval_assumes}"


def _promises(about: Certificate) -> str:
    if about.status == "certified":
        most = f"at most {about.coverage_at_most:.4f} if scores are distinct and sets may be empty"
        band = f"Coverage is at least {about.coverage_at_least:.4f}, and {most}."
    else:
        band = "Nothing is promised: the summaries are estimates that can be off either way."
    promised = [f"{about.sentence()} {band}", f"Provided that {about.assumption}."]
    denied = [about.caveat, *re.split(r"(?<=\.) (?=[A-Z])", about.conditions)]
    columns = {"Promised": promised, "Not promised, and conditions": denied}
    inside = "".join(
        f"<div><h3>{title}</h3><ul>{''.join(f'<li>{escape(text)}</li>' for text in texts if text)}</ul></div>"
        for title, texts in columns.items()
    )
    return card("The certificate in words", f'<div class="grid2">{inside}</div>')


def _coverage(evaluation: Evaluation | None, about: Certificate, names: Sequence[str]) -> Iterable[str]:
    if evaluation is None:
        return
    target = 1 - about.alpha
    groups = evaluation.by_client or [evaluation.overall]
    text = (
        "Dots: share of sets that hold the truth; dashed: the target. Coverage given one calibration fluctuates, so a "
        f"dot a little below the target is no violation. Lines: {evaluation.interval_words}"
    )
    if len(groups) > MAX_GROUPS:
        text += f" Drawn: the {MAX_GROUPS} lowest of {len(groups)}."
    if evaluation.reweighted is not None:
        text += f" {evaluation.reweighted.sentence}"
    yield card(
        "Coverage by site" if evaluation.by_client else "Coverage",
        soft(text) + coverage_chart(groups, target),
        _groups("site", evaluation, groups),
    )
    full = soft(f"{full_words(evaluation.full_sets, evaluation.overall.rows)}.")
    yield card("Set sizes", full + size_chart(evaluation), _groups("set size", evaluation, evaluation.by_size))
    if about.classes:
        classes = evaluation.by_class
        if not isinstance(about.labels, list):  # else they have their names
            classes = [msgspec.structs.replace(group, name=name_of_label(int(group.name), names)) for group in classes]
        yield card("Coverage by class", coverage_chart(classes, target), _groups("class", evaluation, classes))


def _model(predictor: Predictor, rows: LabelledRows | None) -> Iterable[str]:
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
    found = selective_classification(predictor.predict_set(rows.probs), rows.probs, rows.labels)
    text = soft(
        "Accuracy of the top label if only rows with small sets are answered. A heuristic: the promise "
        "is for all rows; learn-then-test would certify a limit."
    )
    advice = [
        f"to be right {wanted:.0%} of the time, answer sets of at most {limit.size} ({limit.kept:.1%} of the rows)"
        for wanted in WANTED
        if wanted > found.limits[-1].accuracy and (limit := found.limit_for(wanted)) is not None
    ]
    if advice:
        text += f"<p>On these rows: {'; '.join(advice)}.</p>"
    cells = [
        (f"{one.size}", f"{one.kept:.1%}", f"{one.accuracy:.1%}", f"{one.coverage:.1%}") for one in found.limits[:30]
    ]
    columns = ("largest set", "rows answered", "accuracy", "coverage")
    yield card("Answer only the easy rows", text + selective_chart(found), table(columns, cells))


def _thresholds(predictor: Predictor, names: Sequence[str]) -> Iterable[str]:
    about = predictor.certificate
    if isinstance(predictor.curve, PromiseCurve):
        chart = promise_chart(predictor.curve, float(about.limit), 1 - about.alpha)
        text = soft("The promise curve, rounded down. Valid for an alpha fixed beforehand.")
        yield card("What each threshold promises", text + chart)
        return
    rows = (
        (
            name_of_label(record.label, names),
            str(record.scores),
            f"{float(record.threshold):.6g}",
            f"{record.coverage_at_least:.4f}",
        )
        for record in about.classes or ()
    )
    text = soft("A class with too few calibration scores has no finite threshold: it is in every set.")
    yield card(
        "Every class by itself", text + table(("class", "calibration scores", "threshold", "coverage at least"), rows)
    )


def _contributions(about: Certificate, sent: Mapping[str, int]) -> str:
    cells = [
        (
            shortened(", ".join(used.sites) or "unnamed", 60, "..."),
            f"{sum(used.sizes):,}",
            used.kind,
            f"{sent[used.sha256]:,}" if used.sha256 in sent else "not known",
            f"{used.sha256[:12]}...",
        )
        for used in about.summaries
    ]
    total = [sent[used.sha256] for used in about.summaries if used.sha256 in sent]
    text = f"Together {sum(total):,} bytes left the sites. " if total else ""
    text = soft(f"{text}Nothing else than these summaries was sent; verify checks them by their SHA-256.")
    inside = table(("site", "scores", "summary", "bytes", "sha256"), cells)
    if len(cells) > MAX_GROUPS:
        inside = f"<details><summary>All {len(cells)}</summary>{inside}</details>"
    return card("Who contributed what", text + inside)


def _certificate(about: Certificate, score: str) -> str:
    facts = {
        "status": about.status,
        "guarantee": name_of(about.guarantee),
        "alpha": f"{about.alpha:g}",
        "threshold": threshold_text(about.limit),
        "score": score,
        "temperature": "not recorded" if about.temperature is None else f"{about.temperature:.4g}",
        "model": about.model or "not recorded",
        "sites": f"{about.clients}, with {about.scores:,} calibration scores",
        "coverage band": f"{about.coverage_at_least:.4f} to {about.coverage_at_most:.4f}",
        "of which the summaries cost at most": f"{about.slack:.4f}",
        "made with": ", ".join(f"{name} {version}" for name, version in about.versions.items()),
    }
    return card("Certificate", f'<div class="facts">{table(("fact", "value"), facts.items())}</div>')


def _groups(what: str, evaluation: Evaluation, groups: Iterable[Group]) -> str:
    return table((what, *evaluation.columns), (group.cells for group in groups))
