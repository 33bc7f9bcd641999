"""Extensions of the report's charts for the paper's figures: markers, error bars, categorical axes, PDF."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from fedconformal._base.arrays import Floats
from fedconformal.errors import InputError
from fedconformal.report import charts
from fedconformal.report.charts import CHART_STYLE, Chart, Point

HEADING_ROW, HEADING_LETTER = 17, 7.2
MARKERS = ("dot", "square", "triangle", "diamond", "dot", "square")
OUTLINES = {"triangle": ((0, -5), (4.5, 3.5), (-4.5, 3.5)), "diamond": ((0, -5), (5, 0), (0, 5), (-5, 0))}

ALONE = f"""<style>{CHART_STYLE}
svg.chart {{ color: #222; background: #fff; }} svg.chart .heading {{ font-size: 12px; }}
@media (prefers-color-scheme: dark) {{ svg.chart {{ color: #ddd; background: #16181c; }} }}
</style>"""
"""The style of a standalone chart."""


@dataclass(kw_only=True)
class Plot(charts.Plot):
    """A chart with two axes; the first may be logarithmic, or categorical with words at 0, 1, 2, ..."""

    log_x: bool = False
    x_names: Sequence[str] | None = None

    def at(self, x: float, y: float) -> Point:
        """Convert data coordinates to page coordinates."""
        left, right = self.x
        if not self.log_x:
            return super().at(x, y)
        across = (math.log10(max(x, left)) - math.log10(left)) / ((math.log10(right) - math.log10(left)) or 1)
        return super().at(left + across * (right - left), y)

    def line(self, points: Iterable[Point], name: str, *, markers: bool = False) -> None:
        """Draw a line through points, with markers at them on request."""
        placed, i = list(points), self._number(name)
        if markers and placed:
            self.key(name, f'<path class="s{i}" d="M0,0H22"/>' + _marker(i, 11, 0))
        super().line(placed, name)
        self._parts += [_marker(i, *self.at(*point)) for point in placed * markers]

    def dots(self, points: Iterable[Point], name: str) -> None:
        """Draw markers at points."""
        i = self._number(name)
        self._parts += [_marker(i, *self.at(*point)) for point in points]
        self.key(name, _marker(i, 11, 0))

    def diagonal(self, name: str) -> None:
        """Draw the dashed line x = y."""
        low, high = max(self.x[0], self.y[0]), min(self.x[1], self.y[1])
        self.dashed((low, low), (high, high), name)

    def bars(self, boxes: Iterable[tuple[float, float, float]], name: str) -> None:
        """Draw bars from zero, each as (left, right, height)."""
        i = self._number(name)
        for left, right, top in boxes:
            (x0, y0), (x1, y1) = self.at(left, max(0.0, self.y[0])), self.at(right, top)
            self._parts.append(
                f'<rect class="f{i}" x="{x0:.1f}" y="{min(y0, y1):.1f}" width="{max(0.5, x1 - x0 - 0.8):.1f}" '
                f'height="{abs(y0 - y1):.1f}"/>'
            )
        self.key(name, f'<rect class="f{i}" x="4" y="-5" width="14" height="10"/>')

    def rings(self, points: Iterable[Point], name: str, *, like: str) -> None:
        """Draw hollow markers in the colour of another series, such as the paper's values beside ours."""
        i = self._number(like)
        self._parts += [_ring(i, *self.at(*point)) for point in points]
        self.key(name, _ring(i, 11, 0))

    def interval(self, at: float, low: float, high: float, name: str) -> None:
        """Draw a vertical interval in the colour of a series."""
        (x, y0), (_, y1) = self.at(at, low), self.at(at, high)
        line = f'class="interval s{self._number(name)}" x1="{x:.1f}" x2="{x:.1f}" y1="{y0:.1f}" y2="{y1:.1f}"'
        self._parts.append(f"<line {line}/>")

    def bands(self, places: Sequence[float], trials: Floats, name: str) -> None:
        """Draw the mean over trials (rows) at each place (columns), with bars of one standard deviation either way."""
        means, deviations = trials.mean(axis=0).tolist(), trials.std(axis=0, ddof=1).tolist()
        self.line(list(zip(places, means, strict=True)), name, markers=True)
        for place, mean, deviation in zip(places, means, deviations, strict=True):
            self.interval(place, max(self.y[0], mean - deviation), min(self.y[1], mean + deviation), name)

    def _frame(self) -> Iterable[str]:
        """Return the frame without vertical grid lines at words."""
        words = [self.at(place, 0)[0] for place in range(len(self.x_names or ()))]
        upward = tuple(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}"' for x in words)
        return (part for part in super()._frame() if not part.startswith(upward))

    def _x_ticks(self) -> list[tuple[float, str]]:
        if self.x_names is not None:
            return list(enumerate(self.x_names))
        if not self.log_x:
            return super()._x_ticks()
        low, high = math.ceil(math.log10(self.x[0]) - 1e-9), math.floor(math.log10(self.x[1]) + 1e-9)
        return [(10.0**power, f"{10.0**power:g}") for power in range(low, high + 1)]


def svg(inside: str, width: float, height: float, title: str, *, head: str) -> str:
    """Return a standalone SVG of a chart, with its style."""
    size = f'viewBox="0 0 {width:g} {height:g}"'
    alone = f'{size} xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}"'
    return charts.svg(inside, width, height, title).replace(size, alone, 1).replace("<title>", f"{head}<title>", 1)


def figure(*charts: Chart, name: str = "") -> str:
    """Return a standalone SVG of charts side by side, each with its title; the name is for screen readers.

    >>> plots = [Plot(title=title, x=(0, 1), y=(0, 1), x_label="alpha", y_label="size") for title in ("One", "Two")]
    >>> figure(*plots, name="Both").count('class="heading"')
    2
    """
    headings = [textwrap.wrap(chart.title, int((chart.width - 8) / HEADING_LETTER)) for chart in charts]
    top = HEADING_ROW * max(map(len, headings)) + 12
    parts, x = [], 0.0
    for chart, lines in zip(charts, headings, strict=True):
        heading = "".join(
            f'<text class="heading" x="8" y="{HEADING_ROW * (i + 1) - top}">{escape(line)}</text>'
            for i, line in enumerate(lines)
        )
        parts.append(f'<g transform="translate({x:g} {top})">{heading}{chart.inside()}</g>')
        x += chart.width
    height = top + max(chart.full_height for chart in charts)
    return svg("".join(parts), x, height, name or charts[0].title, head=ALONE)


def to_pdf(drawn: str) -> bytes:
    """Convert a figure to PDF in its light colours; CairoSVG knows neither CSS variables nor media queries."""
    try:
        import cairosvg
    except (ImportError, OSError):
        raise InputError("PDF needs CairoSVG and the cairo library: pip install 'fedconformal-paper[pdf]'") from None
    plain = re.sub(r"@media[^{]*\{(?:[^{}]*\{[^{}]*\})*[^{}]*\}", "", drawn)
    colours = dict(re.findall(r"(--\w+): *([^;]+);", plain))
    plain = re.sub(r"var\((--\w+)\)", lambda found: colours[found[1]], plain)
    plain = plain.replace("currentColor", "#222").replace("#8885", "#ccc").replace("system-ui, ", "")
    pdf: bytes = cairosvg.svg2pdf(plain.encode())
    return pdf


def _ring(i: int, x: float, y: float) -> str:
    """Draw a marker of a series, hollow and a little larger."""
    kind = f'class="ring s{i}"'
    if MARKERS[i] == "dot":
        return f'<circle {kind} cx="{x:.1f}" cy="{y:.1f}" r="5"/>'
    if MARKERS[i] == "square":
        return f'<rect {kind} x="{x - 4.5:.1f}" y="{y - 4.5:.1f}" width="9" height="9"/>'
    points = " ".join(f"{x + 1.3 * dx:.1f},{y + 1.3 * dy:.1f}" for dx, dy in OUTLINES[MARKERS[i]])
    return f'<polygon {kind} points="{points}"/>'


def _marker(i: int, x: float, y: float) -> str:
    shape = MARKERS[i]
    if shape == "dot":
        return f'<circle class="f{i}" cx="{x:.1f}" cy="{y:.1f}" r="4"/>'
    if shape == "square":
        return f'<rect class="f{i}" x="{x - 3.5:.1f}" y="{y - 3.5:.1f}" width="7" height="7"/>'
    points = " ".join(f"{x + dx:.1f},{y + dy:.1f}" for dx, dy in OUTLINES[shape])
    return f'<polygon class="f{i}" points="{points}"/>'
