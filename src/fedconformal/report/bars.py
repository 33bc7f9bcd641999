"""Horizontal bars, one below the other, each with its name on the left and its number on the right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import NamedTuple

from fedconformal.report.plot import LEGEND_ROW, MOST_SERIES, Chart

ROW = 24
LETTER = 7.4
"""The width of a letter on a phone, where it is largest."""
TEXT = 112
"""The space for the numbers."""


def name_space(names: Sequence[str]) -> float:
    """Return the space that the names on the left need."""
    return max(72.0, 22 + LETTER * max(map(len, names)))


class Bar(NamedTuple):
    """A bar's name, its value, the text on its right, and the group that gives its colour."""

    name: str
    value: float
    text: str
    group: str = ""


@dataclass(kw_only=True)
class Bars(Chart):
    """A chart of bars; groups with names have a legend.

    >>> chart = Bars(title="Sizes", bars=[Bar("1 label", 3, "3 (75%)"), Bar("2 labels", 1, "1 (25%)")])
    >>> chart.svg().count("<rect"), chart.full_height
    (2, 56)
    """

    bars: Sequence[Bar]

    @property
    def groups(self) -> list[str]:
        """The groups in the order in which they come."""
        return list(dict.fromkeys(bar.group for bar in self.bars))

    @property
    def full_height(self) -> float:
        """The height with the legend below."""
        return ROW * len(self.bars) + 8 + (LEGEND_ROW + 6 if any(self.groups) else 0)

    def inside(self) -> str:
        """Write the bars, and the legend if groups have names."""
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
