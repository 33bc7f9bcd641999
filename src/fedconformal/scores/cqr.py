"""Conformalised quantile regression (CQR): the signed distance to a predicted interval."""

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
    """Signed distance of y to a predicted interval, max(lower - y, y - upper); negative inside.

    Crossing quantiles are sorted, with a warning. A negative threshold shrinks the predicted interval; if its ends
    would cross, the interval is its midpoint, which can only raise coverage.

    Examples
    --------
    >>> predictions = [[1.0, 2.0], [0.0, 4.0]]
    >>> CQR().evaluate(predictions, [2.5, 1.0])
    array([ 0.5, -1. ])
    >>> CQR().interval(predictions, -1.0)
    array([[1.5, 1.5],
           [1. , 3. ]])

    References
    ----------
    Romano, Patterson and Candes, "Conformalized quantile regression", 2019.
    """

    name = "cqr"

    @property
    def columns(self) -> tuple[str, ...]:
        return ("lower", "upper")

    def matrix(self, predictions: ArrayLike) -> Floats:
        """Sort crossing quantiles, with a warning."""
        quantiles = super().matrix(predictions)
        crossed = int(np.count_nonzero(quantiles[:, 0] > quantiles[:, 1]))
        if not crossed:
            return quantiles
        message = f"{crossed} of {len(quantiles)} rows have a lower prediction above the upper one (quantiles cross)"
        warnings.warn(f"{message}; they are sorted", SuspiciousInputWarning, stacklevel=3)
        return np.sort(quantiles, axis=1)

    def score_into(self, out: Floats, columns: Floats, y: Floats) -> None:
        np.subtract(columns[0], y, out=out)
        np.maximum(out, y - columns[1], out=out)

    def ends(self, columns: Floats, threshold: float, lower: float) -> tuple[Floats, Floats]:
        low, high = columns
        first, last = -highest(lambda y: y + low, -low, threshold), highest(lambda y: y - high, high, threshold)
        return around(low / 2 + high / 2, first, last)
