"""Base class of scores of numbers: checked inputs, and intervals that lose no row to rounding.

Scores are computed in floats, and so are the ends of an interval: y may be outside of f - |y - f| and f + |y - f|, as
it is for 7 per cent of rows with two decimals. So ends are rounded outward, as far as it takes that every y with a
score of at most the threshold is inside. A number a that is less than b in the reals is at most b rounded, if a is a
float: so y - f rounded is at most q only if y is at most f + q' rounded, with q' the float after q.
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
"""Predictions are scored this many at a time, so that they stay close to the processor."""

Scored = Callable[[Floats], Floats]
"""From one y a row to its score."""


@dataclass(frozen=True, kw_only=True)
class RegressionScore(AnyScore):
    """Nonconformity score of a number, given the predictions for its row; low scores conform."""

    noun = "regression score"

    @property
    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """Names of the predictions for a row, in order; several give an array of shape (n, columns)."""

    @abstractmethod
    def score_into(self, out: Floats, columns: Floats, y: Floats) -> None:
        """Write the score of one number a row; `columns` holds the predictions, a row for each column."""

    @abstractmethod
    def ends(self, columns: Floats, threshold: float, lower: float) -> tuple[Floats, Floats]:
        """Return ends between which every y is that scores at most the threshold, and at least `lower`."""

    def refused(self, columns: Floats) -> tuple[Booleans, str] | None:
        """Say which rows of finite predictions cannot be, and what is wrong with them."""
        return None

    def evaluate(self, predictions: ArrayLike, y: ArrayLike) -> Floats:
        """Score these numbers: predictions and (n,) numbers give (n,) scores."""
        matrix = self.matrix(predictions)
        truth = one_a_row(as_array(y, "y"), len(matrix), "y")
        out = np.empty(len(matrix))

        def work(rows: slice) -> None:
            columns, numbers = self._checked(matrix[rows], rows.start), as_numbers(truth[rows], "y", rows.start)
            found = out[rows]
            with np.errstate(over="ignore"):
                self.score_into(found, columns, numbers)
            found += 0.0  # -0.0 becomes 0.0
            if not np.isfinite(found).all():
                row = int(np.argmin(np.isfinite(found)))
                problem = f"is {numbers[row]:g}, too far from what was predicted"
                raise InputError(problem, where="y", row=rows.start + row)

        for_each_chunk(matrix, work, size=CHUNK)
        return out

    def interval(self, predictions: ArrayLike, threshold: float, lower: float | None = None) -> Floats:
        """Return (n, 2) ends of intervals; every y that scores at most the threshold is inside, to the last bit.

        A threshold of +inf gives the whole line. `lower` is for a score with a lower end of its own, such as Signed.
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
        """Check the shape of predictions, and return them as (n, columns)."""
        array, names = as_array(predictions, NAME), self.columns
        if array.ndim == 1 and len(names) == 1:
            array = array[:, None]
        if array.ndim != 2 or array.shape[1] != len(names):
            wanted = f"(rows, {len(names)}) for {' and '.join(names)}" if len(names) > 1 else "one number a row"
            raise InputError(f"{NAME}: has shape {array.shape}, expected {wanted} ({self.name})")
        return array

    def _checked(self, matrix: Floats, start: int = 0) -> Floats:
        """Check predictions, and return them in float64 with a row for each column; `start` is the first row."""
        with np.errstate(over="ignore"):
            columns: Floats = np.ascontiguousarray(matrix.T, dtype=np.float64)
        for column in columns:
            as_numbers(column, NAME, start)
        if (found := self.refused(columns)) is not None and found[0].any():
            row = int(np.argmax(found[0]))
            values = " and ".join(f"{value:g}" for value in columns[:, row])
            problem = f"has {' and '.join(self.columns)} {values}; {found[1]}"
            raise InputError(problem, where=NAME, row=start + row)
        return columns


def highest(score: Scored, f: Floats, q: float, scale: Floats | None = None) -> Floats:
    """Return for each row a number that no y exceeds which scores at most q; f + q times the scale, if that will do.

    `score` is (y - f) rounded, divided by the scale and rounded again if there is one.
    """
    plain = f + (q if scale is None else scale * q)
    after: Floats | np.float64 = np.nextafter(q, np.inf)
    if scale is not None:
        after = np.nextafter(scale * after, np.inf)
    # What scores more than q right after the plain end shows that it will do, as scores rise with y.
    return np.where(score(np.nextafter(plain, np.inf)) > q, plain, f + after)


def both_ends(columns: Floats, below: float, above: float) -> tuple[Floats, Floats]:
    """Return the lowest and the highest y whose error, over the scale if there is one, is in [-below, above]."""
    f, scale = columns[0], columns[1] if len(columns) > 1 else None
    by = 1.0 if scale is None else scale
    low = -highest(lambda y: (y + f) / by, -f, below, scale)
    return low, highest(lambda y: (y - f) / by, f, above, scale)


def around(middle: Floats, first: Floats, last: Floats) -> tuple[Floats, Floats]:
    """Leave the middle where two ends have turned around; it is between all others, so that intervals are nested."""
    turned = first > last
    return np.where(turned, middle, np.minimum(first, middle)), np.where(turned, middle, np.maximum(last, middle))
