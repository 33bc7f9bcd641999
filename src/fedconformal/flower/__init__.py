"""Calibration on Flower: the same client and server app in one process, in simulation and in a deployment.

Beutel et al., "Flower: a friendly federated learning framework", 2020. A site gets one more kind of message, answers
with a summary of its scores, and the server turns the summaries into a predictor and its certificate.
"""

from __future__ import annotations

try:
    import flwr as _flwr  # noqa: F401
except ImportError:
    from fedconformal.errors import InputError

    raise InputError("running on Flower needs flwr: pip install 'fedconformal[flower]'") from None

from fedconformal.flower.calibration import Calibrated, calibrate, gather
from fedconformal.flower.client import calibrate_reply, evaluate_reply, keep_predictor, pooled_reply, temperature_reply
from fedconformal.flower.federation import Federation
from fedconformal.flower.in_process import InProcessGrid, run_in_process
from fedconformal.flower.strategy import CheckedFedAvg
from fedconformal.flower.sums import calibrate_by_sums
from fedconformal.flower.sums_site import later_step, sums_reply

__all__ = [
    "Calibrated",
    "CheckedFedAvg",
    "Federation",
    "InProcessGrid",
    "calibrate",
    "calibrate_by_sums",
    "calibrate_reply",
    "evaluate_reply",
    "gather",
    "keep_predictor",
    "later_step",
    "pooled_reply",
    "run_in_process",
    "sums_reply",
    "temperature_reply",
]
