"""Bars that lie, one below the other, each with its name before and its number behind it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import NamedTuple

from fedconformal.report.plot import LEGEND_ROW, MOST_SERIES, svg

ROW = 24
LETTER = 7.4
"""The width of a letter where it is largest, on a phone."""
TEXT = 112
"""What is kept free for the numbers."""


def name_space(names: Sequence[str]) -> float:
    """Return how much to keep free for the names before a chart's rows."""
    return max(72.0, 22 + LETTER * max(map(len, names)))


class Bar(NamedTuple):
    """A bar's name, its length in units of its own, what stands behind it, and the group that gives its colour."""

    name: str
    value: float
    text: str
    group: str = ""


@dataclass(frozen=True, kw_only=True)
class Bars:
    """A chart of bars; groups with names have a legend.

    >>> chart = Bars(title="Sizes", bars=[Bar("1 label", 3, "3 (75%)"), Bar("2 labels", 1, "1 (25%)")])
    >>> chart.svg().count("<rect"), chart.full_height
    (2, 56)
    """

    title: str
    bars: Sequence[Bar]
    width: float = 440

    @property
    def groups(self) -> list[str]:
        """The groups in the order in which they come."""
        return list(dict.fromkeys(bar.group for bar in self.bars))

    @property
    def full_height(self) -> float:
        """The height with the legend below."""
        return ROW * len(self.bars) + 8 + (LEGEND_ROW + 6 if any(self.groups) else 0)

    def svg(self) -> str:
        """Write the chart as part of a page, which has its style and says what it is."""
        return svg(self.inside(), self.width, self.full_height, self.title)

    def inside(self) -> str:
        """Write what is drawn, without the frame of a file."""
        left = name_space([bar.name for bar in self.bars])
        top = max(bar.value for bar in self.bars) or 1
        parts = []
        for i, bar in enumerate(self.bars):
            y, length = ROW * i + 4, bar.value / top * (self.width - left - TEXT)
            colour = self.groups.index(bar.group) % MOST_SERIES
            parts.append(
                f'<text x="{left - 10:.1f}" y="{y + 14}" text-anchor="end">{escape(bar.name)}</text>'
                f'<rect class="f{colour}" x="{left:.1f}" y="{y}" width="{length:.1f}" height="{ROW - 6}" rx="2"/>'
                f'<text x="{left + length + 8:.1f}" y="{y + 14}">{escape(bar.text)}</text>'
            )
        x, y = left, ROW * len(self.bars) + 18
        for i, group in enumerate(filter(None, self.groups)):
            key = f'<rect class="f{i % MOST_SERIES}" x="0" y="-6" width="14" height="10"/>'
            parts.append(f'<g transform="translate({x:.0f} {y})">{key}<text x="20" y="4">{escape(group)}</text></g>')
            x += 40 + LETTER * len(group)
        return "".join(parts)
