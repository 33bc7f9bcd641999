"""The charts of a watch over time: coverage and evidence, large for all sites together and small for each."""

from __future__ import annotations

import math
from html import escape

import numpy as np

from fedconformal._base.arrays import Floats, Integers
from fedconformal.monitoring.history import SiteHistory
from fedconformal.monitoring.text import count, date
from fedconformal.report.html import shortened
from fedconformal.report.plot import percent
from fedconformal.report.time_plot import TimePlot, defined, power_of_ten, shares, thinned

POINTS = 120
"""Of a large chart."""
DOTS = 40
"""Windows of time whose own coverage is drawn."""
LEVEL = {"alarm": "bad", "in doubt": "caution", "holds": "good", "too early": ""}
WIDTH, COVERED, EVIDENCE, BETWEEN = 240, 64, 40, 6
"""Of a small chart, in which a unit is about a pixel: so whole numbers do."""
LEAST, MOST = -3.0, 4.0
"""Powers of ten between which evidence is drawn in a small chart."""
LONGEST = 26
PLAIN = 6
"""Evidence beyond ten to this power is written as a power."""


def coverage_plot(line: SiteHistory) -> str:
    """Draw coverage since the start with its interval, coverage in each window of time, and the promise."""
    at = thinned(line, POINTS)
    low, high = line.intervals(at)
    since = shares((line.known - line.misses)[at], line.known[at])
    days, lately = _windows(line, thinned(line, DOTS))
    seen = np.concatenate([since, lately, [1 - line.limit]])
    floor = max(0.0, math.floor(10 * float(np.nanmin(seen)) - 0.5) / 10)
    plot = _plot(line, "Coverage over time, with its interval and the promise", (floor, 1.0), "coverage")
    plot.y_text = percent
    bottom = np.maximum(low, floor)
    plot.band(defined(line.days[at], bottom), defined(line.days[at], high), "interval, at all times at once")
    plot.line(defined(line.days[at], since), "since the start")
    plot.dots(defined(days, lately), "in that time alone")
    plot.target(1 - line.limit, f"watched: {percent(round(1 - line.limit, 4))}")
    return plot.svg()


def evidence_plot(line: SiteHistory) -> str:
    """Draw evidence on a log scale with the line of the alarm."""
    at = thinned(line, POINTS)
    tens = line.log_e[at] / math.log(10)
    enough = -math.log10(line.false_alarm)
    low, high = min(-2.0, math.floor(tens.min())), max(2.0, math.ceil(enough + 0.3), math.ceil(tens.max()))
    plot = _plot(line, "Evidence against the promise over time, on a log scale", (low, high), "evidence (e-value)")
    plot.y_text = power_of_ten
    plot.line(defined(line.days[at], tens), "mean over sites")
    plot.target(enough, f"alarm: {1 / line.false_alarm:,.4g}")
    return plot.svg()


def waiting_plot(line: SiteHistory) -> str:
    """Draw the share of rows that have no outcome yet."""
    at = thinned(line, POINTS)
    plot = _plot(line, "Share of rows still without an outcome", (0.0, 1.0), "without outcome")
    plot.y_text = percent
    plot.line(defined(line.days[at], shares(line.waiting[at], (line.known + line.waiting)[at])), "")
    return plot.svg()


def size_plot(line: SiteHistory) -> str:
    """Draw the mean size of sets: since the start, and in each window of time."""
    at = thinned(line, POINTS)
    rows = line.known + line.waiting
    since = shares(line.sizes[at], rows[at])
    places = thinned(line, DOTS)
    lately = shares(np.diff(line.sizes[places]), np.diff(rows[places]))
    top = float(np.nanmax(np.concatenate([since, lately, [1.0]])))
    plot = _plot(line, "Mean size of sets over time", (0.0, 1.1 * top), "labels a set, or width")
    plot.line(defined(line.days[at], since), "since the start")
    plot.dots(defined(line.days[places[1:]], lately), "in that time alone")
    return plot.svg()


def _plot(line: SiteHistory, title: str, y: tuple[float, float], y_label: str) -> TimePlot:
    x = (float(line.days[0]), float(line.days[-1]))
    return TimePlot(title=title, x=x, y=y, x_label="day (UTC)", y_label=y_label, height=240)


