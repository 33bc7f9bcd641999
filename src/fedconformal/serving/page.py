"""The page at GET /: what is promised, what was answered so far, and how to ask."""

from __future__ import annotations

from html import escape
from importlib import resources

from fedconformal.monitoring.status import ALARM, Status
from fedconformal.report.html import card, shortened, soft, table
from fedconformal.serving.metrics import Metrics
from fedconformal.serving.service import Service

POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"
"""Nothing but the page itself, and nobody frames it."""

MOST = 20
"""Alarms that are listed."""


def page(service: Service, metrics: Metrics, watch: Status | None = None) -> str:
    """Return the page as HTML."""
    about = service.certificate
    style = resources.files("fedconformal.report").joinpath("style.css").read_text("utf-8")
    size = f"{metrics.labels / metrics.rows:.3f}" if metrics.rows else "none yet"
    facts = {
        "status": about.status,
        "score": str(service.predictor.score),
        "threshold": about.limit_text,
        "model": shortened(about.model or "not stated", 20),
        "predictor": shortened(service.digest, 20),  # a phone is narrow; GET /ready has it all
        "expires": about.expires or "not stated",
    }
    counts = {
        "rows answered": str(metrics.rows),
        "mean size of a set": size,
        "sets with every label": str(metrics.full),
    }
    form = "probabilities" if service.model is None else "features"
    ask = f'{{"{form}": [[...], ...], "ids": [...]}}'
    parts = [
        "<h1>Prediction sets</h1>",
        f'<p class="lede">{escape(about.sentence())}</p>',
        *(f'<p class="warning" role="note">{escape(one)}.</p>' for one in service.warnings()),
        *([] if watch is None else [_watched(watch)]),
        card("Answers since the start", table(("", ""), counts.items())),
        card("The predictor", soft(about.assumption) + table(("", ""), facts.items())),
        card("How to ask", f"<p>POST /predict, application/json: <code>{escape(ask)}</code></p>"),
    ]
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
    head += f"<title>Prediction sets</title><style>{style}</style>"
    return f'<!doctype html><html lang="en"><head>{head}</head><body><main>{"".join(parts)}</main></body></html>\n'


def _watched(watch: Status) -> str:
    """Say in words whether the promise is kept; `Watch.periods` has all of it for a page with charts."""
    whole = watch.streams[0].state
    counts = {"outcomes known": str(whole.known), "missed": f"{whole.misses:g}", "rows that wait": str(whole.waiting)}
    alarms = [f"{one.called}: {one.words}" for one in watch.streams if one.verdict == ALARM]
    changes = [f"{one.name} scores: {one.words}" for one in watch.changes]
    more = "".join(f"<p>{escape(line)}.</p>" for line in (*alarms[:MOST], *changes))
    return card("Is the promise kept?", f"<p>{escape(watch.sentence)}</p>{more}" + table(("", ""), counts.items()))
