"""The absolute error over a scale that the model predicts: wide intervals where the model is unsure.

Papadopoulos, Gammerman and Vovk, "Normalized nonconformity measures for regression conformal prediction", 2008.
"""

from __future__ import annotations

from dataclasses import dataclass

from fedconformal._base.arrays import Booleans, Floats
from fedconformal.scores.residual import Residual

POSITIVE = "the scale must be above 0"


@dataclass(frozen=True, kw_only=True)
class Normalized(Residual):
    """`|y - prediction| / scale`, where the model predicts both; every scale must be above zero.

    >>> predictions = [[1.0, 0.5], [2.0, 1.0]]
    >>> Normalized().evaluate(predictions, [1.5, 0.0])
    array([1., 2.])
    >>> Normalized().interval(predictions, 0.5)
    array([[0.75, 1.25],
           [1.5 , 2.5 ]])
    """

    name = "normalized"

    @property
    def columns(self) -> tuple[str, ...]:
        return ("prediction", "scale")

    def refused(self, columns: Floats) -> tuple[Booleans, str]:
        return columns[1] <= 0, POSITIVE

    def score_into(self, out: Floats, columns: Floats, y: Floats) -> None:
        super().score_into(out, columns, y)
        out /= columns[1]
