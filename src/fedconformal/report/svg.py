"""Three small charts as inline SVG; colours come from the page's style, so light and dark both work."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape

from fedconformal.curve import PromiseCurve
from fedconformal.evaluation import Evaluation, Group
from fedconformal.validation import ALPHA_UNIT

WIDTH = 640
LEFT, RIGHT = 110, 24
ROW = 26
MAX_BARS = 20


def coverage_chart(groups: Sequence[Group], target: float) -> str:
    """Draw the coverage of each group as a dot on its 95% interval, with the target as a line."""
    low = min(0.9 * target, *(group.low for group in groups))
    low = max(0.0, math.floor(low * 20) / 20)

    def x(share: float) -> float:
        return LEFT + (share - low) / (1 - low) * (WIDTH - LEFT - RIGHT)

    bottom = ROW * len(groups) + 8
    parts = _ticks(low, 1.0, x, bottom, "coverage")
    parts.append(f'<line class="target" x1="{x(target):.1f}" x2="{x(target):.1f}" y1="0" y2="{bottom}"/>')
    for i, group in enumerate(groups):
        y = ROW * i + ROW / 2 + 4
        label = f"{group.name}: {group.coverage:.3f} ({group.low:.3f} to {group.high:.3f}), {group.rows} rows"
        parts.append(
            f"<g><title>{escape(label)}</title>"
            f'<text x="{LEFT - 10}" y="{y + 4}" text-anchor="end">{escape(group.name[:14])}</text>'
            f'<line class="interval" x1="{x(group.low):.1f}" x2="{x(group.high):.1f}" y1="{y}" y2="{y}"/>'
            f'<circle cx="{x(group.coverage):.1f}" cy="{y}" r="5"/></g>'
        )
    return _svg(parts, bottom + 44, f"Coverage of {len(groups)} groups against the target {target:g}")


def size_chart(evaluation: Evaluation) -> str:
    """Draw how often each set size occurs; many sizes are drawn in classes."""
    last = max(size for size, count in enumerate(evaluation.size_histogram) if count)
    bars = [(str(size), count) for size, count in enumerate(evaluation.size_histogram[: last + 1])]
    if len(bars) > MAX_BARS:
        bars = [(group.name, group.rows) for group in evaluation.by_size]
    total, top = sum(count for _, count in bars), max(count for _, count in bars)
    parts = []
    for i, (name, count) in enumerate(bars):
        y = ROW * i + 4
        length = count / top * (WIDTH - LEFT - RIGHT - 90)
        parts.append(
            f'<text x="{LEFT - 10}" y="{y + 15}" text-anchor="end">{name} label{"" if name == "1" else "s"}</text>'
            f'<rect x="{LEFT}" y="{y}" width="{length:.1f}" height="{ROW - 8}" rx="2"/>'
            f'<text x="{LEFT + length + 8:.1f}" y="{y + 15}">{count} ({count / total:.1%})</text>'
        )
    return _svg(parts, ROW * len(bars) + 8, "How many rows have sets of each size")


def promise_chart(curve: PromiseCurve, threshold: float, target: float) -> str:
    """Draw promised coverage against the threshold, as the step function it is."""
    height = 240
    low, high = float(curve.thresholds[0]), float(curve.thresholds[-1])
    span = (high - low) or 1.0

    def x(q: float) -> float:
        return LEFT + (q - low) / span * (WIDTH - LEFT - RIGHT)

    def y(coverage: float) -> float:
        return 8 + (1 - coverage) * (height - 16)

    parts = _ticks(low, low + span, x, height, "threshold")
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        parts.append(f'<text x="{LEFT - 10}" y="{y(share) + 4:.1f}" text-anchor="end">{share:g}</text>')
    path = f"M{x(low):.1f},{y(0):.1f}"
    for q, promised in zip(curve.thresholds.tolist(), curve.promised.tolist(), strict=True):
        path += f"H{x(q):.1f}V{y(promised / ALPHA_UNIT):.1f}"
    parts.append(f'<path d="{path}"/>')
    parts.append(
        f'<text x="{-height / 2}" y="58" transform="rotate(-90)" text-anchor="middle">promised coverage</text>'
    )
    parts.append(f'<line class="target" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(target):.1f}" y2="{y(target):.1f}"/>')
    if threshold < math.inf:
        parts.append(f'<circle cx="{x(threshold):.1f}" cy="{y(target):.1f}" r="5"/>')
    return _svg(parts, height + 44, "Promised coverage against the threshold")


def _ticks(low: float, high: float, x: Callable[[float], float], bottom: float, name: str) -> list[str]:
    parts = [f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{bottom + 38}" text-anchor="middle">{name}</text>']
    for value in round_numbers(low, high):
        parts.append(f'<line class="grid" x1="{x(value):.1f}" x2="{x(value):.1f}" y1="0" y2="{bottom}"/>')
        parts.append(f'<text x="{x(value):.1f}" y="{bottom + 18}" text-anchor="middle">{value:.6g}</text>')
    return parts


def round_numbers(low: float, high: float) -> list[float]:
    """List about five round numbers between low and high.

    >>> round_numbers(0.433, 0.945)
    [0.5, 0.6, 0.7, 0.8, 0.9]
    """
    power = 10.0 ** math.floor(math.log10((high - low) / 4))
    step = next(power * m for m in (1, 2, 5, 10) if (high - low) / (power * m) <= 6)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(i * step, 12) for i in range(first, last + 1)]


def _svg(parts: Sequence[str], height: float, title: str) -> str:
    inside = "".join(parts)
    return f'<svg viewBox="0 0 {WIDTH} {height:g}" role="img" aria-label="{escape(title)}">{inside}</svg>'
