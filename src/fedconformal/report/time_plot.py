"""Charts over time: days along the axis, a band around a line, and few points however long it is."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date

import numpy as np

from fedconformal._base.arrays import Floats, Integers
from fedconformal.monitoring.history import SiteHistory
from fedconformal.monitoring.messages import EPOCH, day_of
from fedconformal.report.plot import Plot, Point, round_numbers

MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
SHORT, LONG = 70, 800
"""Days up to which days are written below the axis, and from which years are."""
POWERS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
PLAIN = 4


@dataclass(kw_only=True)
class TimePlot(Plot):
    """A plot whose x are days since 1970.

    >>> plot = TimePlot(title="Misses", x=(20743, 20773), y=(0, 1), x_label="", y_label="")
    >>> [text for _, text in plot._x_ticks()]
    ['19 Oct', '24 Oct', '29 Oct', '3 Nov', '8 Nov', '13 Nov']
    """

    def band(self, lower: Iterable[Point], upper: Iterable[Point], name: str) -> None:
        """Fill what is between two lines."""
        around = [self.at(*point) for point in [*upper, *reversed(list(lower))]]
        self.raw(f'<path class="band" d="M{" ".join(f"{x:.1f},{y:.1f}" for x, y in around)}Z"/>')
        self.key(name, '<path class="band" d="M0-5H22V5H0Z"/>')

    def _x_ticks(self) -> list[tuple[float, str]]:
        low, high = self.x
        if high - low <= SHORT:
            days = [math.floor(day) for day in round_numbers(low, high)]
            return [(day, f"{day_of(day).day} {MONTHS[day_of(day).month - 1]}") for day in dict.fromkeys(days)]
        every = max(1, round((high - low) / 30 / 6))
        months = [day for day in _months(low, high) if (12 * day.year + day.month - 1) % every == 0]
        with_year = high - low > LONG
        return [
            ((day - EPOCH).days, f"{MONTHS[day.month - 1]}{f' {day.year % 100:02}' if with_year else ''}")
            for day in months
        ]


def _months(low: float, high: float) -> list[date]:
    """List the first day of every month between two days."""
    first, last = (np.datetime64(int(day), "D").astype("datetime64[M]") for day in (math.ceil(low) - 1, high))
    found: list[date] = np.arange(first + 1, last + 1).astype("datetime64[D]").tolist()
    return found


def power_of_ten(value: float) -> str:
    """Write ten to this power.

    >>> [power_of_ten(value) for value in (-2, 0, 3, 12)]
    ['0.01', '1', '1,000', '10¹²']
    """
    if abs(value) <= PLAIN:
        return f"{10.0**value:,.10g}"
    return f"10{f'{value:g}'.translate(POWERS)}"


def thinned(line: SiteHistory, most: int) -> Integers:
    """Choose at most this many places of a line, evenly; the last, and that of the most evidence, are among them."""
    even = np.linspace(0, len(line.days) - 1, min(len(line.days), most - 1))
    return np.unique(np.append(even.round().astype(np.int64), int(np.argmax(line.log_e))))


def shares(part: Floats, whole: Floats) -> Floats:
    """Divide, with NaN where there is nothing to divide by."""
    found = np.full(len(part), np.nan)
    np.divide(part, whole, out=found, where=whole > 0)
    return found


def defined(days: Sequence[float] | Floats | Integers, values: Floats) -> list[Point]:
    """Pair days and values, without those that are not defined."""
    return [(float(x), float(y)) for x, y in zip(days, values, strict=True) if not math.isnan(y)]
