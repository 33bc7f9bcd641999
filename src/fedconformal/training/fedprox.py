"""FedProx: FedAvg with mu/2 times the squared distance from the global weights added to each site's loss.

Li, Sahu, Zaheer, Sanjabi, Talwalkar and Smith, "Federated optimization in heterogeneous networks", 2020.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from msgspec import Meta

from fedconformal.training.fedavg import FedAvg


@dataclass(frozen=True, kw_only=True)
class FedProx(FedAvg):
    """FedAvg with a proximal term.

    Attributes:
        mu: strength of the proximal term.
    """

    name: ClassVar[str] = "fedprox"

    mu: Annotated[float, Meta(ge=0, le=1e300)] = 0.1

    @property
    def proximal(self) -> float:
        return self.mu
