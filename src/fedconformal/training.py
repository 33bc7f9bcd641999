"""Learning one model across sites: FedAvg, FedProx, TCT, and all rows in one place to compare with."""

from __future__ import annotations

from fedconformal._base.extras import needing

with needing("train"):
    from fedconformal.calibration.temperature import Temperature, fit_temperature
    from fedconformal.federated.clients import ClientData, as_clients
    from fedconformal.federated.fedavg import Central, FedAvg
    from fedconformal.federated.fedprox import FedProx
    from fedconformal.federated.preprocess import Preprocess, normalise
    from fedconformal.federated.tct import TCT, LinearisedModel
    from fedconformal.federated.trainer import RoundState, Trainer

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
