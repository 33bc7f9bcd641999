"""Federated training: FedAvg, FedProx, TCT and a centralised baseline; data sets, partitions and networks."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from fedconformal.errors import requires_extra

if TYPE_CHECKING:
    from fedconformal.training.clients import ClientData, as_clients
    from fedconformal.training.fedavg import Central, FedAvg
    from fedconformal.training.fedprox import FedProx
    from fedconformal.training.outputs import summarize_sites
    from fedconformal.training.preprocess import Preprocess, normalise
    from fedconformal.training.step import RoundState
    from fedconformal.training.tct import TCT, LinearisedModel
    from fedconformal.training.trainer import Trainer

__all__ = [
    "TCT",
    "Central",
    "ClientData",
    "FedAvg",
    "FedProx",
    "LinearisedModel",
    "Preprocess",
    "RoundState",
    "Trainer",
    "as_clients",
    "normalise",
    "summarize_sites",
]

_MODULES = ("clients", "fedavg", "fedprox", "outputs", "preprocess", "step", "tct", "trainer")


def __getattr__(name: str) -> Any:
    """Import torch on first use; the data sets work without it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with requires_extra("train"):
        modules = [importlib.import_module(f"{__name__}.{module}") for module in _MODULES]
    return next(vars(module)[name] for module in modules if name in vars(module))


def __dir__() -> list[str]:
    return __all__
