"""The few pieces of HTML that every part of the page is made of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def card(title: str, inside: str, numbers: str = "") -> str:
    """Frame a part of the page under its title; numbers can be folded out."""
    details = f"<details><summary>Numbers</summary>{numbers}</details>" if numbers else ""
    return f'<section class="card"><h2>{escape(title)}</h2>{inside}{details}</section>'


def soft(text: str) -> str:
    """Set a paragraph in a quiet colour.

    >>> soft("rows & sites")
    '<p class="soft">rows &amp; sites</p>'
    """
    return f'<p class="soft">{escape(text)}</p>'


def shortened(text: str, most: int, end: str = "…") -> str:
    """Cut a text to at most this many letters.

    >>> shortened("dermatology", 8), shortened("skin", 8)
    ('dermato…', 'skin')
    """
    return text if len(text) <= most else text[: most - len(end)] + end


def table(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Write a table of text."""
    head = "".join(f'<th scope="col">{escape(column)}</th>' for column in columns)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def name_of_label(label: int, names: Sequence[str]) -> str:
    """Return what a label is called, or its number.

    >>> name_of_label(1, ["cat", "dog"]), name_of_label(2, ["cat", "dog"])
    ('dog', '2')
    """
    return names[label] if label < len(names) else str(label)
