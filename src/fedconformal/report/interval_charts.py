"""Charts of intervals: each with the true value, the width against alpha, and what the distribution promises."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedconformal._base.arrays import Floats
from fedconformal.calibration.curve import EndCurves
from fedconformal.calibration.interval_predictor import IntervalPredictor
from fedconformal.errors import InfeasibleWarning
from fedconformal.evaluation import IntervalGroup
from fedconformal.report.bars import Bar, Bars
from fedconformal.report.charts import LONGEST, MAX_GROUPS
from fedconformal.report.html import shortened
from fedconformal.report.plot import Plot, percent

MOST_ROWS = 150
"""Of more rows, evenly spaced ones are drawn."""
ALPHAS = tuple(round(0.01 * i, 2) for i in range(1, 51))
LEVELS = tuple(round(0.05 * i, 2) for i in range(1, 20))
MOST_FOR_WIDTHS = 5000
MARGIN = 0.05


def intervals_chart(intervals: Floats, y: Floats) -> str:
    """Draw intervals from low to high, the true values in them, and those that are missed."""
    with np.errstate(invalid="ignore"):
        middle = intervals @ np.array([0.5, 0.5])
    middle = np.where(np.isfinite(middle), middle, y)
    order = np.argsort(middle, kind="stable")
    order = order[np.unique(np.linspace(0, len(order) - 1, min(len(order), MOST_ROWS)).round().astype(np.int64))]
    low, high, truth = intervals[order, 0], intervals[order, 1], y[order]
    ends = np.concatenate([low[np.isfinite(low)], high[np.isfinite(high)], truth])
    margin = MARGIN * ((ends.max() - ends.min()) or 1.0)
    bottom, top = float(ends.min() - margin), float(ends.max() + margin)
    plot = Plot(
        title=f"Intervals of {len(order)} rows and the true values",
        x=(0.0, float(len(order) + 1)),
        y=(bottom, top),
        x_label="rows, by the middle of their interval",
        y_label="value",
        x_text=lambda _: "",
    )
    lines = zip(np.clip(low, bottom, top).tolist(), np.clip(high, bottom, top).tolist(), strict=True)
    for row, (start, end) in enumerate(lines, start=1):
        (x, above), (_, below) = plot.at(row, end), plot.at(row, start)
        plot.raw(
            f'<line class="interval s0" opacity=".45" x1="{x:.1f}" x2="{x:.1f}" y1="{above:.1f}" y2="{below:.1f}"/>'
        )
    inside = (low <= truth) & (truth <= high)
    for row in np.flatnonzero(inside).tolist():
        x, place = plot.at(row + 1, float(truth[row]))
        plot.raw(f'<circle class="f0" cx="{x:.1f}" cy="{place:.1f}" r="1.8"/>')
    plot.key("true value in its interval", '<circle class="f0" cx="11" cy="0" r="1.8"/>')
    plot.line([], "interval")  # so that what is missed has the second colour
    plot.dots([(row + 1, float(truth[row])) for row in np.flatnonzero(~inside).tolist()], "missed")
    return plot.svg()


def width_chart(predictor: IntervalPredictor, predictions: NDArray[Any], sites: NDArray[Any] | None = None) -> str:
    """Draw the mean width against alpha, as far as it is finite; nothing if it never is."""
    step = max(1, len(predictions) // MOST_FOR_WIDTHS)
    made = partial(predictor.predict_interval, predictions[::step], sites=None if sites is None else sites[::step])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InfeasibleWarning)
        widths = [float(np.diff(made(alpha=alpha), axis=1).mean()) for alpha in ALPHAS]
        at = float(np.diff(made(), axis=1).mean())
    points = [(alpha, width) for alpha, width in zip(ALPHAS, widths, strict=True) if np.isfinite(width)]
    if not points:
        return ""
    plot = Plot(
        title="Mean width against alpha",
        x=(0.0, 0.5),
        y=(0.0, max(1e-300, *(width for _, width in points)) * 1.05),
        x_label="alpha: how often the truth may be missed",
        y_label="mean width",
        height=230,
    )
    plot.line(points, "")
    if np.isfinite(at):
        plot.dots([(predictor.certificate.alpha, at)], "certified")
    return plot.svg()


def distribution_chart(predictor: IntervalPredictor, predictions: NDArray[Any], y: Floats) -> str:
    """Draw the share of rows below the value of each level, against the level; nothing without a distribution."""
    if not isinstance(predictor.curve, EndCurves):
        return ""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InfeasibleWarning)
        values, band = predictor.predict_distribution(predictions, LEVELS), predictor.distribution_band(LEVELS)
    shares = (y[:, None] <= values).mean(axis=0).tolist()
    plot = Plot(
        title="Share of rows below the value of each level",
        x=(0.0, 1.0),
        y=(0.0, 1.0),
        x_label="level: promised share, at least",
        y_label="share of rows below",
        x_text=percent,
        y_text=percent,
    )
    plot.diagonal("as promised")
    plot.line(list(zip(LEVELS, shares, strict=True)), "these rows", markers=True)
    plot.line(list(zip(LEVELS, band[:, 1].tolist(), strict=True)), "at most, on average")
    return plot.svg()


def widths_chart(groups: Sequence[IntervalGroup]) -> str:
    """Draw the mean width of each group; one that is infinite has no bar."""
    bars = [
        Bar(shortened(group.name, LONGEST), group.mean_width or 0.0, group.width_text) for group in groups[:MAX_GROUPS]
    ]
    return Bars(title="Mean width of the intervals", bars=bars).svg()
