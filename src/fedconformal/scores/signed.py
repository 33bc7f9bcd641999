"""The error with its sign: an interval with two ends of its own.

A model that errs to one side gets an interval that is not symmetric around its prediction. The two ends share alpha
between them. Linusson, Johansson and Lofstrom, "Signed-error conformal regression", 2014.
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
    """y - prediction, over a scale if the model predicts one; each end of the interval is calibrated by itself.

    Attributes:
        scaled: whether the model predicts a scale too, above zero, in a second column.
        lower: the share of alpha that the lower end may miss; the upper end may miss the rest.

    >>> Signed().evaluate([1.0, 2.0], [1.5, 0.0])
    array([ 0.5, -2. ])
    >>> Signed().interval([1.0, 2.0], 0.5, lower=-0.25)
    array([[0.75, 1.5 ],
           [1.75, 2.5 ]])
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
