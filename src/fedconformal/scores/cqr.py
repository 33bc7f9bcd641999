"""Conformalised quantile regression: how far outside of a predicted interval.

Romano, Patterson and Candes, "Conformalized quantile regression", 2019.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fedconformal._base.arrays import Floats
from fedconformal.errors import SuspiciousInputWarning
from fedconformal.scores.regression_score import RegressionScore, around, highest


@dataclass(frozen=True, kw_only=True)
class CQR(RegressionScore):
    """max(lower - y, y - upper), where the model predicts both; negative inside.

    Rows whose quantiles cross are sorted, with a warning. A threshold below zero makes the predicted interval
    narrower. Where it would turn around, one point is left in the middle: that can only raise coverage.

    >>> predictions = [[1.0, 2.0], [0.0, 4.0]]
    >>> CQR().evaluate(predictions, [2.5, 1.0])
    array([ 0.5, -1. ])
    >>> CQR().interval(predictions, -1.0)
    array([[1.5, 1.5],
           [1. , 3. ]])
    """

    name = "cqr"

    @property
    def columns(self) -> tuple[str, ...]:
        return ("lower", "upper")

    def matrix(self, predictions: ArrayLike) -> Floats:
        """Sort rows whose quantiles cross, and warn of their number."""
        found = super().matrix(predictions)
        crossed = int(np.count_nonzero(found[:, 0] > found[:, 1]))
        if not crossed:
            return found
        message = f"{crossed} of {len(found)} rows have a lower prediction above the upper one (quantiles cross)"
        warnings.warn(f"{message}; they are sorted", SuspiciousInputWarning, stacklevel=3)
        return np.sort(found, axis=1)

    def score_into(self, out: Floats, columns: Floats, y: Floats) -> None:
        np.subtract(columns[0], y, out=out)
        np.maximum(out, y - columns[1], out=out)

    def ends(self, columns: Floats, threshold: float, lower: float) -> tuple[Floats, Floats]:
        low, high = columns
        first, last = -highest(lambda y: y + low, -low, threshold), highest(lambda y: y - high, high, threshold)
        return around(low / 2 + high / 2, first, last)
