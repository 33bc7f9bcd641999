"""Public names of `import fedconformal as fc`, imported lazily."""

from typing import TYPE_CHECKING

from fedconformal._base.arrays import softmax
from fedconformal.calibration.calibrate import calibrate, recalibrate
from fedconformal.calibration.plan import plan
from fedconformal.calibration.predictor import Predictor, load
from fedconformal.certificates.certificate import Certificate
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

if TYPE_CHECKING:  # scikit-learn and torch are extras; `fedconformal.__getattr__` imports these names lazily
    from fedconformal.estimators import FederatedConformalClassifier, FederatedConformalRegressor
    from fedconformal.training import summarize_sites

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
    "summarize_sites",
    "verify",
]
