"""Base class of losses: validated inputs, bounded memory, predictions from a threshold.

A loss maps the prediction for one row to [0, 1], at each threshold of a public grid; larger thresholds give safer
predictions. A row may be a list of labels, an image or a volume: scores of any shape, and a truth of the same shape.
Scores are first rounded to float32, so that calibration and prediction compare identical numbers.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedconformal._base import registry
from fedconformal._base.arrays import CHUNK, Booleans, Floats, Integers, as_array, rising
from fedconformal._base.names import abbreviate
from fedconformal.errors import InputError

Scores = NDArray[np.float32]
GRID = np.arange(1001) / 1000
"""Default thresholds: 0, 0.001, ..., 1."""


@dataclass(frozen=True, kw_only=True)
class Loss(registry.Plugin):
    """Base class of losses of rows with scores in [0, 1]; larger thresholds give safer predictions."""

    monotone: ClassVar[bool]
    """Whether the loss of every row is non-increasing in the threshold; otherwise only learn-then-test applies."""
    means: ClassVar[str]
    """Name of the mean over rows, as the subject of "is at most 0.1"."""
    safe: ClassVar[str]
    """Prediction at the threshold +inf, and the reason why its risk is known."""

    @property
    def only_limit(self) -> float | None:
        """The only valid limit, if the loss depends on it."""
        return None

    @abstractmethod
    def of_rows(self, scores: Scores, truth: Booleans, grid: Floats) -> Floats:
        """Return the (rows, G) losses of validated (rows, entries) arrays at G thresholds."""

    @abstractmethod
    def answer(self, scores: Scores, threshold: float) -> Booleans:
        """Return the predictions for validated scores of any shape."""

    def evaluate(self, scores: Any, truth: Any, *, thresholds: ArrayLike | None = None) -> Floats:
        """Return the (n, G) losses of n rows; scores and truth are arrays, or lists with one array per row.

        The thresholds must be fixed before the scores are seen, and be the same at all sites.
        """
        grid = as_grid(thresholds)
        if not hasattr(scores, "__len__") or not hasattr(truth, "__len__"):
            raise InputError("scores and truth: expected a row for each case, in an array or in a list")
        out = np.empty((len(scores), len(grid)))
        for start, some, labels in chunked(scores, truth, len(grid)):
            out[start : start + len(some)] = self.of_rows(some, labels, grid)
        return out

    def predict(self, scores: Any, threshold: float) -> Any:
        """Return booleans of the shape of the scores; a list of arrays for a list."""
        limit = as_threshold(threshold)
        if is_list(scores):
            return [self.answer(checked(as_array(row, "scores"), i, alone=True), limit) for i, row in enumerate(scores)]
        array = as_array(scores, "scores")
        if array.ndim < 2:
            raise InputError(f"scores: has shape {array.shape}, expected rows of scores, or a list of images")
        return self.answer(checked(array, 0), limit)


def as_grid(thresholds: ArrayLike | None) -> Floats:
    """Validate finite, strictly increasing thresholds; None gives the default grid."""
    if thresholds is None:
        return GRID
    grid = as_array(thresholds, "thresholds").astype(np.float64)
    if grid.ndim != 1 or not len(grid) or not np.isfinite(grid).all() or not rising(grid):
        raise InputError("thresholds: expected finite numbers in rising order, each once")
    return grid


def as_threshold(threshold: Any) -> float:
    """Validate a threshold; +inf is the safe prediction."""
    try:
        number = float(threshold)
    except (TypeError, ValueError):
        number = np.nan
    if np.isnan(number):
        raise InputError(f"threshold is {abbreviate(threshold)}, expected a number")
    return number


def is_list(rows: Any) -> bool:
    """Whether rows are a sequence of arrays, such as images of different sizes."""
    return isinstance(rows, Sequence) and any(np.ndim(row) > 1 or hasattr(row, "shape") for row in rows[:1])


def checked(scores: NDArray[Any], start: int, *, alone: bool = False) -> Scores:
    """Refuse scores outside [0, 1] and round to float32; `start` numbers the first row, or the only row if `alone`."""
    bad = ~((scores >= 0) & (scores <= 1))
    if bad.any():
        at = tuple(np.argwhere(bad)[0].tolist())
        problem = f"holds {scores[at]:.6g}, expected numbers from 0 to 1"
        raise InputError(problem, where="scores", row=start if alone else start + at[0])
    return scores.astype(np.float32, copy=False)


def chunked(scores: Any, truth: Any, points: int) -> Iterator[tuple[int, Scores, Booleans]]:
    """Yield validated, flattened rows with the number of the first; chunks are sized for `points` numbers per row."""
    if len(truth) != len(scores):
        raise InputError(f"truth: has {len(truth)} rows, the scores have {len(scores)}")
    if is_list(scores):
        parts = ((i, as_array(row, "scores")[None], as_array(truth[i], "truth")[None]) for i, row in enumerate(scores))
    else:
        array, labels = as_array(scores, "scores"), as_array(truth, "truth")
        step = max(1, CHUNK // max(1, points, array[:1].size))
        places = range(0, len(array), step)
        parts = ((start, array[start : start + step], labels[start : start + step]) for start in places)
    for start, part, label in parts:
        if part.ndim < 2 or part.shape != label.shape:
            raise InputError(f"truth: has shape {label.shape}, the scores {part.shape}; expected the same, a row each")
        if not ((label == 0) | (label == 1)).all():
            raise InputError("expected booleans, or zeros and ones", where="truth")
        yield start, checked(part, start).reshape(len(part), -1), (label == 1).reshape(len(part), -1)


def counts_at(positions: Integers, row: Integers, rows: int, points: int) -> Integers:
    """Count the entries of every row with a position of at most each grid point."""
    flat = np.bincount(row * (points + 1) + positions, minlength=rows * (points + 1))
    return np.cumsum(flat.reshape(rows, points + 1)[:, :points], axis=1)


def described_loss(described: tuple[str, Sequence[Any]] | None) -> Loss | None:
    """Rebuild a loss from its name and parameters; None if the name is not registered, as for user-defined losses."""
    if described is None or described[0] not in registry.members(Loss):
        return None
    return registry.restore(*described, Loss)
