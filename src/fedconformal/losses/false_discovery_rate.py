"""False discovery rate: the share of wrong labels among the predicted labels of each row, one minus precision."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedconformal._base.arrays import Booleans, Floats
from fedconformal.losses.loss import Loss, Scores, counts_at


@dataclass(frozen=True, kw_only=True)
class FalseDiscoveryRate(Loss):
    """Share of wrong labels, or pixels, among those predicted in a row; 0 if none is predicted.

    Labels with a score of at least t are predicted. The share may rise with t, so calibration requires learn-then-test.

    Examples
    --------
    >>> scores, truth = [[0.9, 0.4, 0.2]], [[False, True, True]]
    >>> FalseDiscoveryRate().evaluate(scores, truth, thresholds=[0.25, 0.5, 0.95])
    array([[0.5, 1. , 0. ]])

    References
    ----------
    Angelopoulos, Bates, Candes, Jordan and Lei, "Learn then test", 2021.
    """

    name = "false-discovery-rate"
    monotone = False
    means = "The expected share of a row's predicted labels that is wrong"
    safe = "no label is predicted, so none is wrong"

    def of_rows(self, scores: Scores, truth: Booleans, grid: Floats) -> Floats:
        # An entry is predicted at the first `times` thresholds, which are the last ones counted from the end.
        times = np.searchsorted(grid, np.asarray(scores, dtype=np.float64), side="right")
        row = np.broadcast_to(np.arange(len(scores))[:, None], scores.shape)
        predicted = counts_at((len(grid) - times).reshape(-1), row.reshape(-1), len(scores), len(grid))[:, ::-1]
        wrong = counts_at((len(grid) - times)[~truth], row[~truth], len(scores), len(grid))[:, ::-1]
        return np.asarray(wrong / np.maximum(predicted, 1))

    def answer(self, scores: Scores, threshold: float) -> Booleans:
        return np.asarray(np.asarray(scores, dtype=np.float64) >= threshold)
