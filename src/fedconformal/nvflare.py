"""Calibration and evaluation on NVFlare: the documented path of `engines/nvflare.py`."""

from fedconformal.engines.nvflare import (
    calibrate,
    calibrate_reply,
    calibrate_risk,
    evaluate,
    evaluate_reply,
    fingerprint,
    watch,
    watch_reply,
)

__all__ = [
    "calibrate",
    "calibrate_reply",
    "calibrate_risk",
    "evaluate",
    "evaluate_reply",
    "fingerprint",
    "watch",
    "watch_reply",
]
