"""The page at GET /: what is promised, whether it is kept if outcomes are watched, and how to ask."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from fedconformal.monitoring.messages import Period
from fedconformal.report.charts import shortened
from fedconformal.report.html import card, notes, soft, table
from fedconformal.report.html import page as html_page
from fedconformal.report.watch import watch_page
from fedconformal.serving.metrics import Metrics
from fedconformal.serving.service import Service

POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"
"""Nothing but the page itself, and nobody frames it."""


def page(service: Service, metrics: Metrics, watched: Sequence[Period] | None = None) -> str:
    """Return the page as HTML; `watched` are the messages of the watch, if there is one."""
    about = service.certificate
    rows = metrics.total("rows")
    size = f"{metrics.total('set_labels') / rows:.3f}" if rows else "none yet"
    facts = {
        "status": about.status,
        "score": str(service.predictor.score),
        "threshold": about.limit_text,
        "model": shortened(about.provenance.model or "not stated", 20),
        "predictor": shortened(service.digest, 20),  # a phone is narrow; GET /ready has it all
        "expires": about.provenance.expires or "not stated",
    }
    counts = {
        "rows answered": str(rows),
        "mean size of a set": size,
        "sets with every label": str(metrics.total("full_sets")),
    }
    form = "probabilities" if service.model is None else "features"
    ask = f'{{"{form}": [[...], ...], "ids": [...]}}'
    parts = [
        notes(escape(one) for one in service.warnings()),
        card("Answers since the start", table(("", ""), counts.items())),
        card("The predictor", soft(about.statement.assumption) + table(("", ""), facts.items())),
        card("How to ask", f"<p>POST /predict, application/json: <code>{escape(ask)}</code></p>"),
    ]
    if watched is not None:
        return watch_page(watched, one_watch=True, promise=about.sentence(), more=parts)
    return html_page("prediction sets", "Prediction sets", parts, lede=about.sentence())
