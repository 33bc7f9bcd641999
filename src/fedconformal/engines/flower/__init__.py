"""Flower as a transport: the same client and server app in one process, in simulation and on a deployment.

Beutel et al., "Flower: a friendly federated learning framework", 2020. A site answers an additional message with
a summary of its scores, and the server computes a predictor with its certificate from the summaries.
"""

from __future__ import annotations

from fedconformal.errors import requires_extra

with requires_extra("flower"):
    from fedconformal.engines.flower.client import (
        calibrate_reply,
        evaluate_reply,
        keep_predictor,
        later_step,
        sums_reply,
        temperature_reply,
        watch_reply,
    )
    from fedconformal.engines.flower.federation import Federation
    from fedconformal.engines.flower.in_process import InProcessGrid, run_in_process
    from fedconformal.federated.calibration import Calibrated, calibrate
    from fedconformal.federated.evaluation import Counts, evaluate
    from fedconformal.federated.sums import calibrate_by_sums
    from fedconformal.federated.watch import Watched, watch

__all__ = [
    "Calibrated",
    "Counts",
    "Federation",
    "InProcessGrid",
    "Watched",
    "calibrate",
    "calibrate_by_sums",
    "calibrate_reply",
    "evaluate",
    "evaluate_reply",
    "keep_predictor",
    "later_step",
    "run_in_process",
    "sums_reply",
    "temperature_reply",
    "watch",
    "watch_reply",
]
