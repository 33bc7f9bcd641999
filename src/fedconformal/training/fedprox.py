"""FedProx: FedAvg with mu/2 times the squared distance from the global weights added to each site's loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from msgspec import Meta

from fedconformal.training.fedavg import FedAvg


@dataclass(frozen=True, kw_only=True)
class FedProx(FedAvg):
    """FedAvg with a proximal term; the other parameters are those of `Trainer`.

    Parameters
    ----------
    mu
        Strength of the proximal term.

    Examples
    --------
    >>> FedProx(rounds=50, mu=0.01).proximal
    0.01

    References
    ----------
    Li, Sahu, Zaheer, Sanjabi, Talwalkar and Smith, "Federated optimization in heterogeneous networks", 2020.
    """

    name: ClassVar[str] = "fedprox"

    mu: Annotated[float, Meta(ge=0, le=1e300)] = 0.1

    @property
    def proximal(self) -> float:
        return self.mu
