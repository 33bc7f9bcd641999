"""Federated averaging: clients train from the global weights, and the weighted mean is the next global weights.

McMahan, Moore, Ramage, Hampson and Agüera y Arcas, "Communication-efficient learning of deep networks from
decentralized data", 2017. The running statistics of BatchNorm are averaged like weights.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from fedconformal.errors import InputError
from fedconformal.federated.clients import ClientData, pack
from fedconformal.federated.local import LocalTraining, weights_of, with_weights
from fedconformal.federated.trainer import Course, RoundState, Trainer, find_device
from fedconformal.federated.workers import Crew, one_thread

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class FedAvg(Trainer):
    """Average the clients' weights after some local epochs.

    >>> x, y = torch.tensor([[-1.0], [1.0]]).repeat(20, 1), torch.tensor([0, 1]).repeat(20)
    >>> model = FedAvg(rounds=5, rate=0.5, workers=1).fit(nn.Linear(1, 2), [(x[:30], y[:30]), (x[30:], y[30:])])
    >>> model(torch.tensor([[-1.0], [1.0]])).argmax(dim=1)
    tensor([0, 1])
    """

    name: ClassVar[str] = "fedavg"

    def _train(self, model: nn.Module, sites: list[ClientData], course: Course) -> nn.Module:
        sites = self._sites(sites)
        weights, start = weights_of(model), 0
        if course.resume is not None:
            weights, start = _resumed(course.resume, weights), course.resume.round
        shares = [float(site.n) if self.weighting == "examples" else 1.0 for site in sites]
        with one_thread(), self._crew(model, sites, len(weights)) as crew:
            for number in range(start, self.rounds):
                mean = _Mean(len(weights))
                for done in crew.round(weights, number):
                    loss, finite = done.info
                    if finite:
                        mean.add(done.out, shares[done.client], loss)
                    else:
                        _refuse(sites[done.client].name, number)
                    text = f"{self.name}: round {number + 1} of {self.rounds}"
                    course.tell(number * len(sites) + done.client + 1, self.rounds * len(sites), text)
                weights, metrics = mean.result(number)
                metrics["refused"] = float(len(sites) - mean.count)
                course.hand_out(number + 1, self.name, {"weights": weights}, metrics)
        return with_weights(model, weights)

    @property
    def proximal(self) -> float:
        """How strongly a client is held at the global weights; FedProx has its own."""
        return 0.0

    def _sites(self, clients: list[ClientData]) -> list[ClientData]:
        return clients

    def _crew(self, model: nn.Module, sites: Sequence[ClientData], size: int) -> Crew:
        device = find_device(self.device)
        task = LocalTraining(
            module=model,
            clients=pack(sites).to(device),
            epochs=self.epochs,
            rate=self.rate,
            momentum=self.momentum,
            batch=self.batch,
            seed=self.seed,
            proximal=self.proximal,
            device=device,
        )
        workers = self.workers if device.type == "cpu" else 1
        sizes = [site.n for site in sites]
        return Crew(task, [site.name for site in sites], vector=size, out=size, workers=workers, costs=sizes)


class _Mean:
    """A weighted mean in float64, in the order in which the clients come."""

    def __init__(self, size: int) -> None:
        self.total = torch.zeros(size, dtype=torch.float64)
        self.loss = self.share = 0.0
        self.count = 0

    def add(self, weights: Tensor, share: float, loss: float) -> None:
        self.total.add_(weights, alpha=share)
        self.loss += share * loss
        self.share += share
        self.count += 1

    def result(self, number: int) -> tuple[Tensor, dict[str, float]]:
        if not self.count:
            raise InputError(f"round {number + 1}: no client's weights are finite; try a smaller rate")
        return (self.total / self.share).to(torch.float32), {"loss": self.loss / self.share}


def _refuse(name: str, number: int) -> None:
    logger.warning("round %d: the weights of %s are not finite; the round goes on without it", number + 1, name)


def _resumed(state: RoundState, weights: Tensor) -> Tensor:
    found = state.tensors.get("weights")
    if found is None or found.shape != weights.shape:
        raise InputError("resume: the state is not from this model")
    return found.to(torch.float32)
