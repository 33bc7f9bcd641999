"""Cards of a report: coverage and losses in groups, set sizes, thresholds, the promise curve, and the fine print."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from html import escape

import numpy as np

from fedconformal._base.arrays import ALPHA_UNIT
from fedconformal._base.names import abbreviate, join_names
from fedconformal.calibration.predictor import Predictor
from fedconformal.calibration.search import PromiseCurve
from fedconformal.certificates.certificate import Certificate, Promise, band_of
from fedconformal.certificates.text import (
    before_rounding,
    class_called,
    full_set_count,
    guarantee_name,
    lay_description,
    sentence,
    why_estimated,
)
from fedconformal.evaluation import AnyEvaluation, Evaluation
from fedconformal.evaluation.coverage import CoverageGroup
from fedconformal.evaluation.losses import LossEvaluation
from fedconformal.report.board import sites_without_rows
from fedconformal.report.charts import Bar, Bars, group_chart, percent, promise_chart, shortened
from fedconformal.report.html import card, fine_print, soft, table

MAX_BARS, MAX_GROUPS = 16, 40
"""Set sizes and groups that are drawn one by one; of more groups those furthest from the promise."""
STRATA = {
    "site": "A case whose site is not given takes the largest threshold. A site with too few scores has none: nothing "
    "is ruled out there.",
    "group": "A row takes the largest threshold of its groups. A group with too few scores has no threshold: its sets "
    "hold every label.",
    "class": "A class with too few scores has no threshold: it is in every set.",
}


def coverage_cards(predictor: Predictor, evaluation: AnyEvaluation | None) -> Iterator[str]:
    """Write the cards about sets or intervals."""
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
    if isinstance(predictor.curve, PromiseCurve) and np.any(predictor.curve.promised):
        curve, some = predictor.curve, predictor.curve.promised > 0
        points = list(zip(curve.thresholds[some].tolist(), curve.promised[some] / ALPHA_UNIT, strict=True))
        text = soft("The promise curve. Valid for an alpha fixed beforehand.")
        chart = promise_chart(points, about.threshold, 1 - about.alpha, "coverage")
        yield card("What each threshold promises", text + chart)


def risk_cards(rule: Predictor, evaluation: LossEvaluation | None) -> Iterator[str]:
    """Write the cards about a limit on a loss."""
    about, curve = rule.risk, rule.curve
    risks = [min(about.bound, risk / ALPHA_UNIT) for risk in curve.promised]
    text = "An upper bound, rounded up. Valid for a limit fixed beforehand."
    if about.rising:
        text += " The loss may rise with the threshold, so each walk along the grid is tested from its safest end."
    points = list(zip(curve.thresholds.tolist(), risks, strict=True))
    chart = promise_chart(points, rule.certificate.threshold, about.limit, "risk", most=about.bound)
    yield card("What each threshold promises", soft(text) + chart)
    if evaluation is not None and evaluation.by_site:
        text = "Dots: mean loss on the checked rows; lines: 95% intervals if rows are independent; dashed: the limit. "
        text += _promised_to(rule.certificate, "site")
        numbers = table(("site", *evaluation.columns), (group.cells for group in evaluation.by_site))
        most = min(about.bound, max(2 * about.limit, *(group.high for group in evaluation.by_site)))
        drawn = sorted(evaluation.by_site, key=lambda group: -group.mean_loss)[:MAX_GROUPS]
        chart = group_chart(drawn, about.limit, (0.0, most), "mean loss", "{:.4g}".format)
        yield card("Risk by site", soft(text) + chart, numbers)


def _coverage_by(column: str, groups: Sequence[CoverageGroup], evaluation: AnyEvaluation, about: Certificate) -> str:
    text = _promised_to(about, column)
    if groups is evaluation.by_site:
        lines = f"Dots: coverage; dashed: the target. Lines: 95% interval, if {evaluation.interval_assumes}."
        lacking = sites_without_rows(about, evaluation)
        absent = f" No test row is from {join_names(lacking)}." if lacking else ""
        text = f"{lines} A dot a little below the target is no violation.{absent} {text}"
    drawn, target = groups, 1 - about.alpha
    if len(groups) > MAX_GROUPS:
        text += f" Drawn: the {MAX_GROUPS} lowest of {len(groups)}."
        drawn = sorted(groups, key=lambda group: group.coverage)[:MAX_GROUPS]
    numbers = table((column, *evaluation.columns), (group.cells for group in groups))
    low = min(0.9 * target, *(group.low for group in drawn))
    chart = group_chart(drawn, target, (max(0.0, math.floor(low * 20) / 20), 1.0), "coverage", percent)
    return card(f"Coverage by {column}", soft(text) + chart, numbers)


def _promised_to(about: Certificate, column: str) -> str:
    """Say whether the sites, the classes or the groups of a column are promised coverage by themselves."""
    if about.status != "certified":
        return "Nothing is promised here: the thresholds are estimates."
    guarantee, sites, _ = about.terms()
    strata, whom = guarantee.audience(sites).strata, lay_description(guarantee, sites)
    if column == "site" and "site" not in guarantee.inner.excluded:
        return f"The promise is for {whom}."
    one = column if column in ("site", "class") else f"group of {column}"
    if (column == "class" and "class" in strata) or ("group" in strata and column in about.group_columns):
        return f"Each {one} is promised coverage by itself, unless it has too few calibration scores."
    return f"No {one} is promised anything by itself" + (f": the promise is for {whom}." if column == "site" else ".")


def _sizes(evaluation: Evaluation) -> str:
    """Draw the frequency of each set size; many sizes are drawn in classes."""
    counts = np.array(evaluation.size_histogram)
    first, last = np.flatnonzero(counts)[[0, -1]].tolist()
    sizes = [(str(size), int(counts[size])) for size in range(first, last + 1)]
    if last >= MAX_BARS:
        sizes = [(group.name, group.rows) for group in evaluation.by_size]
    bars = [
        Bar(f"{name} label{'' if name == '1' else 's'}", count, f"{count} ({count / counts.sum():.1%})")
        for name, count in sizes
    ]
    full = soft(f"{full_set_count(evaluation.full_sets, evaluation.overall.rows)}.")
    numbers = table(("set size", *evaluation.columns), (group.cells for group in evaluation.by_size))
    return card("Set sizes", full + Bars(title="How many rows have sets of each size", bars=bars).svg(), numbers)


def _strata(about: Certificate) -> str:
    """Tabulate the promise of each site, group or class."""
    stratum, cells = about.by or "class", []
    for key, part in about.parts.items():
        one, name = part[-1], class_called(int(key), about.class_names) if stratum == "class" else str(key)
        if stratum == "group" and part[1:]:
            cells.append((name, f"{sum(promise.scores for promise in part):,}", "by class", "", ""))
            continue
        rank = "none" if one.rank is None else f"{one.rank:,} of {one.rank_out_of or 0:,}"
        band = "{:.4f} to {:.4f}".format(*band_of(part))
        cells.append((name, f"{one.scores:,}", " to ".join(map(_limit_text, part)), rank, band))
    text = soft(f"Calibration scores, threshold, rank and promised coverage. {STRATA[stratum]}")
    return card(f"Every {stratum} by itself", text + table((stratum, "scores", "threshold", "rank", "coverage"), cells))


def _limit_text(promise: Promise) -> str:
    return "none" if np.isinf(promise.limit) else f"{promise.limit:.4g}"


def exact_words(predictor: Predictor, evaluation: AnyEvaluation | LossEvaluation | None) -> str:
    """Write the fine print: the verdict, the certificate and the contributions."""
    about = predictor.certificate
    tested = "" if evaluation is None or isinstance(evaluation, LossEvaluation) else _tested(about, evaluation)
    return fine_print(tested + _promises(about) + _contributions(about) + _facts(predictor))


def _tested(about: Certificate, evaluation: AnyEvaluation) -> str:
    if evaluation.verdict is None:
        return ""
    verdict = f'<p class="verdict">{escape(evaluation.verdict.words)}</p>'
    mixed = "" if evaluation.reweighted is None else soft(evaluation.reweighted.sentence)
    assumes = soft(f"This holds if {evaluation.verdict.assumes}.")
    names = sites_without_rows(about, evaluation)
    lacking = soft(f"Certified sites without a test row: {', '.join(map(abbreviate, names))}.") if names else ""
    return f"<h3>What the test rows show</h3>{verdict}{mixed}{assumes}{lacking}"


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
    denied = [about.statement.caveat, *re.split(r"(?<=\.) (?=[A-Z])", about.statement.conditions)]
    columns = {"Promised": promised, "Not promised, and conditions": denied}
    inside = "".join(
        f"<div><h3>{title}</h3><ul>{''.join(f'<li>{escape(text)}</li>' for text in texts if text)}</ul></div>"
        for title, texts in columns.items()
    )
    return f'<div class="grid2">{inside}</div>'


def _contributions(about: Certificate) -> str:
    cells = [
        (
            shortened(", ".join(used.sites) or "unnamed", 60),
            f"{sum(used.sizes):,}",
            used.kind,
            f"{used.sha256[:12]}...",
        )
        for used in about.summaries
    ]
    text = soft("Nothing else than these summaries was sent; each can be checked by its SHA-256.")
    inside = table(("site", "scores", "summary", "sha256"), cells)
    if len(cells) > MAX_GROUPS:
        inside = f"<details><summary>All {len(cells)}</summary>{inside}</details>"
    return f"<h3>Who contributed what</h3>{text}{inside}"


def _facts(predictor: Predictor) -> str:
    about = predictor.certificate
    temperature, replaced, risk = about.provenance.temperature, about.replaces, about.risk
    facts = {"status": about.status, "guarantee": guarantee_name(about.guarantee), "threshold": about.limit_text}
    if risk is None:
        band = f"{about.coverage_at_least:.4f} to {about.coverage_at_most:.4f}{before_rounding(about)}"
        facts |= {"alpha": f"{about.alpha:g}", "score": str(predictor.score), "coverage band": band}
    else:
        facts |= {
            "limit on the risk": f"{risk.limit:g}",
            "loss": str(predictor.loss or "not recorded"),
            "bound of a loss": f"{risk.bound:g}",
            "grid": f"{risk.points} thresholds from {risk.first:g} to {risk.last:g}",
            "safe action": risk.safe or "none is named",
        }
    facts |= {
        "temperature": "not recorded" if temperature is None else f"{temperature:.4g}",
        "model": about.provenance.model or "not recorded",
        "sites": f"{about.sites}, with {about.scores:,} calibration {'scores' if risk is None else 'rows'}",
        "of which the summaries cost at most": f"{about.slack:.4f}",
    }
    if replaced is not None:
        facts |= {"replaces the predictor with sha256": replaced.sha256, "why": replaced.why, "rows": replaced.rows}
    facts["made with"] = ", ".join(f"{name} {version}" for name, version in about.versions.items())
    return f'<h3>Certificate</h3><div class="facts">{table(("fact", "value"), facts.items())}</div>'
