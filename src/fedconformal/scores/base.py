"""What every score has in common: checked inputs, bounded memory, sets from a threshold."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from fedconformal.errors import InputError
from fedconformal.validation import (
    Booleans,
    Floats,
    Integers,
    Probabilities,
    as_labels,
    as_matrix,
    check_distributions,
    chunks,
)

NAME = "probabilities"


@dataclass(frozen=True, kw_only=True)
class Score(ABC):
    """How badly a label fits a row of probabilities; low scores conform.

    A score is a fixed function of (probabilities, label). Calibration and prediction evaluate the same
    function to the last bit; a difference in one bit would break ties the wrong way and lose coverage.
    """

    name: ClassVar[str]
    top_first: ClassVar[bool] = False
    """Whether no label scores lower than the most probable one; then a set that is not empty holds it."""

    @abstractmethod
    def of_labels(self, probs: Probabilities, labels: Integers) -> Floats:
        """Score one label a row, for a chunk of checked rows."""

    @abstractmethod
    def of_all(self, probs: Probabilities) -> Floats:
        """Score every label of a chunk of checked rows, equal to `of_labels` bit for bit."""

    def rule(self, limit: Floats) -> Callable[[Probabilities], Booleans]:
        """Return what turns a chunk of checked rows into sets; scores with a faster way have their own."""
        return lambda probs: self.of_all(probs) <= limit

    def to_dict(self) -> dict[str, Any]:
        """Describe for JSON."""
        return {"name": self.name, **asdict(self)}

    def evaluate(self, probs: ArrayLike, labels: ArrayLike) -> Floats:
        """Score these labels: (n, J) probabilities and (n,) labels give (n,) scores."""
        matrix = as_matrix(probs, NAME)
        wanted = as_labels(labels, rows=len(matrix), classes=matrix.shape[1])
        out = np.empty(len(matrix))
        for rows in checked_chunks(matrix):
            out[rows] = self.of_labels(matrix[rows], wanted[rows])
        return out

    def evaluate_all(self, probs: ArrayLike) -> Floats:
        """Score every label: (n, J) probabilities give (n, J) scores."""
        matrix = as_matrix(probs, NAME)
        out = np.empty(matrix.shape)
        for rows in checked_chunks(matrix):
            out[rows] = self.of_all(matrix[rows])
        return out

    def predict_set(self, probs: ArrayLike, threshold: ArrayLike, *, allow_empty: bool = False) -> Booleans:
        """Return (n, J) booleans: the labels that score at most the threshold.

        The threshold is one number, +inf included, or one a class. With `allow_empty=False` the most
        probable label is always in, which can only raise coverage.
        """
        matrix = as_matrix(probs, NAME)
        try:
            limit = np.asarray(threshold, dtype=np.float64)
        except (ValueError, TypeError):
            limit = np.array(np.nan)
        if limit.shape not in ((), (matrix.shape[1],)) or np.isnan(limit).any():
            raise InputError(f"threshold: expected a number or one for each of {matrix.shape[1]} classes, no NaN")
        sets = np.empty(matrix.shape, dtype=np.bool_)
        members = self.rule(limit)
        for rows in checked_chunks(matrix):
            found = members(matrix[rows])
            if not allow_empty:
                sure = self.top_first and not limit.ndim
                lacking = np.flatnonzero(~found.any(axis=1)) if sure else np.arange(len(found))
                found[lacking, matrix[rows][lacking].argmax(axis=1)] = True
            sets[rows] = found
        return sets


def checked_chunks(matrix: Probabilities) -> Iterator[slice]:
    """Cut the rows into slices that fit the cache, and check each while it is there."""
    for rows in chunks(matrix):
        check_distributions(matrix[rows], NAME, rows.start)
        yield rows
