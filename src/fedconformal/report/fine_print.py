"""The fine print: the verdict and the certificate in their exact words, and what each site sent."""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import escape

from fedconformal._base.names import abbreviate
from fedconformal.certificates.certificate import Certificate, RiskRecord
from fedconformal.certificates.text import guarantee_name
from fedconformal.evaluation import AnyEvaluation
from fedconformal.report.board import sites_without_rows
from fedconformal.report.charts import MAX_GROUPS, shortened
from fedconformal.report.html import soft, table


def fine_print(about: Certificate, evaluation: AnyEvaluation | None, score: str, sent: Mapping[str, int]) -> str:
    """Write the part that can be folded out; on paper it always is."""
    parts = [_tested(about, evaluation), _promises(about), _contributions(about, sent), _facts(about, score)]
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
    return f"<h3>Who contributed what</h3>{text}{inside}"


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


def _before(about: Certificate) -> dict[str, str]:
    """Name the predictor that was there before, and why it was replaced."""
    replaced = about.replaces
    if replaced is None:
        return {}
    return {"replaces the predictor with sha256": replaced.sha256, "why": replaced.why, "rows": replaced.rows}


def _facts(about: Certificate, score: str) -> str:
    facts = {
        "status": about.status,
        "guarantee": guarantee_name(about.guarantee),
        "threshold": about.limit_text,
        **(_of_scores(about, score) if about.risk is None else _of_losses(about.risk, score)),
        "temperature": "not recorded"
        if about.provenance.temperature is None
        else f"{about.provenance.temperature:.4g}",
        "model": about.provenance.model or "not recorded",
        "sites": f"{about.sites}, with {about.scores:,} calibration {'scores' if about.risk is None else 'rows'}",
        "of which the summaries cost at most": f"{about.slack:.4f}",
        **_before(about),
        "made with": ", ".join(f"{name} {version}" for name, version in about.versions.items()),
    }
    return f'<h3>Certificate</h3><div class="facts">{table(("fact", "value"), facts.items())}</div>'
