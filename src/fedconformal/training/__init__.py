"""Learning one model across clients: FedAvg, FedProx, TCT, and all rows in one place to compare with."""

from __future__ import annotations

try:
    import torch as _torch  # noqa: F401
except ImportError:
    from fedconformal.errors import InputError

    raise InputError("training needs torch: pip install 'fedconformal[train]'") from None

from fedconformal.training.base import RoundState, Trainer
from fedconformal.training.central import Central
from fedconformal.training.clients import ClientData, as_clients
from fedconformal.training.fedavg import FedAvg
from fedconformal.training.fedprox import FedProx
from fedconformal.training.preprocess import Preprocess, normalise
from fedconformal.training.tct import TCT, LinearisedModel
from fedconformal.training.temperature import Temperature, fit_temperature

__all__ = [
    "TCT",
    "Central",
    "ClientData",
    "FedAvg",
    "FedProx",
    "LinearisedModel",
    "Preprocess",
    "RoundState",
    "Temperature",
    "Trainer",
    "as_clients",
    "fit_temperature",
    "normalise",
]
