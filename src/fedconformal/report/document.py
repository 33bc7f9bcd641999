"""The frame of a page: its style, and a content policy that keeps it from asking anything of the network."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from importlib import resources

from fedconformal.report.plot import CHART_STYLE

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
SCRIPTED = "; script-src 'unsafe-inline'"
"""Only where there is a script: without one, nothing that came in a name can run."""


def document(title: str, parts: Iterable[str], script: str = "", style: str = "") -> str:
    """Return the whole page as HTML, with nothing to load from anywhere else.

    >>> document("2 sites", ["<h1>Sets</h1>"]).startswith("<!doctype html>")
    True
    """
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
    head += f'<meta http-equiv="Content-Security-Policy" content="{POLICY}{SCRIPTED if script else ""}">'
    head += f"<title>fedconformal: {escape(title)}</title><style>{resource('style.css')}{CHART_STYLE}{style}</style>"
    body = f"<main>{''.join(parts)}</main>{script}"
    return f'<!doctype html><html lang="en"><head>{head}</head><body>{body}</body></html>\n'


def resource(name: str) -> str:
    """Read a file of this package."""
    return resources.files("fedconformal.report").joinpath(name).read_text("utf-8")
