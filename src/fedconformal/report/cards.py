"""Cards of a report: coverage and losses in groups, set sizes, thresholds, and the fine print."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

import numpy as np

from fedconformal._base.names import abbreviate
from fedconformal.calibration.predictor import Predictor
from fedconformal.certificates.certificate import Certificate, band_of
from fedconformal.certificates.text import (
    before_rounding,
    class_called,
    full_set_count,
    guarantee_name,
    lay_description,
    privacy_claim,
    sentence,
    why_estimated,
)
from fedconformal.evaluation import AnyEvaluation, Evaluation
from fedconformal.evaluation.coverage import PROMISED, CoverageGroup
from fedconformal.evaluation.losses import LossEvaluation
from fedconformal.report.board import sites_without_rows
from fedconformal.report.charts import Bar, Bars, group_chart, percent, shortened
from fedconformal.report.html import MOST, card, fine_print, long_table, soft, table

MAX_SIZES = 10
"""Maximum number of classes for a bar per set size; beyond it, sizes are binned."""
STRATA = {
    "site": "A case whose site is not given takes the largest threshold. A site with too few scores has none: nothing "
    "is ruled out there.",
    "group": "A row takes the largest threshold of its groups. A group with too few scores has no threshold: its sets "
    "hold every label.",
    "class": "A class with too few scores has no threshold: it is in every set.",
}


def coverage_cards(predictor: Predictor, evaluation: AnyEvaluation | None) -> Iterator[str]:
    """Yield the cards about sets or intervals."""
    about = predictor.certificate
    if evaluation is not None:
        by_class = evaluation.by_class if isinstance(evaluation, Evaluation) else []
        for column, groups in {"site": evaluation.by_site, "class": by_class, **evaluation.by_group}.items():
            if groups:
                yield _coverage_by(column, groups, evaluation, about)
    if isinstance(evaluation, Evaluation):
        yield _sizes(evaluation)
    if about.by is not None:
        yield _strata(about)


def risk_cards(rule: Predictor, evaluation: LossEvaluation | None) -> Iterator[str]:
    """Yield the card about a limit on a loss."""
    if evaluation is None or not evaluation.by_site:
        return
    about = rule.risk
    text = "Dots: mean loss on the checked rows; lines: 95% intervals if rows are independent; dashed: the limit. "
    numbers = table(("site", *evaluation.columns), (group.cells for group in evaluation.by_site))
    most = min(about.bound, max(2 * about.limit, *(group.high for group in evaluation.by_site)))
    drawn = sorted(evaluation.by_site, key=lambda group: -group.mean_loss)[:MOST]
    chart = group_chart(drawn, about.limit, (0.0, most), "mean loss", "{:.4g}".format)
    yield card("Risk by site", soft(text + _promised_to(rule.certificate, "site")) + chart, numbers)


def _coverage_by(column: str, groups: Sequence[CoverageGroup], evaluation: AnyEvaluation, about: Certificate) -> str:
    text = _promised_to(about, column)
    if groups is evaluation.by_site:
        lines = f"Dots: coverage; dashed: the target. Lines: 95% interval, if {evaluation.interval_assumes}."
        text = f"{lines} A dot a little below the target is no violation. {text}"
    drawn, target = groups, 1 - about.alpha
    if len(groups) > MOST:
        text += f" Drawn: the {MOST} lowest of {len(groups)}."
        drawn = sorted(groups, key=lambda group: group.coverage)[:MOST]
    numbers = table((column, *evaluation.columns), (group.cells for group in groups))
    low = min(0.9 * target, *(group.low for group in drawn))
    chart = group_chart(drawn, target, (max(0.0, math.floor(low * 20) / 20), 1.0), "coverage", percent)
    return card(f"Coverage by {column}", soft(text) + chart, numbers)


def _promised_to(about: Certificate, column: str) -> str:
    """Return a sentence on whether sites, classes or the groups of a column have promises of their own."""
    if about.status != "certified":
        return "Nothing is promised here: the thresholds are estimates."
    guarantee, sites, _ = about.terms()
    strata, whom = guarantee.audience(sites).strata, lay_description(guarantee, sites)
    if column == "site" and "site" not in guarantee.inner.excluded:
        return f"The promise is for {whom}."
    one = {"site": "site", "class": "class", PROMISED: "group"}.get(column, f"group of {column}")
    if (column == "class" and "class" in strata) or ("group" in strata and column in (*about.group_columns, PROMISED)):
        return f"Each {one} is promised coverage by itself, unless it has too few calibration scores."
    return f"No {one} is promised anything by itself" + (f": the promise is for {whom}." if column == "site" else ".")


def _sizes(evaluation: Evaluation) -> str:
    rows, histogram = evaluation.overall.rows, evaluation.size_histogram
    counts = {group.name: group.rows for group in evaluation.by_size}
    if len(histogram) <= MAX_SIZES + 1:
        counts = {str(size): sets for size, sets in enumerate(histogram) if sets}
    bars = [
        Bar(f"{size} label{'' if size == '1' else 's'}", sets, f"{sets:,} ({sets / rows:.1%})")
        for size, sets in counts.items()
    ]
    full = soft(f"{full_set_count(evaluation.full_sets, rows)}.")
    numbers = table(("set size", *evaluation.columns), (group.cells for group in evaluation.by_size))
    return card("Set sizes", full + Bars(title="Frequency of set sizes", bars=bars).svg(), numbers)


def _strata(about: Certificate) -> str:
    """Tabulate the promise of each site, group or class."""
    stratum, cells = about.by or "class", []
    for key, part in about.parts.items():
        name = class_called(int(key), about.class_names) if stratum == "class" else str(key)
        by_class = stratum == "group" and part[1:]
        limits = ["none" if np.isinf(promise.limit) else f"{promise.limit:.4g}" for promise in part]
        scores = sum(promise.scores for promise in part) if by_class else part[-1].scores
        band = "" if by_class else "{:.4f} to {:.4f}".format(*band_of(part))
        cells.append((name, f"{scores:,}", "by class" if by_class else " to ".join(limits), band))
    text = soft(f"Calibration scores, threshold and promised coverage. {STRATA[stratum]}")
    return card(f"Thresholds by {stratum}", text + long_table((stratum, "scores", "threshold", "coverage"), cells))


def exact_words(predictor: Predictor, evaluation: AnyEvaluation | LossEvaluation | None) -> str:
    """Return the fine print: verdict, certificate and contributions."""
    about = predictor.certificate
    tested = "" if evaluation is None or isinstance(evaluation, LossEvaluation) else _tested(about, evaluation)
    facts = table(("fact", "value"), certificate_facts(predictor).items())
    certificate = f'<h3>Certificate</h3><div class="facts">{facts}</div>'
    return fine_print(tested + _promises(about) + _contributions(about) + certificate)


def _tested(about: Certificate, evaluation: AnyEvaluation) -> str:
    if evaluation.verdict is None:
        return ""
    verdict = f'<p class="verdict">{escape(evaluation.verdict.words)}</p>'
    mixed = "" if evaluation.reweighted is None else soft(evaluation.reweighted.sentence)
    assumes = soft(f"This holds if {evaluation.verdict.assumes}.")
    names = sites_without_rows(about, evaluation)
    lacking = soft(f"Certified sites without a test row: {', '.join(map(abbreviate, names))}.") if names else ""
    return f"<h3>Test of the promise</h3>{verdict}{mixed}{assumes}{lacking}"


def _promises(about: Certificate) -> str:
    if about.status != "certified":
        band = f"Nothing is promised: {why_estimated(about)}."
    elif about.risk is not None:
        band = ""
    else:
        empty = "" if about.intervals else " and sets may be empty"
        most = f"at most {about.coverage_at_most:.4f} if scores are distinct{empty}{before_rounding(about)}"
        band = f"Coverage is at least {about.coverage_at_least:.4f}, and {most}."
    promised = [f"{sentence(about)} {band}".strip(), f"Provided that {about.statement.assumption}."]
    denied = [about.statement.caveat, about.statement.conditions]
    columns = {"Promised": promised, "Not promised, and conditions": denied}
    inside = "".join(
        f"<div><h3>{title}</h3><ul>{''.join(f'<li>{escape(text)}</li>' for text in texts if text)}</ul></div>"
        for title, texts in columns.items()
    )
    return f'<div class="grid2">{inside}</div>'


def _contributions(about: Certificate) -> str:
    cells = [
        (shortened(", ".join(used.sites) or "unnamed", 60), f"{sum(used.sizes):,}", used.kind, f"{used.sha256[:12]}...")
        for used in about.summaries
    ]
    text = soft("Nothing else than these summaries was sent; each can be checked by its SHA-256.")
    return f"<h3>Contributions</h3>{text}{long_table(('site', 'scores', 'summary', 'sha256'), cells)}"


def certificate_facts(predictor: Predictor) -> dict[str, str]:
    """Return the recorded facts of a certificate as text by name."""
    about = predictor.certificate
    origin, replaced, risk = about.provenance, about.replaces, about.risk
    facts: dict[str, Any] = {"status": about.status, "guarantee": guarantee_name(about.guarantee)}
    facts["threshold"] = about.limit_text
    if risk is None:
        band = f"{about.coverage_at_least:.4f} to {about.coverage_at_most:.4f}{before_rounding(about)}"
        facts |= {"alpha": f"{about.alpha:g}", "score": str(predictor.score), "coverage band": band}
        facts["excess from summaries"] = f"at most {about.slack:.4f}"
    else:
        facts |= {
            "limit on the risk": f"{risk.limit:g}",
            "loss": predictor.loss and str(predictor.loss),
            "bound of a loss": f"{risk.bound:g}",
            "grid": f"{risk.points} thresholds from {risk.first:g} to {risk.last:g}",
            "safe action": risk.safe,
        }
    facts |= {name: getattr(origin, name) for name in ("model", "precision", "calibration", "expires")}
    facts |= {
        "temperature": origin.temperature and f"{origin.temperature:.4g}",
        "sites": f"{about.sites}, with {about.scores:,} calibration {'scores' if risk is None else 'rows'}",
        "sites left out": ", ".join(f"{one.site} ({one.reason})" for one in about.left_out or ()),
        "signed by": ", ".join(used.signature.site for used in about.summaries if used.signature),
        "privacy": about.privacy and privacy_claim(about.privacy),
    }
    if replaced is not None:
        facts |= {"replaces the predictor with sha256": replaced.sha256, "why": replaced.why, "rows": replaced.rows}
    facts["made with"] = ", ".join(f"{name} {version}" for name, version in about.versions.items())
    return {name: str(value) for name, value in facts.items() if value}
