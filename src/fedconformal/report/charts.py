"""Charts as SVG: axes with round numbers, lines, dots, bars and a legend.

SVG is written directly, without a charting library: a page has only some ten kilobytes, its charts need no script and
share one style for light and dark mode, and there is no dependency. The colours are those of Okabe and Ito, "Color
universal design", 2008; every series also has its own dash pattern or marker.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import NamedTuple

from fedconformal.evaluation.coverage import CoverageGroup
from fedconformal.evaluation.losses import LossGroup

WIDTH, HEIGHT = 440, 280
LEFT, RIGHT, TOP, BOTTOM = 56, 20, 12, 44
LEGEND_ROW, ROW = 18, 24
LETTER, NUMBERS = 7.4, 112
"""Maximum width of a letter (on a phone), and space for numbers next to bars."""
LONGEST = 18
"""Maximum length of a drawn name; the table of numbers has the full name."""
MOST_SERIES = 6

STYLE = """
svg.chart { --s0: #0072b2; --s1: #d55e00; --s2: #009e73; --s3: #b5629b; --s4: #b07d00; --s5: #4a9bc9; --rule: #8885;
  max-width: 100%; }
@media (prefers-color-scheme: dark) { svg.chart { --s0: #56b4e9; --s1: #f08a4b; --s2: #2fc79a; --s3: #e3a0c8;
  --s4: #f0c040; --s5: #9ad0f0; } }
svg.chart text { font: 12px system-ui, sans-serif; fill: currentColor; }
.chart .grid { stroke: var(--rule); stroke-width: 1; } .chart .target { stroke: currentColor; stroke-width: 1.5;
  stroke-dasharray: 5 4; opacity: .8; }
.chart path, .chart .interval { fill: none; stroke-width: 2; }
.chart .ring { fill: none; stroke-width: 2; }
svg.chart .heading { font-weight: 600; font-size: 13px; }
"""
COLOURS = "".join(
    f".chart .s{i} {{ stroke: var(--s{i}); }} .chart .f{i} {{ fill: var(--s{i}); }} "
    f".chart path.s{i} {{ stroke-dasharray: {dash}; }}\n"
    for i, dash in enumerate(("none", "7 3", "2 3", "9 3 2 3", "4 2", "12 4"))
)
CHART_STYLE = STYLE + COLOURS
Point = tuple[float, float]


def percent(value: float) -> str:
    """Format a share as a percentage."""
    return f"{100 * value:.4g}%"


@dataclass(kw_only=True)
class Chart(ABC):
    """Base class of charts, with a title and a size."""

    title: str
    width: float = WIDTH

    @property
    @abstractmethod
    def full_height(self) -> float:
        """The height with the legend below."""

    @abstractmethod
    def inside(self) -> str:
        """Return the SVG elements of the chart, without the outer element."""

    def svg(self) -> str:
        """Return the chart as an SVG element for a page with the style."""
        return svg(self.inside(), self.width, self.full_height, self.title)


@dataclass(kw_only=True)
class Plot(Chart):
    """A chart with two numeric axes; series are added in sequence before it is rendered."""

    x: Point
    y: Point
    x_label: str
    y_label: str
    height: float = HEIGHT
    x_text: Callable[[float], str] = "{:.6g}".format
    y_text: Callable[[float], str] = "{:.6g}".format
    _parts: list[str] = field(default_factory=list)
    _series: dict[str, int] = field(default_factory=dict)
    _keys: list[tuple[str, str]] = field(default_factory=list)

    def at(self, x: float, y: float) -> Point:
        """Convert data coordinates to page coordinates."""
        across = (x - self.x[0]) / ((self.x[1] - self.x[0]) or 1)
        up = (y - self.y[0]) / ((self.y[1] - self.y[0]) or 1)
        return LEFT + across * (self.width - LEFT - RIGHT), self.height - BOTTOM - up * (self.height - BOTTOM - TOP)

    def line(self, points: Iterable[Point], name: str) -> None:
        """Draw a line through points, or a dash through a single one."""
        i = self._number(name)
        path = "L".join(f"{x:.1f},{y:.1f}" for x, y in (self.at(*point) for point in points))
        if path:
            self._parts.append(f'<path class="s{i}" d="M{path}{"" if "L" in path else "m-3,0h6"}"/>')
            self.key(name, f'<path class="s{i}" d="M0,0H22"/>')

    def target(self, y: float, name: str) -> None:
        """Draw a dashed horizontal line."""
        self.dashed((self.x[0], y), (self.x[1], y), name)

    def dashed(self, start: Point, end: Point, name: str) -> None:
        """Draw a dashed line between two points."""
        (x0, y0), (x1, y1) = self.at(*start), self.at(*end)
        self._parts.append(f'<line class="target" x1="{x0:.1f}" x2="{x1:.1f}" y1="{y0:.1f}" y2="{y1:.1f}"/>')
        self.key(name, '<line class="target" x1="0" x2="22" y1="0" y2="0"/>')

    def band(self, lower: Iterable[Point], upper: Iterable[Point], name: str) -> None:
        """Fill the area between two lines."""
        around = [self.at(*point) for point in [*upper, *reversed(list(lower))]]
        self._parts.append(f'<path class="band" d="M{" ".join(f"{x:.1f},{y:.1f}" for x, y in around)}Z"/>')
        self.key(name, '<path class="band" d="M0-5H22V5H0Z"/>')

    def inside(self) -> str:
        return "".join([*self._frame(), *self._parts, self._legend()[0]])

    @property
    def full_height(self) -> float:
        rows = self._legend()[1]
        return self.height + LEGEND_ROW * rows + (6 if rows else 0)

    def _frame(self) -> Iterable[str]:
        bottom, right = self.height - BOTTOM, self.width - RIGHT
        for value, text in self._x_ticks():
            x, _ = self.at(value, self.y[0])
            yield f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{bottom}"/>'
            yield f'<text x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">{escape(text)}</text>'
        for value in round_numbers(*self.y):
            _, y = self.at(self.x[0], value)
            yield f'<line class="grid" x1="{LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>'
            yield f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{escape(self.y_text(value))}</text>'
        yield f'<text x="{(LEFT + right) / 2}" y="{self.height - 8}" text-anchor="middle">{escape(self.x_label)}</text>'
        turned = f"translate(13 {(TOP + bottom) / 2:.0f}) rotate(-90)"
        yield f'<text transform="{turned}" text-anchor="middle">{escape(self.y_label)}</text>'

    def _x_ticks(self) -> list[tuple[float, str]]:
        return [(value, self.x_text(value)) for value in round_numbers(*self.x)]

    def _number(self, name: str) -> int:
        return self._series.setdefault(name, len(self._series) % MOST_SERIES)

    def key(self, name: str, drawing: str) -> None:
        """Add an entry to the legend, once per name."""
        if name and name not in dict(self._keys):
            self._keys.append((name, drawing))

    def _legend(self) -> tuple[str, int]:
        return _legend(self._keys, LEFT, self.height + 9, self.width)


def _legend(keys: Sequence[tuple[str, str]], left: float, top: float, width: float) -> tuple[str, int]:
    """Return a legend in rows, and the number of rows."""
    parts, x, row = [], left, 0
    for name, drawing in keys:
        length = 50 + 6.4 * len(name)
        if x > left and x + length > width:
            x, row = left, row + 1
        place = f"translate({x:.0f} {top + LEGEND_ROW * row:g})"
        parts.append(f'<g transform="{place}">{drawing}<text x="28" y="4">{escape(name)}</text></g>')
        x += length
    return "".join(parts), (row + 1 if parts else 0)


class Bar(NamedTuple):
    """Name, value, label and group of a bar; the group determines its colour."""

    name: str
    value: float
    text: str
    group: str = ""


@dataclass(kw_only=True)
class Bars(Chart):
    """A bar chart; named groups have a legend."""

    bars: Sequence[Bar]

    @property
    def groups(self) -> list[str]:
        """The groups in order of appearance."""
        return list(dict.fromkeys(bar.group for bar in self.bars))

    @property
    def full_height(self) -> float:
        return ROW * len(self.bars) + 8 + (LEGEND_ROW + 6 if any(self.groups) else 0)

    def inside(self) -> str:
        left = name_space([bar.name for bar in self.bars])
        top = max(bar.value for bar in self.bars) or 1
        parts = []
        for i, bar in enumerate(self.bars):
            y, length = ROW * i + 4, bar.value / top * (self.width - left - NUMBERS)
            colour = self.groups.index(bar.group) % MOST_SERIES
            parts.append(
                f'<text x="{left - 10:.1f}" y="{y + 14}" text-anchor="end">{escape(bar.name)}</text>'
                f'<rect class="f{colour}" x="{left:.1f}" y="{y}" width="{length:.1f}" height="{ROW - 6}" rx="2"/>'
                f'<text x="{left + length + 8:.1f}" y="{y + 14}">{escape(bar.text)}</text>'
            )
        keys = [
            (group, f'<rect class="f{i % MOST_SERIES}" x="4" y="-6" width="14" height="10"/>')
            for i, group in enumerate(filter(None, self.groups))
        ]
        return "".join(parts) + _legend(keys, left, ROW * len(self.bars) + 18, self.width)[0]


def name_space(names: Sequence[str]) -> float:
    """Return the width of the names on the left."""
    return max(72.0, 22 + LETTER * max(map(len, names)))


def group_chart(
    groups: Sequence[CoverageGroup | LossGroup], target: float, span: Point, of: str, text: Callable[[float], str]
) -> str:
    """Draw the coverage or loss of each group as a dot on its 95% interval, with the target as a line."""
    left = name_space([shortened(group.name, LONGEST) for group in groups])

    def x(share: float) -> float:
        return left + (share - span[0]) / (span[1] - span[0]) * (WIDTH - left - RIGHT)

    bottom = ROW * len(groups) + 8
    parts = [f'<text x="{(left + WIDTH - RIGHT) / 2}" y="{bottom + 36}" text-anchor="middle">{of}</text>']
    for value in round_numbers(*span):
        parts.append(f'<line class="grid" x1="{x(value):.1f}" x2="{x(value):.1f}" y1="0" y2="{bottom}"/>')
        parts.append(f'<text x="{x(value):.1f}" y="{bottom + 17}" text-anchor="middle">{text(value)}</text>')
    parts.append(f'<line class="target" x1="{x(target):.1f}" x2="{x(target):.1f}" y1="0" y2="{bottom}"/>')
    for i, group in enumerate(groups):
        y = ROW * i + ROW / 2 + 4
        parts.append(
            f'<text x="{left - 10:.0f}" y="{y + 4}" text-anchor="end">{escape(shortened(group.name, LONGEST))}</text>'
            f'<line class="interval s0" x1="{x(group.low):.1f}" x2="{x(group.high):.1f}" y1="{y}" y2="{y}"/>'
            f'<circle class="f0" cx="{x(group.mean):.1f}" cy="{y}" r="4.5"/>'
        )
    title = f"{of.capitalize()} of {len(groups)} groups against {target:g}"
    return svg("".join(parts), WIDTH, bottom + 44, title)


def shortened(text: str, most: int) -> str:
    """Shorten a text in the middle: names often differ at the end only."""
    half = most // 2
    return text if len(text) <= most else f"{text[:half]}…{text[half + 1 - most :]}"


def svg(inside: str, width: float, height: float, title: str) -> str:
    """Return an SVG element with a title for screen readers."""
    start = f'<svg class="chart" viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{escape(title)}">'
    return f"{start}<title>{escape(title)}</title>{inside}</svg>"


def round_numbers(low: float, high: float) -> list[float]:
    """Return about five round numbers between low and high.

    >>> round_numbers(0.433, 0.945)
    [0.5, 0.6, 0.7, 0.8, 0.9]
    """
    power = 10.0 ** math.floor(math.log10((high - low) / 4))
    step = next(power * m for m in (1, 2, 5, 10) if (high - low) / (power * m) <= 6)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(i * step, 12) for i in range(first, last + 1)]
