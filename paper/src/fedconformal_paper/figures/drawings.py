"""Drawings without data: the overview, and the threshold of two clients' scores."""

from __future__ import annotations

import math

from fedconformal_paper.figures.plot import ALONE, svg
from fedconformal_paper.setup import Setup

STYLE = ALONE + "<style>.box { fill: none; stroke: currentColor; stroke-width: 1.2; }</style>"
CLIENTS = ((0.08, 0.15, 0.24, 0.33, 0.41, 0.55, 0.82), (0.19, 0.47, 0.62, 0.71, 0.93))
ALPHA_TENTHS = 3


def overview(setup: Setup) -> str:  # noqa: ARG001
    """fig:fig1: from clients to a set, left to right."""
    parts = []
    for k in range(3):
        y = 20 + 62 * k
        name = f"client {'12K'[k]}"
        parts += [
            _box(10, y, 150, 46, name, "scores of its own rows"),
            _arrow(160, y + 23, 266, 95 + 10 * k),
        ]
    parts += [
        '<text x="196" y="36">a summary of about 1 kB each</text>',
        _box(268, 74, 176, 62, "server", "rank ⌈(1−α)(N+K)⌉ of all"),
        _arrow(444, 105, 486, 105),
        '<text x="457" y="97">q</text>',
        _box(488, 74, 156, 62, "any row x", "{y : score(x, y) ≤ q}"),
        _arrow(644, 105, 682, 105),
        _box(684, 74, 196, 62, "prediction set", "holds y with prob. ≥ 1−α"),
    ]
    return svg("".join(parts), 890, 215, "Overview of federated conformal prediction", head=STYLE)


def two_clients(setup: Setup) -> str:  # noqa: ARG001
    """fig:appendix-compute-q-aht: seven and five scores at alpha 0.3, and the tenth smallest of all."""
    total = sum(map(len, CLIENTS)) + len(CLIENTS)
    rank = math.ceil((10 - ALPHA_TENTHS) * total / 10)
    threshold = sorted(score for scores in CLIENTS for score in scores)[rank - 1]

    def x(score: float) -> float:
        return 110 + 600 * score

    caption = f"q = {threshold:g}: the {rank}th smallest of {total - len(CLIENTS)}, as ⌈0.7 (12 + 2)⌉ = {rank}"
    parts = [
        f'<line class="target" x1="{x(threshold):.1f}" x2="{x(threshold):.1f}" y1="16" y2="150"/>',
        f'<text x="{x(threshold):.1f}" y="166" text-anchor="middle">{caption}</text>',
    ]
    for k, scores in enumerate(CLIENTS):
        y = 48 + 60 * k
        below = sum(score <= threshold for score in scores)
        parts.append(f'<line class="grid" x1="{x(0)}" x2="{x(1)}" y1="{y}" y2="{y}"/>')
        parts.append(f'<text x="10" y="{y - 2}">client {k + 1}</text>')
        parts.append(f'<text x="10" y="{y + 13}">m = {below} of {len(scores)}</text>')
        for score in scores:
            colour = "f0" if score <= threshold else "f1"
            shape = f'<circle class="{colour}" cx="{x(score):.1f}" cy="{y}" r="6"/>'
            if score > threshold:
                shape = f'<rect class="{colour}" x="{x(score) - 5:.1f}" y="{y - 5}" width="10" height="10"/>'
            parts.append(shape)
    for i in range(6):
        tick = x(i / 5)
        parts.append(f'<text x="{tick}" y="190" text-anchor="middle">{i / 5:g}</text>')
    parts.append(f'<text x="{x(0.5)}" y="210" text-anchor="middle">score (low conforms)</text>')
    return svg("".join(parts), 760, 222, "The threshold of two clients at alpha 0.3", head=STYLE)


def _box(x: float, y: float, width: float, height: float, *lines: str) -> str:
    middle = x + width / 2
    start = y + height / 2 + 4 - 8 * (len(lines) - 1)
    weights = ["bold", *["normal"] * (len(lines) - 1)]
    text = "".join(
        f'<text x="{middle}" y="{start + 16 * i}" text-anchor="middle" style="font-weight: {weights[i]}">{line}</text>'
        for i, line in enumerate(lines)
    )
    return f'<rect class="box" x="{x}" y="{y}" width="{width}" height="{height}" rx="8"/>{text}'


def _arrow(x0: float, y0: float, x1: float, y1: float) -> str:
    length = math.hypot(x1 - x0, y1 - y0)
    dx, dy = (x1 - x0) / length, (y1 - y0) / length
    left, right = (x1 - 8 * dx - 4 * dy, y1 - 8 * dy + 4 * dx), (x1 - 8 * dx + 4 * dy, y1 - 8 * dy - 4 * dx)
    head = (
        f'<polygon fill="currentColor" points="{x1},{y1} {left[0]:.1f},{left[1]:.1f} {right[0]:.1f},{right[1]:.1f}"/>'
    )
    return f'<line stroke="currentColor" x1="{x0}" y1="{y0}" x2="{x1}" y2="{y1}"/>{head}'
