"""Federated averaging: `local_sgd` at every site, then `FedAvg.run_round` at the server, state in, state out.

The running statistics of BatchNorm are averaged like weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from fedconformal.federated.ask import Ask
from fedconformal.training.clients import ClientData, PackedClients, pack
from fedconformal.training.preprocess import Preprocess
from fedconformal.training.step import OnRound, RoundState, Step, Update, average
from fedconformal.training.trainer import Trainer
from fedconformal.training.weights import FlatModel, weights_of, with_weights


def local_sgd(
    model: FlatModel, weights: Tensor, x: Tensor, y: Tensor, preprocess: Preprocess, settings: FedAvg, seed: int
) -> Update:
    """Run epochs of stochastic gradient descent with momentum at one site, from the global weights."""
    device = model.vector.device
    model.vector.copy_(weights)
    model.module.train()
    torch.manual_seed(seed)
    channels_last = device.type == "cpu" and getattr(model.module, "channels_last", False)
    trained, velocity, losses = model.vector[: model.trained], torch.zeros_like(model.gradient), []
    start = trained.clone()
    for _ in range(settings.epochs):
        for rows in batches(len(y), settings.batch, balance(y) if settings.balanced else None):
            index = rows.to(device)
            model.gradient.zero_()
            inputs = preprocess.training(x[index])
            if channels_last:  # up to 20 % faster; `contiguous` would not convert a single channel
                inputs = torch.empty_like(inputs, memory_format=torch.channels_last).copy_(inputs)
            loss = functional.cross_entropy(model.module(inputs), y[index])
            loss.backward()
            losses.append(loss.detach())
            if settings.proximal:
                model.gradient.add_(trained - start, alpha=settings.proximal)
            velocity.mul_(settings.momentum).add_(model.gradient)
            trained.add_(velocity, alpha=-settings.rate)
    result, numbers = model.vector.cpu(), {"loss": float(torch.stack(losses).mean())}
    return Update(len(y), {"weights": result}, numbers, finite=bool(result.isfinite().all()))


@dataclass(frozen=True, kw_only=True)
class FedAvg(Trainer):
    """Average the sites' weights after local epochs; the parameters are those of `Trainer`.

    Examples
    --------
    >>> x, y = torch.tensor([[-1.0], [1.0]]).repeat(20, 1), torch.tensor([0, 1]).repeat(20)
    >>> model = FedAvg(rounds=5, rate=0.5, workers=1).fit(nn.Linear(1, 2), [(x[:30], y[:30]), (x[30:], y[30:])])
    >>> model(torch.tensor([[-1.0], [1.0]])).argmax(dim=1)
    tensor([0, 1])

    References
    ----------
    McMahan, Moore, Ramage, Hampson and Agüera y Arcas, "Communication-efficient learning of deep networks from
    decentralized data", 2017.
    """

    name: ClassVar[str] = "fedavg"

    @property
    def proximal(self) -> float:
        """Strength of the proximal term; zero except in FedProx."""
        return 0.0

    def run_round(self, ask: Ask[Step, Update], state: RoundState) -> RoundState:
        """Train at every site from the global weights, and return the state with the mean of the sites' weights."""
        number = state.round + 1
        mean = average(
            ask(Step("train", state.tensors, {"round": state.round})), state.tensors, self.share, number=number
        )
        return RoundState(round=number, stage=self.name, tensors=mean.tensors, metrics=mean.numbers)

    def run(
        self,
        ask: Ask[Step, Update],
        weights: Mapping[str, Tensor],
        on_round: OnRound,
        resume: RoundState | None = None,
    ) -> Mapping[str, Tensor]:
        """Run all rounds from these weights or a state, and return the last global weights."""
        state = RoundState(round=0, stage=self.name, tensors=weights)
        if resume is not None:
            tensors = {name: resume.tensor(name, tensor.shape) for name, tensor in weights.items()}
            state = RoundState(round=resume.round, stage=self.name, tensors=tensors)
        while state.round < self.rounds:
            state = self.run_round(ask, state)
            on_round(state)
        return state.tensors

    def _train(
        self, model: nn.Module, sites: list[ClientData], on_round: OnRound, resume: RoundState | None
    ) -> nn.Module:
        task = LocalTraining(module=model, clients=pack(sites).to(self.torch_device), settings=self)
        with self._engine(task, sites) as ask:
            weights = self.run(ask, {"weights": weights_of(model)}, on_round, resume)
        return with_weights(model, weights["weights"])


@dataclass(frozen=True, kw_only=True)
class Central(FedAvg):
    """Baseline that trains on the pooled rows of all sites; the parameters are those of `Trainer`."""

    name: ClassVar[str] = "central"

    def _train(
        self, model: nn.Module, sites: list[ClientData], on_round: OnRound, resume: RoundState | None
    ) -> nn.Module:
        rows = pack(sites)
        pooled = ClientData(name="all clients", x=rows.x, y=rows.y, preprocess=rows.preprocess)
        return super()._train(model, [pooled], on_round, resume)


@dataclass(eq=False, kw_only=True)
class LocalTraining:
    """The task of the worker processes: `local_sgd` at one of the sites."""

    module: nn.Module
    clients: PackedClients
    settings: FedAvg
    _model: FlatModel | None = field(default=None, init=False)

    def __getstate__(self) -> dict[str, object]:
        # In a copied model, weights and gradients would no longer be views of one vector.
        return {**vars(self), "_model": None}

    def __call__(self, site: int, step: Step) -> Update:
        """Train at one site; the step holds the global weights and the number of the round."""
        self._model = self._model or FlatModel(self.module, self.clients.x.device)
        seed = client_seed(self.settings.seed, int(step.numbers["round"]), site)
        rows, preprocess = self.clients.rows(site), self.clients.preprocess
        return local_sgd(self._model, step.tensors["weights"], *rows, preprocess, self.settings, seed)


def client_seed(seed: int, number: int, client: int) -> int:
    """Return the seed of one site in one round."""
    return int(np.random.SeedSequence((seed, number, client)).generate_state(1, np.uint64)[0] >> np.uint64(1))


def balance(y: Tensor) -> Tensor:
    """Return the inverse class frequency of each row."""
    return 1 / torch.bincount(y).to(torch.float32)[y].cpu()


def batches(n: int, size: int, weights: Tensor | None = None) -> list[Tensor]:
    """Draw batches of rows in random order, or with replacement by weight.

    A final batch of one row is merged into the batch before it, because BatchNorm needs two rows.

    >>> [len(rows) for rows in batches(129, 64)]
    [64, 65]
    """
    order = torch.randperm(n) if weights is None else torch.multinomial(weights, n, replacement=True)
    parts = list(order.split(size))
    if len(parts) > 1 and len(parts[-1]) == 1:
        parts[-2:] = [torch.cat(parts[-2:])]
    return parts
