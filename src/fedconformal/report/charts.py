"""The report's charts."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import NamedTuple

from fedconformal._base.arrays import ALPHA_UNIT
from fedconformal.calibration.curve import PromiseCurve
from fedconformal.evaluation import Evaluation, Group, IntervalGroup, Reliability, Selective
from fedconformal.report.bars import ROW, Bar, Bars, name_space
from fedconformal.report.html import shortened
from fedconformal.report.plot import Plot, percent, round_numbers, svg
from fedconformal.report.slider import Slider

WIDTH = 440
RIGHT = 20
LONGEST = 18
"""Letters of a name that are drawn; all of it is in the tooltip and in the numbers below."""
MAX_BARS = 16
MAX_GROUPS = 40
"""Of more groups, those with the lowest coverage are drawn."""


class Dot(NamedTuple):
    """A group's value and its 95% interval, if there is one."""

    name: str
    value: float
    low: float | None
    high: float | None
    label: str


def coverage_chart(groups: Sequence[Group | IntervalGroup], target: float) -> str:
    """Draw the coverage of each group as a dot on its 95% interval, with the target as a line."""
    if len(groups) > MAX_GROUPS:
        groups = sorted(groups, key=lambda group: group.coverage)[:MAX_GROUPS]
    low = min(0.9 * target, *(group.coverage if group.low is None else group.low for group in groups))
    low = max(0.0, math.floor(low * 20) / 20)
    dots = [
        Dot(
            group.name,
            group.coverage,
            group.low,
            group.high,
            f"{group.name}: {group.coverage:.3f} ({group.interval}), {group.rows} rows",
        )
        for group in groups
    ]
    title = f"Coverage of {len(groups)} groups against the target {target:g}"
    return dots_chart(dots, target, (low, 1.0), "coverage", title)


def dots_chart(
    dots: Sequence[Dot],
    target: float,
    span: tuple[float, float],
    of: str,
    title: str,
    text: Callable[[float], str] = percent,
) -> str:
    """Draw each group as a dot on its interval, one below the other, with the target as a line."""
    left = name_space([shortened(dot.name, LONGEST) for dot in dots])

    def x(share: float) -> float:
        return left + (share - span[0]) / (span[1] - span[0]) * (WIDTH - left - RIGHT)

    bottom = ROW * len(dots) + 8
    parts = [f'<text x="{(left + WIDTH - RIGHT) / 2}" y="{bottom + 36}" text-anchor="middle">{of}</text>']
    for value in round_numbers(*span):
        parts.append(f'<line class="grid" x1="{x(value):.1f}" x2="{x(value):.1f}" y1="0" y2="{bottom}"/>')
        parts.append(f'<text x="{x(value):.1f}" y="{bottom + 17}" text-anchor="middle">{text(value)}</text>')
    parts.append(f'<line class="target" x1="{x(target):.1f}" x2="{x(target):.1f}" y1="0" y2="{bottom}"/>')
    for i, dot in enumerate(dots):
        y = ROW * i + ROW / 2 + 4
        line = ""
        if dot.low is not None and dot.high is not None:
            ends = f'x1="{x(dot.low):.1f}" x2="{x(dot.high):.1f}"'
            line = f'<line class="interval s0" {ends} y1="{y}" y2="{y}"/>'
        parts.append(
            f"<g><title>{escape(dot.label)}</title>"
            f'<text x="{left - 10:.0f}" y="{y + 4}" text-anchor="end">{escape(shortened(dot.name, LONGEST))}</text>'
            f'{line}<circle class="f0" cx="{x(dot.value):.1f}" cy="{y}" r="4.5"/></g>'
        )
    return svg("".join(parts), WIDTH, bottom + 44, title)


def size_chart(evaluation: Evaluation) -> str:
    """Draw how often each set size occurs; many sizes are drawn in classes."""
    last = max(size for size, count in enumerate(evaluation.size_histogram) if count)
    bars = [(str(size), count) for size, count in enumerate(evaluation.size_histogram[: last + 1])]
    if len(bars) > MAX_BARS:
        bars = [(group.name, group.rows) for group in evaluation.by_size]
    else:
        bars = bars[next(size for size, (_, count) in enumerate(bars) if count) :]
    total = sum(count for _, count in bars)
    drawn = [
        Bar(f"{name} label{'' if name == '1' else 's'}", count, f"{count} ({count / total:.1%})")
        for name, count in bars
    ]
    return Bars(title="How many rows have sets of each size", bars=drawn).svg()


def alpha_chart(found: Slider) -> tuple[str, list[tuple[float, float]]]:
    """Draw the mean size against alpha with a dot at the certified one; also return where the dot goes at each."""
    points = [(step.alpha, step.size or 0.0) for step in found.steps]
    plot = Plot(
        title="Mean set size against alpha",
        x=(0.0, 0.5),
        y=(0.0, max(1.0, *(size for _, size in points)) * 1.05),
        x_label="alpha: how often the truth may be missed",
        y_label="labels a set",
        height=230,
    )
    plot.line(points, "")
    places = [plot.at(*point) for point in points]
    x, y = places[found.certified]
    plot.raw(f'<circle id="at-alpha" class="f1" cx="{x:.1f}" cy="{y:.1f}" r="6"/>')
    return plot.svg(), [(round(x, 1), round(y, 1)) for x, y in places]


def promise_chart(curve: PromiseCurve, threshold: float, target: float) -> str:
    """Draw promised coverage against the threshold, as the step function it is."""
    steps = [
        (q, promised / ALPHA_UNIT) for q, promised in zip(curve.thresholds, curve.promised, strict=True) if promised
    ]
    low, high = (float(steps[0][0]), float(steps[-1][0])) if steps else (0.0, 1.0)
    plot = Plot(
        title="Promised coverage against the threshold",
        x=(low, high if high > low else low + 1.0),
        y=(0.0, 1.0),
        x_label="threshold of the score",
        y_label="promised coverage",
        y_text=percent,
    )
    plot.line([(low, 0.0), *steps], "promised", step=True)
    plot.target(target, "wanted")
    if threshold < math.inf:
        plot.dots([(threshold, target)], "chosen")
    return plot.svg()


def reliability_plot(
    found: Mapping[str, Reliability], *, title: str = "Accuracy against confidence", ideal: str = "as sure as right"
) -> Plot:
    """Draw accuracy against confidence, a line for each name, and the diagonal on which both agree."""
    plot = Plot(
        title=title,
        x=(0.0, 1.0),
        y=(0.0, 1.0),
        x_label="confidence in the top label",
        y_label="accuracy",
        x_text=percent,
        y_text=percent,
    )
    plot.diagonal(ideal)
    for name, measured in found.items():
        plot.line([(one.confidence, one.accuracy) for one in measured.bins], name, markers=True)
    return plot


def selective_chart(found: Selective) -> str:
    """Draw accuracy against the share of rows that are answered."""
    lowest = min(one.accuracy for one in found.limits)
    plot = Plot(
        title="Accuracy when the largest sets are left out",
        x=(0.0, 1.0),
        y=(max(0.0, math.floor(lowest * 10 - 1e-9) / 10), 1.0),
        x_label="rows answered",
        y_label="accuracy on them",
        x_text=percent,
        y_text=percent,
    )
    plot.line([(one.kept, one.accuracy) for one in found.limits], "", markers=len(found.limits) <= 20)
    return plot.svg()
