"""FedProx: FedAvg with mu/2 times the squared distance from the global weights added to each site's loss.

Li, Sahu, Zaheer, Sanjabi, Talwalkar and Smith, "Federated optimization in heterogeneous networks", 2020.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedconformal.errors import InputError
from fedconformal.training.fedavg import FedAvg


@dataclass(frozen=True, kw_only=True)
class FedProx(FedAvg):
    """FedAvg with a proximal term.

    Attributes:
        mu: strength of the proximal term.

    >>> FedProx(rounds=5).mu
    0.1
    """

    name: ClassVar[str] = "fedprox"

    mu: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.mu < float("inf"):
            raise InputError(f"mu is {self.mu}, expected a number from 0")

    @property
    def proximal(self) -> float:
        return self.mu
