"""Cards of every report: coverage by group, thresholds, the promise curve, and the fine print."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from fedconformal._base.names import abbreviate, join_names
from fedconformal.calibration.curve import PromiseCurve
from fedconformal.certificates.certificate import Certificate, Promise, RiskRecord, combined
from fedconformal.certificates.text import class_called, guarantee_name, lay_description
from fedconformal.evaluation import AnyEvaluation
from fedconformal.report.board import sites_without_rows
from fedconformal.report.charts import MAX_GROUPS, coverage_chart, promise_chart, shortened
from fedconformal.report.html import card, soft, table


def coverage_by_site(evaluation: AnyEvaluation, about: Certificate, what: str) -> str:
    """Draw the coverage of all rows, by site where sites are known."""
    groups = evaluation.by_site or [evaluation.overall]
    text = (
        f"Dots: share of {what} that hold the truth; dashed: the target. A dot a little below the target is no "
        f"violation. Lines: 95% interval, if {evaluation.interval_assumes}."
    )
    lacking = sites_without_rows(about, evaluation)
    text += f" No test row is from {join_names(lacking)}." if lacking else ""
    return coverage_by("site" if evaluation.by_site else "", groups, evaluation, about, text)


def coverage_by(
    column: str, groups: Sequence[Any], evaluation: AnyEvaluation, about: Certificate, text: str = ""
) -> str:
    """Draw the coverage of groups of rows."""
    if column:
        text += f" {promised_to(about, column)}"
    if len(groups) > MAX_GROUPS:
        text += f" Drawn: the {MAX_GROUPS} lowest of {len(groups)}."
    numbers = table((column or "site", *evaluation.columns), (group.cells for group in groups))
    title = f"Coverage by {column}" if column else "Coverage"
    return card(title, soft(text.strip()) + coverage_chart(groups, 1 - about.alpha), numbers)


def promised_to(about: Certificate, column: str) -> str:
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


def promise_card(curve: PromiseCurve, about: Certificate) -> str:
    """Draw the promised coverage of each threshold."""
    text = soft("The promise curve. Valid for an alpha fixed beforehand.")
    return card("What each threshold promises", text + promise_chart(curve, about.threshold, 1 - about.alpha))


STRATA = {
    "site": "A case whose site is not given takes the largest threshold. A site with too few scores has none: nothing "
    "is ruled out there.",
    "group": "A row takes the largest threshold of its groups. A group with too few scores has no threshold: its sets "
    "hold every label.",
    "class": "A class with too few scores has no threshold: it is in every set.",
}


def strata_card(about: Certificate) -> str:
    """Tabulate the promise of each site, group or class."""
    stratum, cells = about.by or "class", []
    for key, part in about.parts.items():
        one, name = combined(part), class_called(int(key), about.class_names) if stratum == "class" else str(key)
        if stratum == "group" and part[1:]:
            cells.append((name, f"{sum(promise.scores for promise in part):,}", "by class", "", ""))
            continue
        rank = "none" if one.rank is None else f"{one.rank:,} of {one.rank_out_of or 0:,}"
        band = f"{one.coverage_at_least:.4f} to {one.coverage_at_most:.4f}"
        cells.append((name, f"{one.scores:,}", " to ".join(map(_limit_text, part)), rank, band))
    text = soft(f"Calibration scores, threshold, rank and promised coverage. {STRATA[stratum]}")
    return card(f"Every {stratum} by itself", text + table((stratum, "scores", "threshold", "rank", "coverage"), cells))


def _limit_text(promise: Promise) -> str:
    return "none" if np.isinf(promise.limit) else f"{promise.limit:.4g}"


def fine_print(about: Certificate, evaluation: AnyEvaluation | None, score: str) -> str:
    """Write the verdict, the certificate and the contributions in exact words, folded out on paper."""
    parts = [_tested(about, evaluation), _promises(about), _contributions(about), _facts(about, score)]
    summary = "<summary><h2>The fine print</h2></summary>"
    return f'<details class="card fine">{summary}{"".join(parts)}</details>'


def _tested(about: Certificate, evaluation: AnyEvaluation | None) -> str:
    if evaluation is None or evaluation.verdict is None:
        return ""
    verdict = f'<p class="verdict">{escape(evaluation.verdict.words)}</p>'
    mixed = "" if evaluation.reweighted is None else soft(evaluation.reweighted.sentence)
    assumes = soft(f"This holds if {evaluation.verdict.assumes}.")
    names = sites_without_rows(about, evaluation)
    lacking = soft(f"Certified sites without a test row: {', '.join(map(abbreviate, names))}.") if names else ""
    return f"<h3>What the test rows show</h3>{verdict}{mixed}{assumes}{lacking}"


def _promises(about: Certificate) -> str:
    if about.status != "certified":
        band = f"Nothing is promised: {about.why_estimated}."
    elif about.risk is not None:
        band = ""
    else:
        empty = "" if about.intervals else " and sets may be empty"
        most = f"at most {about.coverage_at_most:.4f} if scores are distinct{empty}{about.before_rounding}"
        band = f"Coverage is at least {about.coverage_at_least:.4f}, and {most}."
    promised = [f"{about.sentence()} {band}".strip(), f"Provided that {about.statement.assumption}."]
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
            shortened(", ".join(used.sites) or "unnamed", 60, "..."),
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


def _facts(about: Certificate, score: str) -> str:
    temperature, replaced = about.provenance.temperature, about.replaces
    facts = {
        "status": about.status,
        "guarantee": guarantee_name(about.guarantee),
        "threshold": about.limit_text,
        **(_of_scores(about, score) if about.risk is None else _of_losses(about.risk, score)),
        "temperature": "not recorded" if temperature is None else f"{temperature:.4g}",
        "model": about.provenance.model or "not recorded",
        "sites": f"{about.sites}, with {about.scores:,} calibration {'scores' if about.risk is None else 'rows'}",
        "of which the summaries cost at most": f"{about.slack:.4f}",
    }
    if replaced is not None:
        facts |= {"replaces the predictor with sha256": replaced.sha256, "why": replaced.why, "rows": replaced.rows}
    facts["made with"] = ", ".join(f"{name} {version}" for name, version in about.versions.items())
    return f'<h3>Certificate</h3><div class="facts">{table(("fact", "value"), facts.items())}</div>'


def _of_scores(about: Certificate, score: str) -> dict[str, str]:
    band = f"{about.coverage_at_least:.4f} to {about.coverage_at_most:.4f}{about.before_rounding}"
    return {"alpha": f"{about.alpha:g}", "score": score, "coverage band": band}


def _of_losses(risk: RiskRecord, loss: str) -> dict[str, str]:
    return {
        "limit on the risk": f"{risk.limit:g}",
        "loss": loss or "not recorded",
        "bound of a loss": f"{risk.bound:g}",
        "grid": f"{risk.points} thresholds from {risk.first:g} to {risk.last:g}",
        "safe action": risk.safe or "none is named",
    }
