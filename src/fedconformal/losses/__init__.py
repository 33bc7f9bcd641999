"""How bad an answer is, as a number from 0 to 1. Every loss in a file here is found by its name."""

from functools import partial
from typing import TYPE_CHECKING

from fedconformal._base import registry
from fedconformal._base.lazy import imported_late
from fedconformal.losses.loss import Loss

if TYPE_CHECKING:  # imported when they are first used
    from fedconformal.losses.false_discovery_rate import FalseDiscoveryRate
    from fedconformal.losses.false_negative_rate import FalseNegativeRate
    from fedconformal.losses.selective_error import SelectiveError

__all__ = ["FalseDiscoveryRate", "FalseNegativeRate", "Loss", "SelectiveError"]

if not TYPE_CHECKING:  # of which a type checker would conclude that there is every name
    __getattr__, __dir__ = imported_late(__name__, {}, partial(registry.public, base=Loss))
