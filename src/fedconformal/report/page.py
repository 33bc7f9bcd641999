"""The page: what is promised and what is not, how the sets did, and what another alpha would give.

One file with everything in it: charts are SVG, the slider is some fifty lines of script, and a content policy keeps
the page from asking anything of the network.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib import resources

import msgspec

from fedconformal.calibration.calibrate import remarks
from fedconformal.calibration.certificate import Certificate, threshold_text
from fedconformal.calibration.curve import PromiseCurve
from fedconformal.calibration.predictor import Predictor
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
from fedconformal.report.charts import (
    MAX_GROUPS,
    alpha_chart,
    coverage_chart,
    promise_chart,
    reliability_chart,
    selective_chart,
    size_chart,
)
from fedconformal.report.plot import CHART_STYLE
from fedconformal.report.rows import Rows
from fedconformal.report.slider import Example, Slider, slider

POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
WANTED = (0.8, 0.9, 0.95)
"""Accuracies for which the report says which sets to answer, where the model does not have them anyway."""
MOST_CHIPS = 10
"""Labels of an example's set that are written out."""


def report_page(
    predictor: Predictor,
    evaluation: Evaluation | None = None,
    *,
    rows: Rows | None = None,
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
        f'<p class="promise">{escape(about.sentence())} <span class="badge {about.status}">{about.status}</span></p>',
        _warnings(predictor, evaluation),
        _tiles(evaluation, about),
        _promises(about),
        _slider(found, chart, names),
        f'<div class="grid2">{"".join(cards)}</div>',
        _contributions(about, sent or {}),
        _certificate(about, str(predictor.score)),
    ]
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
    head += f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
    head += f"<title>fedconformal: {about.clients} sites</title><style>{_resource('style.css')}{CHART_STYLE}</style>"
    script = f'<script type="application/json" id="data">{_data(found, places, names)}</script>'
    script += f"<script>{_resource('slider.js')}</script>"
    body = f"<main>{''.join(parts)}</main>{script}"
    return f'<!doctype html><html lang="en"><head>{head}</head><body>{body}</body></html>\n'


def _resource(name: str) -> str:
    return resources.files("fedconformal.report").joinpath(name).read_text("utf-8")


def _data(found: Slider, places: list[tuple[float, float]], names: Sequence[str]) -> str:
    steps = [
        {
            "alpha": s.alpha,
            "threshold": s.threshold,
            "promise": s.promise,
            "size": s.size,
            "coverage": s.coverage,
            "full": s.full,
        }
        for s in found.steps
    ]
    data = {
        "steps": steps,
        "certified": found.certified,
        "places": places,
        "examples": [one.to_dict() for one in found.examples],
        "most": MOST_CHIPS,
        "names": list(names),
    }
    return json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


def _warnings(predictor: Predictor, evaluation: Evaluation | None) -> str:
    """Warn where sets say nothing, of sites that outweigh the others, and of sites that say less than the others."""
    rows = 0 if evaluation is None else evaluation.overall.rows
    full = 0 if evaluation is None else evaluation.full_sets
    classes = None if evaluation is None else len(evaluation.size_histogram) - 1
    share = full / rows if rows else 0.0
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
        band = (
            f"Coverage is at least {about.coverage_at_least:.4f}, and at most {about.coverage_at_most:.4f} if scores "
        )
        band += "are distinct and sets may be empty."
    else:
        band = "Nothing is promised: the summaries are estimates that can be off either way."
    promised = [f"{about.sentence()} {band}", f"Provided that {about.assumption}."]
    denied = [about.caveat, *re.split(r"(?<=\.) (?=[A-Z])", about.conditions)]
    columns = {"Promised": promised, "Not promised, and conditions": denied}
    inside = "".join(
        f"<div><h3>{title}</h3><ul>{''.join(f'<li>{escape(text)}</li>' for text in texts if text)}</ul></div>"
        for title, texts in columns.items()
    )
    return f'<section class="card"><h2>The certificate in words</h2><div class="grid2">{inside}</div></section>'


