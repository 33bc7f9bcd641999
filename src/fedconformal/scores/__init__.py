"""How badly a label or a number fits: low scores conform. Every score in a file here is found by its name."""

from functools import partial
from typing import TYPE_CHECKING

from fedconformal._base import registry
from fedconformal._base.lazy import imported_late
from fedconformal.scores.any_score import AnyScore
from fedconformal.scores.lac import LAC
from fedconformal.scores.regression_score import RegressionScore
from fedconformal.scores.score import Score

if TYPE_CHECKING:  # imported when they are first used
    from fedconformal.scores.aps import APS
    from fedconformal.scores.cqr import CQR
    from fedconformal.scores.margin import Margin
    from fedconformal.scores.normalized import Normalized
    from fedconformal.scores.raps import RAPS
    from fedconformal.scores.residual import Residual
    from fedconformal.scores.saps import SAPS
    from fedconformal.scores.signed import Signed
    from fedconformal.scores.topk import TopK

__all__ = [
    "APS",
    "CQR",
    "DEFAULT",
    "LAC",
    "RAPS",
    "SAPS",
    "AnyScore",
    "Margin",
    "Normalized",
    "RegressionScore",
    "Residual",
    "Score",
    "Signed",
    "TopK",
]

DEFAULT: Score = LAC()
"""What is used where no score is named; docs/scores.md has the evidence."""

if not TYPE_CHECKING:  # of which a type checker would conclude that there is every name
    __getattr__, __dir__ = imported_late(__name__, {}, partial(registry.public, base=AnyScore))
