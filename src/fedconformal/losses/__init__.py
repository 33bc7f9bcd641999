"""Losses in [0, 1]; losses in modules of this package are registered by name."""

from fedconformal.losses.false_discovery_rate import FalseDiscoveryRate
from fedconformal.losses.false_negative_rate import FalseNegativeRate
from fedconformal.losses.loss import Loss
from fedconformal.losses.selective_error import SelectiveError

__all__ = ["FalseDiscoveryRate", "FalseNegativeRate", "Loss", "SelectiveError"]
