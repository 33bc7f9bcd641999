"""How bad an answer is, as a number from 0 to 1. Every loss in a file here is found by its name."""

from typing import TYPE_CHECKING, Any

from fedconformal._base import registry
from fedconformal.losses.loss import Loss

if TYPE_CHECKING:  # imported when they are first used
    from fedconformal.losses.false_discovery_rate import FalseDiscoveryRate
    from fedconformal.losses.false_negative_rate import FalseNegativeRate
    from fedconformal.losses.selective_error import SelectiveError

__all__ = ["FalseDiscoveryRate", "FalseNegativeRate", "Loss", "SelectiveError"]

if not TYPE_CHECKING:  # of which a type checker would conclude that there is every name

    def __getattr__(name: str) -> Any:
        return registry.public(name, Loss)

    def __dir__() -> list[str]:
        return sorted(__all__)
