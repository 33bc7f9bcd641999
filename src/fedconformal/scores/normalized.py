"""Normalised absolute error: intervals whose width is proportional to a predicted scale."""

from __future__ import annotations

from dataclasses import dataclass

from fedconformal._base.arrays import Booleans, Floats
from fedconformal.scores.residual import Residual

POSITIVE = "the scale must be above 0"


@dataclass(frozen=True, kw_only=True)
class Normalized(Residual):
    """Absolute error divided by a predicted scale, which must be positive.

    Examples
    --------
    >>> predictions = [[1.0, 0.5], [2.0, 1.0]]
    >>> Normalized().evaluate(predictions, [1.5, 0.0])
    array([1., 2.])
    >>> Normalized().interval(predictions, 0.5)
    array([[0.75, 1.25],
           [1.5 , 2.5 ]])

    References
    ----------
    Papadopoulos, Gammerman and Vovk, "Normalized nonconformity measures for regression conformal prediction", 2008.
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
