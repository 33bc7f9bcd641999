"""Signed error: intervals whose lower and upper ends are calibrated separately, and share alpha.

The interval of a biased model is not symmetric around its prediction.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from fedconformal._base.arrays import Booleans, Floats
from fedconformal.scores.normalized import POSITIVE
from fedconformal.scores.regression_score import RegressionScore, both_ends


@dataclass(frozen=True, kw_only=True)
class Signed(RegressionScore):
    """Signed error, optionally divided by a predicted scale; each end of the interval has its own threshold.

    Parameters
    ----------
    scaled
        Whether the model also predicts a positive scale, in a second column.
    lower
        Share of alpha for the lower end; the rest is for the upper end.

    Examples
    --------
    >>> Signed().evaluate([1.0, 2.0], [1.5, 0.0])
    array([ 0.5, -2. ])
    >>> Signed().interval([1.0, 2.0], 0.5, lower=-0.25)
    array([[0.75, 1.5 ],
           [1.75, 2.5 ]])

    References
    ----------
    Linusson, Johansson and Lofstrom, "Signed-error conformal regression", 2014.
    """

    name = "signed"

    scaled: bool = False
    lower: float = 0.5

    def __post_init__(self) -> None:
        self._check("scaled", bool, 0, 1)
        self._check("lower", float, 0.001, 0.999)
        object.__setattr__(self, "lower_share", Fraction(repr(self.lower)))

    @classmethod
    def examples(cls) -> tuple[Signed, ...]:
        return cls(), cls(scaled=True, lower=0.2)

    @property
    def columns(self) -> tuple[str, ...]:
        return ("prediction", "scale") if self.scaled else ("prediction",)

    def refused(self, columns: Floats) -> tuple[Booleans, str] | None:
        return (columns[1] <= 0, POSITIVE) if self.scaled else None

    def score_into(self, out: Floats, columns: Floats, y: Floats) -> None:
        np.subtract(y, columns[0], out=out)
        if self.scaled:
            out /= columns[1]

    def ends(self, columns: Floats, threshold: float, lower: float) -> tuple[Floats, Floats]:
        first, last = both_ends(columns, -lower, threshold)
        turned, middle = first > last, first / 2 + last / 2
        return np.where(turned, middle, first), np.where(turned, middle, last)