def _slider(found: Slider, chart: str, names: Sequence[str]) -> str:
    start = found.start
    facts = {
        "alpha": ("alpha-now", f"{start.alpha:.10g}"),
        "promised coverage": ("promise-now", start.promise),
        "threshold": ("threshold-now", start.threshold),
    }
    if start.size is not None:
        facts["labels a set"] = ("size-now", f"{start.size:.2f}")
        facts["coverage on the test rows"] = ("coverage-now", f"{start.coverage:.1%}")
        facts["sets that hold every label"] = ("full-now", f"{start.full:.1%}")
    told = "".join(f'<dt>{name}</dt><dd id="{key}">{escape(text)}</dd>' for name, (key, text) in facts.items())
    control = (
        '<div class="controls"><label for="alpha">alpha, how often the truth may be missed</label>'
        f'<button type="button" id="certified">back to {start.alpha:.10g}</button></div>'
        f'<input type="range" id="alpha" min="0" max="{len(found.steps) - 1}" step="1" value="{found.certified}">'
    )
    examples = "".join(_example(i, one, start.alpha, names) for i, one in enumerate(found.examples))
    if examples:
        examples = f'<h3>The sets of some test rows</h3><div class="examples">{examples}</div>'
    return (
        '<section class="card"><h2>What another alpha would give</h2>'
        '<p><span class="badge beforehand">valid for an alpha fixed beforehand</span> '
        '<span class="soft">Choosing one after looking at sets voids the promise.</span></p>'
        f'<div class="grid2"><div>{control}<dl aria-live="polite">{told}</dl></div><div>{chart}</div></div>{examples}'
        "</section>"
    )


def _name(label: int, names: Sequence[str]) -> str:
    return names[label] if label < len(names) else str(label)


def _example(i: int, one: Example, alpha: float, names: Sequence[str]) -> str:
    members = one.members(alpha)
    chips = [
        f'<span class="chip{" true" if label == one.label else ""}">{escape(_name(label, names))}</span>'
        for label in members[:MOST_CHIPS]
    ]
    if len(members) > MOST_CHIPS:
        chips.append(f'<span class="chip">and {len(members) - MOST_CHIPS} more</span>')
    missed = "" if one.label in members else f"misses the truth, {escape(_name(one.label, names))}"
    image = f'<img src="{one.image}" alt="test row {one.row}" width="64" height="64">' if one.image else ""
    count = f"{len(members)} label{'' if len(members) == 1 else 's'}"
    return (
        f'<div class="example">{image}<div><div class="soft">row {one.row}: <span id="size-{i}">{count}</span></div>'
        f'<div class="chips" id="set-{i}">{"".join(chips)}</div><div class="missed" id="miss-{i}">{missed}</div></div>'
        "</div>"
    )


def _coverage(evaluation: Evaluation | None, about: Certificate, names: Sequence[str]) -> Iterable[str]:
    if evaluation is None:
        return
    target = 1 - about.alpha
    by_site = bool(evaluation.by_client)
    groups = evaluation.by_client or [evaluation.overall]
    text = (
        "Dots: share of sets that hold the truth; dashed: the target. Coverage given one calibration fluctuates, so a "
        f"dot a little below the target is no violation. Lines: {evaluation.interval_words}"
    )
    if len(groups) > MAX_GROUPS:
        text += f" Drawn: the {MAX_GROUPS} lowest of {len(groups)}."
    if evaluation.reweighted is not None:
        text += f" {evaluation.reweighted.sentence}"
    yield _card(
        "Coverage by site" if by_site else "Coverage",
        f'<p class="soft">{escape(text)}</p>{coverage_chart(groups, target)}',
        _groups("site", evaluation, groups),
    )
    full = f'<p class="soft">{full_words(evaluation.full_sets, evaluation.overall.rows)}.</p>'
    yield _card("Set sizes", full + size_chart(evaluation), _groups("set size", evaluation, evaluation.by_size))
    if about.classes:
        classes = evaluation.by_class
        if not isinstance(about.labels, list):  # else they have their names
            classes = [msgspec.structs.replace(group, name=_name(int(group.name), names)) for group in classes]
        yield _card("Coverage by class", coverage_chart(classes, target), _groups("class", evaluation, classes))


