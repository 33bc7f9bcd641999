"""The share of what is predicted that is wrong, row by row: one minus precision. It need not fall with the threshold.

Predicted are the labels whose score is at least t. With fewer labels the share that is wrong may rise, so the promise
takes learn-then-test: Angelopoulos, Bates, Candes, Jordan and Lei, "Learn then test", 2021.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedconformal._base.arrays import Booleans, Floats
from fedconformal.losses.loss import Loss, Scores, counts_at


@dataclass(frozen=True, kw_only=True)
class FalseDiscoveryRate(Loss):
    """Wrong among the predicted labels, or pixels: a share for each row, and 0 for a row with none predicted.

    >>> scores, truth = [[0.9, 0.4, 0.2]], [[False, True, True]]
    >>> FalseDiscoveryRate().evaluate(scores, truth, thresholds=[0.25, 0.5, 0.95])
    array([[0.5, 1. , 0. ]])
    """

    name = "false-discovery-rate"
    monotone = False
    means = "The expected share of a row's predicted labels that is wrong"
    safe = "no label is predicted, so none is wrong"

    def of_rows(self, scores: Scores, truth: Booleans, grid: Floats) -> Floats:
        # The number of thresholds at which an entry is predicted; counted from the end, they are the last ones.
        times = np.searchsorted(grid, np.asarray(scores, dtype=np.float64), side="right")
        row = np.broadcast_to(np.arange(len(scores))[:, None], scores.shape)
        predicted = counts_at((len(grid) - times).reshape(-1), row.reshape(-1), len(scores), len(grid))[:, ::-1]
        wrong = counts_at((len(grid) - times)[~truth], row[~truth], len(scores), len(grid))[:, ::-1]
        losses: Floats = wrong / np.maximum(predicted, 1)
        return losses

    def answer(self, scores: Scores, threshold: float) -> Booleans:
        predicted: Booleans = np.asarray(scores, dtype=np.float64) >= threshold
        return predicted
