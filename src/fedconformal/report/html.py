"""Page builder: heading, board of answers, notes, cards and fine print, in one HTML file.

The layout is CSS. A content security policy forbids network access.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from importlib import resources
from typing import NamedTuple

from fedconformal.report.charts import CHART_STYLE

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""Content security policy without scripts, so that markup in a name cannot execute."""
MOST = 24
"""Maximum number of drawn groups, the furthest from the promise, and of rows shown of a long table."""


class Answer(NamedTuple):
    """A tile of the board: title, figure with badge, text and list of steps."""

    title: str
    figure: str = ""
    texts: Sequence[str] = ()
    steps: Sequence[str] = ()
    badge: str = ""
    level: str = ""
    """"good", "caution" or "bad", which sets the colour."""


def page(title: str, heading: str, sections: Iterable[str], *, lede: str = "") -> str:
    """Return a self-contained page.

    >>> page("2 sites", "Sets", [card("Sizes", "")]).startswith("<!doctype html>")
    True
    """
    style = resources.files("fedconformal.report").joinpath("style.css").read_text("utf-8")
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
    head += f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
    head += f"<title>fedconformal: {escape(title)}</title><style>{style}{CHART_STYLE}</style>"
    top = f"<h1>{escape(heading)}</h1>" + (f'<p class="lede">{escape(lede)}</p>' if lede else "")
    body = f"<main>{top}{''.join(sections)}</main>"
    return f'<!doctype html><html lang="en"><head>{head}</head><body>{body}</body></html>\n'


def board(answers: Iterable[Answer]) -> str:
    """Return the tiles of the first screen."""
    return f'<div class="board">{"".join(map(_answer, answers))}</div>'


def _answer(one: Answer) -> str:
    badge = f'<span class="badge {one.level}">{escape(one.badge)}</span>' if one.badge else ""
    figure = f'<p class="big">{escape(one.figure)} {badge}</p>' if one.figure else ""
    texts = "".join(f"<p>{escape(text)}</p>" for text in one.texts)
    steps = f"<ul>{''.join(f'<li>{escape(step)}</li>' for step in one.steps)}</ul>" if one.steps else ""
    return f'<section class="card answer {one.level}"><h2>{one.title}</h2>{figure}{texts}{steps}</section>'


def notes(texts: Iterable[str]) -> str:
    """Return warnings, given as HTML."""
    return "".join(f'<p class="warning" role="note">{text}.</p>' for text in texts)


def card(title: str, inside: str, numbers: str = "") -> str:
    """Return a section with a title and an expandable table of numbers."""
    details = f"<details><summary>Numbers</summary>{numbers}</details>" if numbers else ""
    return f'<section class="card"><h2>{escape(title)}</h2>{inside}{details}</section>'


def fine_print(inside: str) -> str:
    """Return the collapsed fine print, which is expanded in print."""
    return f'<details class="card fine"><summary><h2>The fine print</h2></summary>{inside}</details>'


def grid(cards: Iterable[str]) -> str:
    """Return cards in two columns."""
    inside = "".join(cards)
    return f'<div class="cards">{inside}</div>' if inside else ""


def soft(text: str) -> str:
    """Return a paragraph in a muted colour."""
    return f'<p class="soft">{escape(text)}</p>' if text else ""


def long_table(columns: Sequence[str], rows: Sequence[Iterable[str]]) -> str:
    """Return a table of text; rows beyond the first ones are collapsed."""
    first, rest, more = table(columns, rows[:MOST]), table(columns, rows[MOST:]), len(rows) - MOST
    return first + (f'<details class="more"><summary>{more:,} more</summary>{rest}</details>' if more > 0 else "")


def table(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table of text."""
    head = "".join(f'<th scope="col">{escape(column)}</th>' for column in columns)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