def _model(predictor: Predictor, rows: Rows | None) -> Iterable[str]:
    if rows is None or not len(rows.labels):
        return
    after = reliability(rows.probs, rows.labels)
    before = None if rows.plain is None else reliability(rows.plain, rows.labels)
    told = f"expected error {after.ece:.3f}, largest {after.mce:.3f}"
    if before is not None:
        told += f"; before temperature {before.ece:.3f} and {before.mce:.3f}"
    text = f'<p class="soft">Is the model as often right as it is sure? Calibration: {told}.</p>'
    yield _card("Reliability", text + reliability_chart(after, before))
    sets = predictor.predict_set(rows.probs)
    found = selective_classification(sets, rows.probs, rows.labels)
    text = (
        '<p class="soft">Accuracy of the top label if only rows with small sets are answered. A heuristic: the promise '
        "is for all rows; learn-then-test would certify a limit.</p>"
    )
    chosen = [(wanted, found.limit_for(wanted)) for wanted in WANTED if wanted > found.limits[-1].accuracy]
    advice = [
        f"to be right {wanted:.0%} of the time, answer sets of at most {limit.size} ({limit.kept:.1%} of the rows)"
        for wanted, limit in chosen
        if limit is not None
    ]
    if advice:
        text += f"<p>On these rows: {'; '.join(advice)}.</p>"
    cells = [
        (f"{one.size}", f"{one.kept:.1%}", f"{one.accuracy:.1%}", f"{one.coverage:.1%}") for one in found.limits[:30]
    ]
    columns = ("largest set", "rows answered", "accuracy", "coverage")
    yield _card("Answer only the easy rows", text + selective_chart(found), _table(columns, cells))


def _thresholds(predictor: Predictor, names: Sequence[str]) -> Iterable[str]:
    about = predictor.certificate
    if isinstance(predictor.curve, PromiseCurve):
        chart = promise_chart(predictor.curve, float(about.limit), 1 - about.alpha)
        text = '<p class="soft">The promise curve, rounded down. Valid for an alpha fixed beforehand.</p>'
        yield _card("What each threshold promises", text + chart)
        return
    rows = (
        (
            _name(record.label, names),
            str(record.scores),
            f"{float(record.threshold):.6g}",
            f"{record.coverage_at_least:.4f}",
        )
        for record in about.classes or ()
    )
    text = '<p class="soft">A class with too few calibration scores has no finite threshold: it is in every set.</p>'
    table = _table(("class", "calibration scores", "threshold", "coverage at least"), rows)
    yield _card("Every class by itself", text + table)


def _contributions(about: Certificate, sent: Mapping[str, int]) -> str:
    cells = [
        (
            _sites(used.sites),
            f"{sum(used.sizes):,}",
            used.kind,
            f"{sent[used.sha256]:,}" if used.sha256 in sent else "not known",
            f"{used.sha256[:12]}...",
        )
        for used in about.summaries
    ]
    total = [sent[used.sha256] for used in about.summaries if used.sha256 in sent]
    text = f"Together {sum(total):,} bytes left the sites. " if total else ""
    text = f'<p class="soft">{text}Nothing else than these summaries was sent; verify checks them by their SHA-256.</p>'
    table = _table(("site", "scores", "summary", "bytes", "sha256"), cells)
    inside = table if len(cells) <= MAX_GROUPS else f"<details><summary>All {len(cells)}</summary>{table}</details>"
    return _card("Who contributed what", text + inside)


def _sites(sites: Sequence[str]) -> str:
    text = ", ".join(sites) or "unnamed"
    return text if len(text) <= 60 else f"{text[:57]}..."


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
    return _card("Certificate", f'<div class="facts">{_table(("fact", "value"), facts.items())}</div>')


def _card(title: str, inside: str, numbers: str = "") -> str:
    details = f"<details><summary>Numbers</summary>{numbers}</details>" if numbers else ""
    return f'<section class="card"><h2>{escape(title)}</h2>{inside}{details}</section>'


def _groups(what: str, evaluation: Evaluation, groups: Iterable[Group]) -> str:
    return _table((what, *evaluation.columns), (group.cells for group in groups))


def _table(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = "".join(f'<th scope="col">{escape(column)}</th>' for column in columns)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
