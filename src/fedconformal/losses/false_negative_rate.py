"""False negative rate: the share of true labels, or of true pixels of an image, that are not predicted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedconformal._base.arrays import Booleans, Floats
from fedconformal.losses.loss import Loss, Scores, counts_at


@dataclass(frozen=True, kw_only=True)
class FalseNegativeRate(Loss):
    """Share of a row's true labels, or pixels, that are not predicted; 0 for a row without true labels.

    Labels with a score of at least 1 - t are predicted. At t = 1 these are all labels, so every limit is attainable.

    Examples
    --------
    >>> scores = [[0.9, 0.4, 0.2], [0.3, 0.1, 0.0]]
    >>> truth = [[True, True, False], [False, False, False]]
    >>> FalseNegativeRate().evaluate(scores, truth, thresholds=[0.05, 0.25, 0.75])
    array([[1. , 0.5, 0. ],
           [0. , 0. , 0. ]])
    >>> FalseNegativeRate().predict(scores, 0.75)
    array([[ True,  True, False],
           [ True, False, False]])

    References
    ----------
    Angelopoulos, Bates, Fisch, Lei and Schuster, "Conformal risk control", 2022.
    """

    name = "false-negative-rate"
    monotone = True
    means = "The expected share of a row's true labels that is left out"
    safe = "every label is predicted, so none is left out"

    def of_rows(self, scores: Scores, truth: Booleans, grid: Floats) -> Floats:
        row, entry = np.nonzero(truth)
        # The first threshold at which an entry is predicted, by the same subtraction and comparison as in `answer`.
        first = np.searchsorted(grid, np.subtract(1.0, scores[row, entry], dtype=np.float64))
        predicted = counts_at(first, row, len(truth), len(grid))
        true = np.bincount(row, minlength=len(truth))[:, None]
        return np.asarray((true - predicted) / np.maximum(true, 1))

    def answer(self, scores: Scores, threshold: float) -> Booleans:
        return np.asarray(np.subtract(1.0, scores, dtype=np.float64) <= threshold)