def _windows(line: SiteHistory, places: Integers) -> tuple[Integers, Floats]:
    """Return the coverage from each of these places to the next, by its last day."""
    hits = line.known - line.misses
    return line.days[places[1:]], shares(np.diff(hits[places]), np.diff(line.known[places]))


def small(line: SiteHistory, span: tuple[int, int], floor: float, points: int, state: str) -> str:
    """Draw a site, or a group, with few bytes: coverage above, evidence below, on the same scales as all others."""
    at = thinned(line, points)
    x = np.rint((line.days[at] - span[0]) / (span[1] - span[0]) * WIDTH)

    def up(share: Floats | float) -> Floats:
        return np.rint((1 - (np.clip(share, floor, 1.0) - floor) / (1 - floor)) * COVERED)

    def power(tens: Floats | float) -> Floats:
        return np.rint(COVERED + BETWEEN + (MOST - np.clip(tens, LEAST, MOST)) / (MOST - LEAST) * EVIDENCE)

    low, high = line.intervals(at)
    since = shares((line.known - line.misses)[at], line.known[at])
    days, lately = _windows(line, at)
    recent = np.rint((days - span[0]) / (span[1] - span[0]) * WIDTH)
    band = _path(np.append(x, x[::-1]), np.append(up(high), up(low)[::-1]))
    promise, alarm = up(1 - line.limit), power(-math.log10(line.false_alarm))
    drawn = (
        f'<path class="band" d="{band}z"/>'
        f'<path class="p" d="M0 {promise:.0f}h{WIDTH}M0 {alarm:.0f}h{WIDTH}"/>'
        f'<path class="r" d="{_path(recent, up(lately))}"/>'
        f'<path class="c" d="{_path(x, up(since))}"/>'
        f'<path class="e" d="{_path(x, power(line.log_e[at] / math.log(10)))}"/>'
    )
    name = escape(shortened(line.site, LONGEST))
    whole = f' title="{escape(line.site)}"' if len(line.site) > LONGEST else ""
    badge = f'<span class="badge {LEVEL[state]}">{state}</span>'
    box = f"0 0 {WIDTH} {COVERED + BETWEEN + EVIDENCE}"
    return (
        f"<figure><figcaption><b{whole}>{name}</b>{badge}</figcaption>"
        f'<svg class="s" viewBox="{box}" role="img" aria-label="{escape(_said(line, state))}">{drawn}</svg>'
        f"<p>{escape(numbers(line))}</p></figure>"
    )


def numbers(line: SiteHistory) -> str:
    """Say in one line how a site does."""
    if line.coverage is None:
        return f"no outcome yet, {count(line.rows, 'row')}"
    wait = line.waiting[-1] / line.rows
    return f"{line.coverage:.1%} of {int(line.known[-1]):,}, {wait:.0%} wait, evidence\u00a0{e_value(line.now)}"


def e_value(log_e: float) -> str:
    """Write an e-value, from its logarithm.

    >>> e_value(0.0), e_value(5.0), e_value(-3.0), e_value(2000.0)
    ('1', '148', '0.05', '10⁸⁶⁸')
    """
    tens = log_e / math.log(10)
    if not -PLAIN < tens < PLAIN:
        return power_of_ten(math.floor(tens))
    value = math.exp(log_e)
    return f"{value:.2g}" if tens < 0 else f"{value:.3g}" if tens < 2 else f"{value:,.0f}"


def _said(line: SiteHistory, state: str) -> str:
    since = f" since {date(line.alarm)}" if line.alarm is not None else ""
    return f"{shortened(line.site, LONGEST)}: {state}{since}; coverage above, evidence below"


def _path(x: Floats, y: Floats) -> str:
    """Write a path of whole numbers, each relative to the one before; a value that is not defined is left out."""
    kept = ~np.isnan(y)
    if not kept.any():
        return ""
    x, y = x[kept].astype(int), y[kept].astype(int)
    steps = zip(np.diff(x).tolist(), np.diff(y).tolist(), strict=True)
    return f"M{x[0]} {y[0]}" + "".join(f"l{dx}{dy:+d}" if dy < 0 else f"l{dx} {dy}" for dx, dy in steps if dx or dy)
