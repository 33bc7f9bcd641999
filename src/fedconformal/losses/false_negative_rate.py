"""The share of the true labels that is left out, row by row: of a row's labels, or of an image's pixels.

Predicted are the labels whose score is at least 1 - t. At t = 1 these are all, and none is left out, so that a promise
exists for every limit. Angelopoulos, Bates, Fisch, Lei and Schuster, "Conformal risk control", 2022.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedconformal._base.arrays import Booleans, Floats
from fedconformal.losses.loss import Loss, Scores, counts_at


@dataclass(frozen=True, kw_only=True)
class FalseNegativeRate(Loss):
    """Left out of the true labels, or pixels: a share for each row, and 0 for a row that has none.

    >>> scores = [[0.9, 0.4, 0.2], [0.3, 0.1, 0.0]]
    >>> truth = [[True, True, False], [False, False, False]]
    >>> FalseNegativeRate().evaluate(scores, truth, thresholds=[0.05, 0.25, 0.75])
    array([[1. , 0.5, 0. ],
           [0. , 0. , 0. ]])
    >>> FalseNegativeRate().predict(scores, 0.75)
    array([[ True,  True, False],
           [ True, False, False]])
    """

    name = "false-negative-rate"
    monotone = True
    means = "The expected share of a row's true labels that is left out"
    safe = "every label is predicted, so none is left out"

    def of_rows(self, scores: Scores, truth: Booleans, grid: Floats) -> Floats:
        row, entry = np.nonzero(truth)
        # The first threshold at which an entry is predicted, by the same subtraction and comparison as in `answer`.
        first = np.searchsorted(grid, np.subtract(1.0, scores[row, entry], dtype=np.float64))
        found = counts_at(first, row, len(truth), len(grid))
        there = np.bincount(row, minlength=len(truth))[:, None]
        losses: Floats = (there - found) / np.maximum(there, 1)
        return losses

    def answer(self, scores: Scores, threshold: float) -> Booleans:
        predicted: Booleans = np.subtract(1.0, scores, dtype=np.float64) <= threshold
        return predicted
