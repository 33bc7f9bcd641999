"""What every score has in common: checked inputs, bounded memory, sets from a threshold."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from fedconformal.errors import InputError
from fedconformal.validation import Booleans, Floats, Integers, Probabilities, as_labels, as_probabilities

CHUNK = 2**17
"""Entries worked on at a time: the work space stays in cache and memory stays bounded."""


@dataclass(frozen=True, kw_only=True)
class Score(ABC):
    """How badly a label fits a row of probabilities; low scores conform.

    A score is a fixed function of (probabilities, label). Calibration and prediction evaluate the same
    function to the last bit; a difference in one bit would break ties the wrong way and lose coverage.
    """

    name: ClassVar[str]

    @abstractmethod
    def of_labels(self, probs: Probabilities, labels: Integers) -> Floats:
        """Score one label a row, for a chunk of checked rows."""

    @abstractmethod
    def of_all(self, probs: Probabilities) -> Floats:
        """Score every label of a chunk of checked rows, equal to `of_labels` bit for bit."""

    def evaluate(self, probs: ArrayLike, labels: ArrayLike) -> Floats:
        """Score these labels: (n, J) probabilities and (n,) labels give (n,) scores."""
        checked = as_probabilities(probs)
        wanted = as_labels(labels, rows=len(checked), classes=checked.shape[1])
        out = np.empty(len(checked))
        for rows in chunks(checked):
            out[rows] = self.of_labels(checked[rows], wanted[rows])
        return out

    def evaluate_all(self, probs: ArrayLike) -> Floats:
        """Score every label: (n, J) probabilities give (n, J) scores."""
        checked = as_probabilities(probs)
        out = np.empty(checked.shape)
        for rows in chunks(checked):
            out[rows] = self.of_all(checked[rows])
        return out

    def predict_set(self, probs: ArrayLike, threshold: ArrayLike, *, allow_empty: bool = False) -> Booleans:
        """Return (n, J) booleans: the labels that score at most the threshold.

        The threshold is one number, +inf included, or one a class. With `allow_empty=False` the most
        probable label is always in, which can only raise coverage.
        """
        checked = as_probabilities(probs)
        limit = np.asarray(threshold, dtype=np.float64)
        if limit.shape not in ((), (checked.shape[1],)) or np.isnan(limit).any():
            raise InputError(f"threshold: expected a number or one for each of {checked.shape[1]} classes, no NaN")
        sets = np.empty(checked.shape, dtype=np.bool_)
        for rows in chunks(checked):
            np.less_equal(self.of_all(checked[rows]), limit, out=sets[rows])
            if not allow_empty:
                sets[rows][np.arange(rows.stop - rows.start), checked[rows].argmax(axis=1)] = True
        return sets


def chunks(probs: Probabilities) -> Iterator[slice]:
    """Cut the rows into slices of about CHUNK entries."""
    step = max(1, CHUNK // probs.shape[1])
    for start in range(0, len(probs), step):
        yield slice(start, min(start + step, len(probs)))
