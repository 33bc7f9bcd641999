"""The names of `import fedconformal as fc`, imported when the first of them is used."""

from fedconformal._base.arrays import softmax
from fedconformal.calibration.calibrate import calibrate
from fedconformal.calibration.certificate import Certificate
from fedconformal.calibration.classifier import FederatedConformalClassifier
from fedconformal.calibration.document import load
from fedconformal.calibration.interval_predictor import IntervalPredictor
from fedconformal.calibration.plan import plan
from fedconformal.calibration.predictor import Predictor
from fedconformal.calibration.recalibrate import recalibrate
from fedconformal.calibration.regressor import FederatedConformalRegressor
from fedconformal.calibration.risk_predictor import RiskPredictor
from fedconformal.errors import InfeasibleWarning, InputError
from fedconformal.guarantees import (
    FCP,
    PAC,
    ByClass,
    ByGroup,
    EverySite,
    Guarantee,
    LearnThenTest,
    Mixture,
    NewSite,
    OneSite,
    Prevalence,
    QuantileOfQuantiles,
    Robust,
    WorstCase,
)
from fedconformal.losses import FalseDiscoveryRate, FalseNegativeRate, SelectiveError
from fedconformal.monitoring.monitor import Monitor
from fedconformal.scores import (
    APS,
    CQR,
    LAC,
    RAPS,
    SAPS,
    Margin,
    Normalized,
    RegressionScore,
    Residual,
    Score,
    Signed,
    TopK,
)
from fedconformal.summaries import LossSummary, Summary, pool, summarize
from fedconformal.verification import verify

__all__ = [
    "APS",
    "CQR",
    "FCP",
    "LAC",
    "PAC",
    "RAPS",
    "SAPS",
    "ByClass",
    "ByGroup",
    "Certificate",
    "EverySite",
    "FalseDiscoveryRate",
    "FalseNegativeRate",
    "FederatedConformalClassifier",
    "FederatedConformalRegressor",
    "Guarantee",
    "InfeasibleWarning",
    "InputError",
    "IntervalPredictor",
    "LearnThenTest",
    "LossSummary",
    "Margin",
    "Mixture",
    "Monitor",
    "NewSite",
    "Normalized",
    "OneSite",
    "Predictor",
    "Prevalence",
    "QuantileOfQuantiles",
    "RegressionScore",
    "Residual",
    "RiskPredictor",
    "Robust",
    "Score",
    "SelectiveError",
    "Signed",
    "Summary",
    "TopK",
    "WorstCase",
    "calibrate",
    "load",
    "plan",
    "pool",
    "recalibrate",
    "softmax",
    "summarize",
    "verify",
]
