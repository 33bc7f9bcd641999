"""Coverage and width of prediction intervals, overall, by site and by other columns; and a verdict."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from fedconformal._base.arrays import Floats, Integers, as_array, as_numbers, one_a_row
from fedconformal._base.groups import Groups
from fedconformal.certificates.certificate import Certificate
from fedconformal.certificates.text import INTERVALS
from fedconformal.errors import InputError
from fedconformal.evaluation.coverage import Counter, CoverageEvaluation, CoverageGroup


class IntervalGroup(CoverageGroup, frozen=True, kw_only=True):
    """A group of rows with the widths of its intervals; infinite widths are None."""

    mean_width: float | None
    median_width: float | None
    infinite: int

    @property
    def width_text(self) -> str:
        """The mean width as text."""
        return _text(self.mean_width)

    @property
    def sizes(self) -> tuple[str, ...]:
        return self.width_text, _text(self.median_width)


class IntervalEvaluation(CoverageEvaluation[IntervalGroup], frozen=True, kw_only=True):
    """Coverage and width of intervals on rows with known values."""

    answers = INTERVALS
    size_columns = ("mean width", "median")

    @property
    def mean_width(self) -> float:
        """Mean width of the intervals, which may be infinite."""
        return np.inf if self.overall.mean_width is None else self.overall.mean_width

    def __repr__(self) -> str:
        width = f"{self.mean_width:.6g}"
        return f"IntervalEvaluation(coverage={self.coverage:.4f}, mean_width={width}, rows={self.overall.rows})"


def evaluate_intervals(
    intervals: ArrayLike,
    y: ArrayLike,
    *,
    sites: ArrayLike | None = None,
    clusters: ArrayLike | None = None,
    groups: Groups | None = None,
    certificate: Certificate | None = None,
    alpha: Any = None,
) -> IntervalEvaluation:
    """Evaluate (n, 2) closed intervals, whose ends may be infinite, against the true values; see `evaluate_sets`.

    >>> result = evaluate_intervals([[0, 2], [1, 2], [1, 4]], [1.0, 2.5, 3.0], sites=["a", "a", "b"])
    >>> result
    IntervalEvaluation(coverage=0.6667, mean_width=2, rows=3)
    >>> [(group.name, group.coverage, group.mean_width) for group in result.by_site]
    [('a', 0.5, 1.5), ('b', 1.0, 3.0)]
    """
    ends = as_intervals(intervals)
    rows, (low, high) = len(ends), ends.T
    truth = as_numbers(one_a_row(as_array(y, "y"), rows, "y"), "y")
    covered, widths = (low <= truth) & (truth <= high), high - low

    def describe(group: CoverageGroup, mine: Integers) -> IntervalGroup:
        return IntervalGroup(
            **msgspec.structs.asdict(group),
            mean_width=_finite(widths[mine].mean()),
            median_width=_finite(np.sort(widths[mine])[(len(mine) - 1) // 2]),
            infinite=int(np.isinf(widths[mine]).sum()),
        )

    labels = np.zeros(rows, np.int64)
    counter = Counter.of(covered, labels, describe, sites=sites, clusters=clusters, groups=groups)
    result = IntervalEvaluation(**counter.fields())
    if certificate is None:
        return result
    full, outcomes = bool((np.isneginf(low) & np.isposinf(high)).all()), counter.outcomes
    return result.judge(certificate, alpha, outcomes, full=full, parties=outcomes.sites)


def as_intervals(intervals: ArrayLike) -> Floats:
    """Validate (n, 2) ends with the lower end first."""
    ends = as_array(intervals, "intervals")
    if ends.ndim != 2 or ends.shape[1] != 2 or ends.dtype.kind not in "iuf" or not len(ends):
        raise InputError(f"intervals: expected (rows, 2) ends, got {ends.dtype} of shape {ends.shape}")
    ends = ends.astype(np.float64)
    wrong = ~(ends[:, 0] <= ends[:, 1])  # true for NaN as well
    if wrong.any():
        row = int(np.argmax(wrong))
        low, high = ends[row].tolist()
        raise InputError(f"intervals: row {row} is from {low:g} to {high:g}, expected the lower end first")
    return ends


def infinite_words(infinite: int, rows: int) -> str:
    """Return the number of intervals with an end at infinity, in words."""
    return f"{infinite} of {rows} intervals have an end at infinity"


def _finite(value: Any) -> float | None:
    return float(value) if np.isfinite(value) else None


def _text(width: float | None) -> str:
    return "infinite" if width is None else f"{width:.4g}"
