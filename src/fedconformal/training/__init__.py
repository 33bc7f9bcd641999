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

__all__ = [
    "Central",
    "ClientData",
    "FedAvg",
    "FedProx",
    "Preprocess",
    "RoundState",
    "Trainer",
    "as_clients",
    "normalise",
]
