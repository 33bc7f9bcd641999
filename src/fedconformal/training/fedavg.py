"""Federated averaging: sites train from the global weights, and the weighted mean is the next global weights.

McMahan, Moore, Ramage, Hampson and Agüera y Arcas, "Communication-efficient learning of deep networks from
decentralized data", 2017. The running statistics of BatchNorm are averaged like weights.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import ClassVar, get_args

import torch
from torch import Tensor, nn

from fedconformal.errors import InputError
from fedconformal.federated.ask import Ask
from fedconformal.training.clients import ClientData, pack
from fedconformal.training.local import LocalTraining, weights_of, with_weights
from fedconformal.training.losses import Loss, check_quantiles
from fedconformal.training.mean import WeightedMean
from fedconformal.training.step import Step, Update
from fedconformal.training.trainer import RoundState, Trainer, TrainingMonitor, find_device

logger = logging.getLogger(__name__)

Weights = Mapping[str, Tensor]


@dataclass(frozen=True, kw_only=True)
class FedAvg(Trainer):
    """Average the sites' weights after some local epochs.

    Attributes:
        loss: cross-entropy for classes; for numbers squared, or pinball for quantiles. None is what suits a run's
            data set, and cross-entropy in `fit`.
        quantiles: pinball: the lower one and the upper one, or three.

    >>> x, y = torch.tensor([[-1.0], [1.0]]).repeat(20, 1), torch.tensor([0, 1]).repeat(20)
    >>> model = FedAvg(rounds=5, rate=0.5, workers=1).fit(nn.Linear(1, 2), [(x[:30], y[:30]), (x[30:], y[30:])])
    >>> model(torch.tensor([[-1.0], [1.0]])).argmax(dim=1)
    tensor([0, 1])
    """

    name: ClassVar[str] = "fedavg"

    loss: Loss | None = None
    quantiles: tuple[float, ...] = (0.05, 0.95)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.loss not in (None, *get_args(Loss)):
            raise InputError(f"loss is {self.loss!r}; there are {', '.join(get_args(Loss))}")
        check_quantiles(self.quantiles)

    @property
    def numbers(self) -> bool:
        return self.loss not in (None, "cross-entropy")

    @classmethod
    def like(cls, other: Trainer) -> FedAvg:
        """Return FedAvg with the settings that another trainer shares; one of its kind is returned as it is."""
        if isinstance(other, cls):
            return other
        return cls(**{one.name: getattr(other, one.name) for one in fields(Trainer)})

    @property
    def proximal(self) -> float:
        """How strongly a site is held at the global weights; FedProx has its own."""
        return 0.0

    def average(self, ask: Ask[Step, Update], weights: Weights, monitor: TrainingMonitor) -> Weights:
        """Run the rounds from these weights, and return the last global weights."""
        start = 0
        if monitor.resume is not None:
            weights, start = _resumed(monitor.resume, weights), monitor.resume.round
        for number in range(start, self.rounds):
            mean, asked = WeightedMean(), 0
            for answer in ask(Step("train", weights, {"round": number})):
                update, asked = answer.value, asked + 1
                if update.finite:
                    mean.add(
                        self.share(update.rows),
                        {name: one.numpy() for name, one in update.tensors.items()},
                        update.numbers,
                    )
                else:
                    logger.warning(
                        "round %d: the weights of %s are not finite; the round goes on without it",
                        number + 1,
                        answer.name,
                    )
                monitor.progressed(number, asked, self.rounds, f"{self.name}: round {number + 1} of {self.rounds}")
            if not mean.sites:
                raise InputError(f"round {number + 1}: no client's weights are finite; try a smaller rate")
            found = mean.arrays({name: tensor.numpy() for name, tensor in weights.items()})
            weights = {name: torch.from_numpy(array) for name, array in found.items()}
            metrics = {**mean.numbers(), "refused": float(asked - mean.sites)}
            monitor.finished_round(number + 1, self.name, weights, metrics)
        return weights

    def _train(self, model: nn.Module, sites: list[ClientData], monitor: TrainingMonitor) -> nn.Module:
        sites = self._sites(sites)
        weights, device = weights_of(model), find_device(self.device)
        task = LocalTraining(module=model, clients=pack(sites).to(device), settings=self, device=device)
        with self._pool(task, sites, device, sent=len(weights), received=len(weights)) as pool:
            weights = self.average(pool.ask, {"weights": weights}, replace(monitor, sites=len(sites)))["weights"]
        return with_weights(model, weights)

    def _sites(self, clients: list[ClientData]) -> list[ClientData]:
        return clients


@dataclass(frozen=True, kw_only=True)
class Central(FedAvg):
    """Train on the rows of all sites together; a round is some epochs over all of them.

    It is there to be compared with, as it needs what federated training avoids.

    >>> Central(rounds=3).name
    'central'
    """

    name: ClassVar[str] = "central"

    def _sites(self, clients: list[ClientData]) -> list[ClientData]:
        rows = pack(clients)
        return [ClientData(name="all clients", x=rows.x, y=rows.y, preprocess=rows.preprocess)]


def _resumed(state: RoundState, weights: Weights) -> Weights:
    for name, tensor in weights.items():
        found = state.tensors.get(name)
        if found is None or found.shape != tensor.shape:
            raise InputError("resume: the state is not from this model", param="resume")
    return {name: state.tensors[name].to(tensor.dtype) for name, tensor in weights.items()}
