"""Nonconformity scores for classification and regression; scores in modules of this package are registered by name."""

from fedconformal.scores.aps import APS
from fedconformal.scores.cqr import CQR
from fedconformal.scores.lac import LAC
from fedconformal.scores.margin import Margin
from fedconformal.scores.normalized import Normalized
from fedconformal.scores.raps import RAPS
from fedconformal.scores.regression_score import RegressionScore
from fedconformal.scores.residual import Residual
from fedconformal.scores.saps import SAPS
from fedconformal.scores.score import AnyScore, Score
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
"""Default score; see docs/scores.md for the comparison."""
