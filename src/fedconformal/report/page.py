"""The page: what is promised and what is not, and how the sets did on rows with known labels."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from fedconformal.certificate import Certificate, threshold_text
from fedconformal.curve import PromiseCurve
from fedconformal.evaluation import GROUP_COLUMNS, Evaluation
from fedconformal.guarantees.by_class import name_of
from fedconformal.predictor import Predictor
from fedconformal.report.svg import coverage_chart, promise_chart, size_chart

STYLE = """
:root { color-scheme: light dark; --line: #8888; --ink: #0072b2; --target: #d55e00; }
@media (prefers-color-scheme: dark) { :root { --ink: #56b4e9; --target: #e69f00; } }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 44rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
.promise { border-left: 4px solid var(--ink); padding: .2rem 0 .2rem 1rem; font-size: 1.1rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .25rem .6rem; border-bottom: 1px solid var(--line); white-space: nowrap; }
.facts td, .facts th { white-space: normal; text-align: left; }
th:first-child, td:first-child { text-align: left; }
svg { width: 100%; height: auto; } svg text { font-size: 13px; fill: currentColor; }
svg circle, svg rect { fill: var(--ink); } svg path { fill: none; stroke: var(--ink); stroke-width: 2; }
.interval { stroke: var(--ink); stroke-width: 2; } .grid { stroke: var(--line); stroke-width: .5; }
.target { stroke: var(--target); stroke-width: 2; stroke-dasharray: 6 4; }
code { overflow-wrap: anywhere; } @media print { body { margin: 0; max-width: none; } svg { max-width: 34rem; } }
"""


def report_page(predictor: Predictor, evaluation: Evaluation) -> str:
    """Return the whole page as HTML, with nothing to load from anywhere else."""
    about = predictor.certificate
    parts = [
        f"<h1>Prediction sets across {about.clients} sites</h1>",
        f'<p class="promise">{escape(about.sentence())}</p>',
        *_coverage(evaluation, 1 - about.alpha, about.caveat),
        *(_classes(evaluation, 1 - about.alpha) if about.classes else ()),
        "<h2>Set sizes</h2>",
        size_chart(evaluation),
        _table(("set size", *GROUP_COLUMNS), (group.cells for group in evaluation.by_size)),
        *_thresholds(predictor),
        *_certificate(about, str(predictor.score)),
    ]
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
    head += f"<title>fedconformal: {about.clients} sites</title><style>{STYLE}</style>"
    return f'<!doctype html><html lang="en"><head>{head}</head><body>{"".join(parts)}</body></html>\n'


def _coverage(evaluation: Evaluation, target: float, caveat: str) -> Iterable[str]:
    overall = evaluation.overall
    groups = evaluation.by_client or [overall]
    yield (
        f"<p>On {overall.rows} test rows, {overall.coverage:.1%} of the sets hold the true label (95% interval "
        f"{overall.low:.1%} to {overall.high:.1%}); a set has {overall.mean_size:.2f} labels on average.</p>"
    )
    yield "<h2>Coverage by site</h2>" if evaluation.by_client else "<h2>Coverage</h2>"
    yield (
        "<p>Dots: share of sets that hold the truth; lines: exact 95% intervals; dashed: the target. "
        f"{escape(caveat)}</p>"
    )
    yield coverage_chart(groups, target)
    yield _table(("site", *GROUP_COLUMNS), (group.cells for group in groups))


def _classes(evaluation: Evaluation, target: float) -> Iterable[str]:
    yield "<h2>Coverage by class</h2>"
    yield coverage_chart(evaluation.by_class, target)
    yield _table(("class", *GROUP_COLUMNS), (group.cells for group in evaluation.by_class))


def _thresholds(predictor: Predictor) -> Iterable[str]:
    about = predictor.certificate
    if isinstance(predictor.curve, PromiseCurve):
        yield "<h2>What other thresholds promise</h2>"
        yield "<p>Valid for an alpha that was fixed beforehand.</p>"
        yield promise_chart(predictor.curve, float(about.limit), 1 - about.alpha)
        return
    yield "<h2>Every class by itself</h2>"
    yield "<p>A class with too few calibration scores has no finite threshold: it is in every set.</p>"
    rows = (
        (str(record.label), str(record.scores), f"{float(record.threshold):.6g}", f"{record.coverage_at_least:.4f}")
        for record in about.classes or ()
    )
    yield _table(("class", "calibration scores", "threshold", "coverage at least"), rows)


def _certificate(about: Certificate, score: str) -> Iterable[str]:
    facts = {
        "status": about.status,
        "guarantee": name_of(about.guarantee),
        "alpha": f"{about.alpha:g}",
        "threshold": threshold_text(about.limit),
        "score": score,
        "sites": f"{about.clients}, with {about.scores} calibration scores",
        "coverage band": f"{about.coverage_at_least:.4f} to {about.coverage_at_most:.4f}",
        "of which the summaries cost at most": f"{about.slack:.4f}",
        "made with": ", ".join(f"{name} {version}" for name, version in about.versions.items()),
    }
    yield "<h2>Certificate</h2>"
    yield '<div class="facts">' + _table(("fact", "value"), facts.items()) + "</div>"
    yield f"<p><b>Assumption:</b> {escape(about.assumption)}.</p>"
    yield f"<p><b>Conditions:</b> {escape(about.conditions)}</p>"
    yield "<h2>Who contributed what</h2>"
    sent = (
        (", ".join(used.sites)[:60] or "unnamed", str(sum(used.sizes)), used.kind, f"{used.sha256[:16]}...")
        for used in about.summaries
    )
    yield _table(("site", "scores", "summary", "sha256"), sent)


def _table(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
