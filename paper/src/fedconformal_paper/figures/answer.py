"""Figure of the results page: labels per set at 0.9, ours and the paper's, by data set and method."""

from __future__ import annotations

import math
from collections.abc import Iterator
from html import escape
from typing import NamedTuple

from fedconformal_paper.evidence import Evidence
from fedconformal_paper.figures.plot import ALONE, svg
from fedconformal_paper.numbers import FULL_RESULTS, METHODS, TITLES
from fedconformal_paper.runs import AUTHORS, OURS

SHOWN = {"fedavg": 1, "tct": 0, "central": 2}
"""The methods, each with its colour."""
WIDTH, ROW, GAP, TOP = 780, 20, 10, 46
METHOD, LEFT, RIGHT, PAPER, OWN, MODEL = 122, 182, 448, 490, 536, 548
"""Positions of the columns: names of methods, left and right end of the axis, and three columns of text."""
TICKS = (1, 2, 5, 10, 20, 50, 100, 200)
TITLE = "Labels in a set that holds the truth in 0.9 of the rows: the paper's and ours"


class Line(NamedTuple):
    """A row of the figure."""

    dataset: str
    method: str
    paper: float
    ours: float
    model: str


def lines(evidence: Evidence) -> list[Line]:
    """Return the lines of the data sets and methods with results."""
    return [
        Line(dataset, method, FULL_RESULTS[dataset][method][0].size, found.size, _model(found.cut))
        for dataset in FULL_RESULTS
        for method in SHOWN
        if (found := evidence.best(dataset, method))
    ]


def answer(shown: list[Line]) -> str:
    """Draw the rows: a ring for the paper, a dot for ours, and both numbers.

    >>> drawn = answer([Line("cifar10", "tct", 1.3, 3.43, "LeNet, 20 + 20 rounds")])
    >>> drawn.count("<circle"), "3.43" in drawn
    (4, True)
    """
    most = max(max(line.paper, line.ours) for line in shown)
    ticks = TICKS[: next(i for i, tick in enumerate(TICKS) if tick >= most or tick == TICKS[-1]) + 1]
    end = max(most, ticks[-1])
    places = [TOP + ROW * i + GAP * _groups(shown[: i + 1]) for i in range(len(shown))]
    bottom = places[-1] + ROW
    parts = [*_head(ticks, end, bottom)]
    for i, (y, line) in enumerate(zip(places, shown, strict=True)):
        if not i or shown[i - 1].dataset != line.dataset:
            parts.append(f'<text class="heading" x="8" y="{y + 4}">{escape(TITLES[line.dataset])}</text>')
        parts += _line(line, y, end)
    if any(line.model.endswith("*") for line in shown):
        parts.append(f'<text x="{MODEL}" y="{bottom + 22}">* second stage {OURS}</text>')
    return svg("".join(parts), WIDTH, bottom + 30, TITLE, head=ALONE)


def _head(ticks: tuple[int, ...], end: float, bottom: float) -> Iterator[str]:
    for x, text, anchor in ((PAPER, "paper", "end"), (OWN, "ours", "end"), (MODEL, "our model", "start")):
        yield f'<text class="heading" x="{x}" y="22" text-anchor="{anchor}">{text}</text>'
    keys = (
        (LEFT, '<circle class="ring s0" cx="6" cy="-4" r="6"/>', "paper"),
        (LEFT + 66, '<circle class="f0" cx="6" cy="-4" r="4"/>', "ours"),
    )
    for x, drawing, text in keys:
        yield f'<g transform="translate({x} 22)">{drawing}<text x="17" y="0">{text}</text></g>'
    for tick in ticks:
        across = f"{_at(tick, end):.1f}"
        yield f'<line class="grid" x1="{across}" x2="{across}" y1="36" y2="{bottom - 8}"/>'
        yield f'<text x="{across}" y="{bottom + 6}" text-anchor="middle">{tick}</text>'
    yield f'<text x="{(LEFT + RIGHT) / 2:g}" y="{bottom + 22}" text-anchor="middle">labels in a set, at 0.9</text>'


def _line(line: Line, y: float, end: float) -> Iterator[str]:
    i, (ring, dot) = SHOWN[line.method], (_at(line.paper, end), _at(line.ours, end))
    yield f'<text x="{METHOD}" y="{y + 4}">{METHODS[line.method]}</text>'
    yield f'<line class="s{i}" x1="{ring:.1f}" x2="{dot:.1f}" y1="{y}" y2="{y}" stroke-width="1.5"/>'
    yield f'<circle class="ring s{i}" cx="{ring:.1f}" cy="{y}" r="6"/>'
    yield f'<circle class="f{i}" cx="{dot:.1f}" cy="{y}" r="4"/>'
    ours = f"{line.ours:.2f}" if line.ours < TICKS[3] else f"{line.ours:.1f}"
    for x, text in ((PAPER, f"{line.paper:.1f}"), (OWN, ours)):
        yield f'<text x="{x}" y="{y + 4}" text-anchor="end">{text}</text>'
    yield f'<text x="{MODEL}" y="{y + 4}">{escape(line.model)}</text>'


def _model(cut: str) -> str:
    return cut.replace(f", {OURS}", "*").replace(f", {AUTHORS}", "")


def _groups(shown: list[Line]) -> int:
    return len(dict.fromkeys(line.dataset for line in shown)) - 1


def _at(size: float, end: float) -> float:
    return LEFT + math.log(size) / math.log(end) * (RIGHT - LEFT)
