"""FedProx: FedAvg with mu/2 times the squared distance from the global weights added to each site's loss.

Li, Sahu, Zaheer, Sanjabi, Talwalkar and Smith, "Federated optimization in heterogeneous networks", 2020.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from fedconformal.training.fedavg import FedAvg


@dataclass(frozen=True, kw_only=True)
class FedProx(FedAvg):
    """FedAvg with a proximal term.

    Attributes:
        mu: strength of the proximal term.
    """

    name: ClassVar[str] = "fedprox"

    mu: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require(["mu"], lambda value: 0 <= value < math.inf, "a number from 0")

    @property
    def proximal(self) -> float:
        return self.mu
