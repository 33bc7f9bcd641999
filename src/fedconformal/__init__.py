"""Prediction sets with a finite-sample guarantee, for models trained across sites that may not share data."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from fedconformal._base.lazy import imported_late
from fedconformal._version import __version__

if TYPE_CHECKING:
    from fedconformal._base.arrays import softmax
    from fedconformal.calibration.calibrate import calibrate
    from fedconformal.calibration.certificate import Certificate
    from fedconformal.calibration.classifier import FederatedConformalClassifier
    from fedconformal.calibration.document import load
    from fedconformal.calibration.interval_predictor import IntervalPredictor
    from fedconformal.calibration.leave_one_out import leave_one_site_out
    from fedconformal.calibration.plan import plan
    from fedconformal.calibration.plan_risk import plan_risk
    from fedconformal.calibration.predictor import Predictor
    from fedconformal.calibration.recalibrate import recalibrate
    from fedconformal.calibration.regressor import FederatedConformalRegressor
    from fedconformal.calibration.risk_predictor import RiskPredictor
    from fedconformal.errors import (
        ClassCountsWarning,
        HeavySiteWarning,
        InfeasibleWarning,
        InputError,
    )
    from fedconformal.evaluation import (
        Evaluation,
        IntervalEvaluation,
        evaluate_intervals,
        evaluate_sets,
        selective_classification,
    )
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
    from fedconformal.guarantees.label_shift import confusion
    from fedconformal.losses import FalseDiscoveryRate, FalseNegativeRate, Loss, SelectiveError
    from fedconformal.monitoring.change import ChangeDetector
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

_WHERE = {
    "_base.arrays": ("softmax",),
    "calibration.calibrate": ("calibrate",),
    "calibration.certificate": ("Certificate",),
    "calibration.classifier": ("FederatedConformalClassifier",),
    "calibration.interval_predictor": ("IntervalPredictor",),
    "calibration.leave_one_out": ("leave_one_site_out",),
    "calibration.plan": ("plan",),
    "calibration.plan_risk": ("plan_risk",),
    "calibration.recalibrate": ("recalibrate",),
    "calibration.regressor": ("FederatedConformalRegressor",),
    "calibration.document": ("load",),
    "calibration.predictor": ("Predictor",),
    "calibration.risk_predictor": ("RiskPredictor",),
    "errors": ("ClassCountsWarning", "HeavySiteWarning", "InfeasibleWarning", "InputError"),
    "evaluation": (
        "Evaluation",
        "IntervalEvaluation",
        "evaluate_intervals",
        "evaluate_sets",
        "selective_classification",
    ),
    "guarantees.label_shift": ("confusion",),
    "monitoring.change": ("ChangeDetector",),
    "monitoring.monitor": ("Monitor",),
    "summaries": ("LossSummary", "Summary", "pool", "summarize"),
    "verification": ("verify",),
}
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
    "ChangeDetector",
    "ClassCountsWarning",
    "Evaluation",
    "EverySite",
    "FalseDiscoveryRate",
    "FalseNegativeRate",
    "FederatedConformalClassifier",
    "FederatedConformalRegressor",
    "Guarantee",
    "HeavySiteWarning",
    "InfeasibleWarning",
    "InputError",
    "IntervalEvaluation",
    "IntervalPredictor",
    "LearnThenTest",
    "Loss",
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
    "__version__",
    "calibrate",
    "confusion",
    "evaluate_intervals",
    "evaluate_sets",
    "leave_one_site_out",
    "load",
    "plan",
    "plan_risk",
    "pool",
    "recalibrate",
    "selective_classification",
    "softmax",
    "summarize",
    "verify",
]


def _member(name: str) -> Any:
    """Find a score, a guarantee or a loss: a new one is public as soon as its file is there."""
    for package in ("scores", "guarantees", "losses") if name[:1].isupper() else ():
        found = getattr(importlib.import_module(f"{__name__}.{package}"), name, None)
        if found is not None:
            return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


if not TYPE_CHECKING:  # of which a type checker would conclude that there is every name
    __getattr__, __dir__ = imported_late(__name__, _WHERE, _member)
