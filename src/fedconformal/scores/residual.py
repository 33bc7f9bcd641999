"""Absolute error of a prediction: intervals of constant width."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedconformal._base.arrays import Floats
from fedconformal.scores.regression_score import RegressionScore, around, both_ends


@dataclass(frozen=True, kw_only=True)
class Residual(RegressionScore):
    """Absolute error; the interval is the prediction plus and minus the threshold.

    Examples
    --------
    >>> Residual().evaluate([1.0, 2.0], [1.5, 0.0])
    array([0.5, 2. ])
    >>> Residual().interval([1.0, 2.0], 0.5)
    array([[0.5, 1.5],
           [1.5, 2.5]])

    References
    ----------
    Papadopoulos, Proedrou, Vovk and Gammerman, "Inductive confidence machines for regression", 2002.
    """

    name = "residual"

    @property
    def columns(self) -> tuple[str, ...]:
        return ("prediction",)

    def score_into(self, out: Floats, columns: Floats, y: Floats) -> None:
        np.subtract(y, columns[0], out=out)
        np.abs(out, out=out)

    def ends(self, columns: Floats, threshold: float, lower: float) -> tuple[Floats, Floats]:
        return around(columns[0], *both_ends(columns, threshold, threshold))
