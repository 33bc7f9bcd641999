"""Base class of regression scores: validated inputs, and intervals without loss of coverage by rounding.

Scores and interval ends are computed in floats, so y may lie outside of f - |y - f| and f + |y - f|, as for 7 per cent
of rows with two decimals. Ends are therefore rounded outward, far enough to include every y whose score is at most the
threshold. If a float a is less than a real b, then a is at most b rounded. Hence y - f rounded is at most q only if y
is at most f + q' rounded, where q' is the float after q.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fedconformal._base.arrays import Booleans, Floats, as_array, as_numbers, for_each_chunk, one_a_row
from fedconformal._base.names import abbreviate
from fedconformal.errors import InputError
from fedconformal.scores.score import AnyScore

NAME = "predictions"
CHUNK = 2**16
"""Predictions per chunk, small enough for the cache."""
Scored = Callable[[Floats], Floats]
"""Maps one y per row to its score."""


@dataclass(frozen=True, kw_only=True)
class RegressionScore(AnyScore):
    """Base class of nonconformity scores of a number, given the predictions of its row; low scores conform.

    A subclass defines `name`, `columns`, `score_into` and `ends`.

    Examples
    --------
    >>> from fedconformal import Residual
    >>> isinstance(Residual(), RegressionScore), Residual().columns
    (True, ('prediction',))
    """

    noun = "regression score"

    @property
    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """Names of the predictions of a row, in order; several require an array of shape (n, columns)."""

    @abstractmethod
    def score_into(self, out: Floats, columns: Floats, y: Floats) -> None:
        """Write the scores of `y` into `out`; `columns` has shape (columns, n)."""

    @abstractmethod
    def ends(self, columns: Floats, threshold: float, lower: float) -> tuple[Floats, Floats]:
        """Return interval ends that enclose every y with a score from `lower` to the threshold."""

    def refused(self, columns: Floats) -> tuple[Booleans, str] | None:
        """Return a mask of invalid rows of finite predictions, and the reason; None if all rows are valid."""
        return None

    def evaluate(self, predictions: ArrayLike, y: ArrayLike) -> Floats:
        """Return the scores, of shape (n,), of n numbers given their predictions."""
        matrix = self.matrix(predictions)
        truth = one_a_row(as_array(y, "y"), len(matrix), "y")
        out = np.empty(len(matrix))

        def work(rows: slice) -> None:
            columns, numbers = self._checked(matrix[rows], rows.start), as_numbers(truth[rows], "y", rows.start)
            scores = out[rows]
            with np.errstate(over="ignore"):
                self.score_into(scores, columns, numbers)
            scores += 0.0  # -0.0 becomes 0.0
            if not np.isfinite(scores).all():
                row = int(np.argmin(np.isfinite(scores)))
                problem = f"is {numbers[row]:g}, too far from what was predicted"
                raise InputError(problem, where="y", row=rows.start + row)

        for_each_chunk(matrix, work, size=CHUNK)
        return out

    def interval(self, predictions: ArrayLike, threshold: float, lower: float | None = None) -> Floats:
        """Return the (n, 2) ends of intervals that contain every y with a score of at most the threshold.

        The threshold +inf gives the whole line. `lower` is the lower threshold of a two-sided score such as `Signed`.
        """
        if (lower is None) != (self.lower_share is None):
            raise InputError(f"{self.name} takes {'no lower end' if self.lower_share is None else 'a lower end'}")
        if np.ndim(threshold) or not threshold > -np.inf or np.isnan(lower or 0.0) or lower == np.inf:
            raise InputError(f"threshold: expected one number, no NaN, got {abbreviate(threshold)}")
        with np.errstate(over="ignore", invalid="ignore"):
            ends = self.ends(
                self._checked(self.matrix(predictions)), float(threshold), -np.inf if lower is None else float(lower)
            )
        return np.stack(ends, axis=1)

    def matrix(self, predictions: ArrayLike) -> Floats:
        """Validate the shape of predictions, and return them as (n, columns)."""
        array, names = as_array(predictions, NAME), self.columns
        if array.ndim == 1 and len(names) == 1:
            array = array[:, None]
        if array.ndim != 2 or array.shape[1] != len(names):
            wanted = f"(rows, {len(names)}) for {' and '.join(names)}" if len(names) > 1 else "one number per row"
            raise InputError(f"{NAME}: has shape {array.shape}, expected {wanted} ({self.name})")
        return array

    def _checked(self, matrix: Floats, start: int = 0) -> Floats:
        """Validate predictions, and return them in float64 as (columns, n); `start` is the number of the first row."""
        with np.errstate(over="ignore"):
            columns: Floats = np.ascontiguousarray(matrix.T, dtype=np.float64)
        for column in columns:
            as_numbers(column, NAME, start)
        if (invalid := self.refused(columns)) is not None and invalid[0].any():
            row = int(np.argmax(invalid[0]))
            values = " and ".join(f"{value:g}" for value in columns[:, row])
            problem = f"has {' and '.join(self.columns)} {values}; {invalid[1]}"
            raise InputError(problem, where=NAME, row=start + row)
        return columns


def highest(score: Scored, f: Floats, q: float, scale: Floats | None = None) -> Floats:
    """Return an upper bound, per row, on every y with a `score` of at most q; f + q times the scale if that is one."""
    simple = f + (q if scale is None else scale * q)
    after: Floats | np.float64 = np.nextafter(q, np.inf)
    if scale is not None:
        after = np.nextafter(scale * after, np.inf)
    # The simple end suffices if the float after it scores more than q, as scores increase with y.
    return np.where(score(np.nextafter(simple, np.inf)) > q, simple, f + after)


def both_ends(columns: Floats, below: float, above: float) -> tuple[Floats, Floats]:
    """Return bounds on every y whose error, divided by the scale if there is one, is in [-below, above]."""
    f, scale = columns[0], columns[1] if len(columns) > 1 else None
    by = 1.0 if scale is None else scale
    low = -highest(lambda y: (y + f) / by, -f, below, scale)
    return low, highest(lambda y: (y - f) / by, f, above, scale)


def around(middle: Floats, first: Floats, last: Floats) -> tuple[Floats, Floats]:
    """Replace crossed ends by the middle, and include the middle in all intervals, so that intervals are nested."""
    turned = first > last
    return np.where(turned, middle, np.minimum(first, middle)), np.where(turned, middle, np.maximum(last, middle))
