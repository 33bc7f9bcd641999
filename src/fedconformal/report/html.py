"""The few pieces of HTML that every part of the page is made of."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from itertools import combinations

MOST_CARDS = 12
"""Up to this many, all ways to put them into two columns are compared."""


def card(title: str, inside: str, numbers: str = "") -> str:
    """Frame a part of the page under its title; numbers can be folded out."""
    details = f"<details><summary>Numbers</summary>{numbers}</details>" if numbers else ""
    return f'<section class="card"><h2>{escape(title)}</h2>{inside}{details}</section>'


def answer(title: str, big: str, texts: Sequence[str], *, mark: str = "", kind: str = "") -> str:
    """Write one of the answers of the first screen: a figure, and what it says."""
    inside = "".join(f"<p>{escape(text)}</p>" for text in texts)
    figure = f'<p class="big">{escape(big)} {mark}</p>'
    return f'<section class="card answer {kind}"><h2>{title}</h2>{figure}{inside}</section>'


def columns(cards: Iterable[str]) -> str:
    """Put cards into two columns of about the same height, one below the other, so that no gaps are left.

    >>> columns(["a", "b"])
    '<div class="columns"><div>a</div><div>b</div></div>'
    """
    found = list(cards)
    if not found:
        return ""
    heights = [_height(one) for one in found]
    right = min(_choices(len(found)), key=lambda some: abs(sum(heights) - 2 * sum(heights[i] for i in some)))
    sides = ([one for i, one in enumerate(found) if i not in right], [found[i] for i in right])
    inside = "".join(f"<div>{''.join(side)}</div>" for side in sides if side)
    return f'<div class="columns">{inside}</div>'


def _choices(count: int) -> Iterator[tuple[int, ...]]:
    """Yield which cards may be on the right; of many cards every other one is."""
    if count > MOST_CARDS:
        yield tuple(range(1, count, 2))
        return
    for size in range(count):
        yield from combinations(range(1, count), size)


def _height(one: str) -> float:
    """Estimate the height of a card with its numbers folded in: a frame, charts, lines of text, rows of a table."""
    seen = re.sub("<details>.*?</details>", "", one, flags=re.DOTALL)
    charts = sum(float(height) for height in re.findall(r'viewBox="0 0 \S+ (\S+?)"', seen))
    text = re.sub("<svg.*?</svg>|<table.*?</table>|<.*?>", "", seen, flags=re.DOTALL)
    return 74 + 36 * one.count("<details>") + 1.1 * charts + 23 * (len(text) / 65) + 30 * seen.count("<tr>")


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
