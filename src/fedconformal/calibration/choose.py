"""Which predictor a calibration gives: of thresholds for losses, of intervals for numbers, of sets otherwise."""

from __future__ import annotations

from typing import Any

from fedconformal.calibration.document import Document
from fedconformal.calibration.interval_predictor import IntervalPredictor
from fedconformal.calibration.predictor import Predictor
from fedconformal.calibration.result import Calibration
from fedconformal.calibration.risk_predictor import RiskPredictor
from fedconformal.errors import InputError

AnyPredictor = Predictor | IntervalPredictor


def as_predictor(found: Document) -> AnyPredictor:
    """Refuse a document of another kind than sets or intervals."""
    if not isinstance(found, AnyPredictor):
        raise InputError(f"is a {found.kind}; expected a predictor of sets or intervals")
    return found


def predictor_of(result: Calibration) -> Any:
    """Make the predictor that goes with the summaries.

    >>> from fedconformal import Residual, Summary, calibrate
    >>> calibrate([Summary.of_scores([0.5] * 9, score=Residual(), site="a")])
    IntervalPredictor(Residual(), alpha=0.1, threshold=0.5, certified: mixture of 1 site)
    """
    if result.certificate.risk is not None:
        return RiskPredictor(certificate=result.certificate, curve=result.curve)
    made = IntervalPredictor if result.certificate.intervals else Predictor
    return made(certificate=result.certificate, curve=result.curve, site_curves=result.site_curves)
