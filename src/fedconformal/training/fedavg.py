"""Federated averaging: `local_sgd` at every site, then `FedAvg.run_round` at the server, state in, state out.

McMahan, Moore, Ramage, Hampson and Agüera y Arcas, "Communication-efficient learning of deep networks from
decentralized data", 2017. The running statistics of BatchNorm are averaged like weights.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from fedconformal.errors import InputError
from fedconformal.federated.ask import Ask
from fedconformal.training.clients import ClientData, PackedClients, pack
from fedconformal.training.preprocess import Preprocess
from fedconformal.training.step import Step, Update, WeightedMean
from fedconformal.training.trainer import (
    FlatModel,
    OnRound,
    RoundState,
    Trainer,
    find_device,
    weights_of,
    with_weights,
)

logger = logging.getLogger(__name__)

Loss = Literal["cross-entropy", "squared", "pinball"]


def local_sgd(
    model: FlatModel, weights: Tensor, x: Tensor, y: Tensor, preprocess: Preprocess, settings: FedAvg, seed: int
) -> Update:
    """Run epochs of stochastic gradient descent with momentum at one site, from the global weights."""
    device = model.vector.device
    model.vector.copy_(weights)
    model.module.train()
    if device.type == "cpu":  # seeding all devices costs more than a step where there is no other
        torch.default_generator.manual_seed(seed)
    else:
        torch.manual_seed(seed)
    loss_function = loss_of(settings.loss, settings.quantiles, model.module)
    channels_last = device.type == "cpu" and getattr(model.module, "channels_last", False)
    trained, speed, losses = model.vector[: model.trained], torch.zeros_like(model.gradient), []
    start = trained.clone()
    for _ in range(settings.epochs):
        for rows in batches(len(y), settings.batch, balance(y) if settings.balanced else None):
            chosen = rows.to(device)
            model.gradient.zero_()
            inputs = preprocess.training(x[chosen])
            if channels_last:  # up to a fifth faster; `contiguous` would leave a single channel as it is
                inputs = torch.empty_like(inputs, memory_format=torch.channels_last).copy_(inputs)
            loss = loss_function(model.module(inputs), y[chosen])
            loss.backward()
            losses.append(loss.detach())
            if settings.proximal:
                model.gradient.add_(trained - start, alpha=settings.proximal)
            speed.mul_(settings.momentum).add_(model.gradient)
            trained.add_(speed, alpha=-settings.rate)
    result, numbers = model.vector.cpu(), {"loss": float(torch.stack(losses).mean())}
    return Update(len(y), {"weights": result}, numbers, finite=bool(result.isfinite().all()))


@dataclass(frozen=True, kw_only=True)
class FedAvg(Trainer):
    """Average the sites' weights after local epochs.

    Attributes:
        loss: "cross-entropy" for classes; "squared" or "pinball" for numbers. None suits the data set of a run, and is
            cross-entropy in `fit`.
        quantiles: of the pinball loss: lower and upper, or lower, middle and upper.

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
        rising = all(a < b for a, b in zip([0.0, *self.quantiles], [*self.quantiles, 1.0], strict=True))
        if len(self.quantiles) not in (2, 3) or not rising:
            given = ", ".join(f"{one:g}" for one in self.quantiles)
            expected = "expected a lower, perhaps a middle, and an upper one"
            raise InputError(f"quantiles are {given}, {expected}", param="quantiles")

    @property
    def numbers(self) -> bool:
        return self.loss not in (None, "cross-entropy")

    @property
    def proximal(self) -> float:
        """Strength of the proximal term; zero but for FedProx."""
        return 0.0

    @classmethod
    def like(cls, other: Trainer) -> FedAvg:
        """Return FedAvg with the settings of another trainer."""
        if isinstance(other, cls):
            return other
        return cls(**{one.name: getattr(other, one.name) for one in fields(Trainer)})

    def average(
        self,
        ask: Ask[Step, Update],
        weights: Mapping[str, Tensor],
        on_round: OnRound,
        resume: RoundState | None = None,
    ) -> Mapping[str, Tensor]:
        """Run all rounds from these weights or a state, and return the last global weights."""
        state = RoundState(round=0, stage=self.name, tensors=weights)
        if resume is not None:
            tensors = {name: resume.tensor(name, one.shape) for name, one in weights.items()}
            state = RoundState(round=resume.round, stage=self.name, tensors=tensors)
        while state.round < self.rounds:
            state = self.run_round(ask, state)
            on_round(state)
        return state.tensors

    def run_round(self, ask: Ask[Step, Update], state: RoundState) -> RoundState:
        """Ask every site to train from the global weights, and return the state with the mean of their weights."""
        mean, refused, number = WeightedMean(), 0, state.round + 1
        for site, update, _ in ask(Step("train", state.tensors, {"round": state.round})):
            if update.finite:
                arrays = {name: tensor.numpy() for name, tensor in update.tensors.items()}
                mean.add(self.share(update.rows), arrays, update.numbers)
            else:
                refused += 1
                logger.warning("round %d: the weights of %s are not finite; the round goes on without it", number, site)
        if not mean.sites:
            raise InputError(f"round {number}: no client's weights are finite; try a smaller rate", param="rate")
        means = mean.arrays({name: tensor.numpy() for name, tensor in state.tensors.items()})
        weights = {name: torch.from_numpy(array) for name, array in means.items()}
        metrics = {**mean.numbers(), "refused": float(refused)}
        return RoundState(round=number, stage=self.name, tensors=weights, metrics=metrics)

    def _train(
        self, model: nn.Module, sites: list[ClientData], on_round: OnRound, resume: RoundState | None
    ) -> nn.Module:
        device = find_device(self.device)
        task = LocalTraining(module=model, clients=pack(sites).to(device), settings=self, device=device)
        with self._pool(task, sites, device) as pool:
            weights = self.average(pool.ask, {"weights": weights_of(model)}, on_round, resume)
        return with_weights(model, weights["weights"])


@dataclass(frozen=True, kw_only=True)
class Central(FedAvg):
    """Baseline that trains on the pooled rows of all sites."""

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
    device: torch.device
    _model: FlatModel | None = field(default=None, init=False)

    def __getstate__(self) -> dict[str, object]:
        # In a copied model, weights and gradients would no longer be views of one vector.
        return {**vars(self), "_model": None}

    def __call__(self, site: int, step: Step) -> Update:
        """Train at one site; the step holds the global weights and the number of the round."""
        self._model = self._model or FlatModel(self.module, self.device)
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

    A single last row joins the batch before it, because BatchNorm needs two.

    >>> [len(rows) for rows in batches(129, 64)]
    [64, 65]
    """
    order = torch.randperm(n) if weights is None else torch.multinomial(weights, n, replacement=True)
    dealt = list(order.split(size))
    if len(dealt) > 1 and len(dealt[-1]) == 1:
        dealt[-2:] = [torch.cat(dealt[-2:])]
    return dealt


def loss_of(loss: Loss | None, quantiles: Sequence[float], model: nn.Module) -> Callable[[Tensor, Tensor], Tensor]:
    """Return the mean loss of a batch; numbers are compared in units of the model's `scale`, if it has one.

    The pinball loss of a quantile q is q times how far the value is above the prediction, or 1 - q times how far it is
    below. Koenker and Bassett, "Regression quantiles", 1978.
    """
    if loss in (None, "cross-entropy"):
        return functional.cross_entropy
    unit, wanted = float(getattr(model, "scale", 1.0)), len(quantiles) if loss == "pinball" else 1
    levels = torch.tensor(tuple(quantiles))

    def mean_loss(outputs: Tensor, y: Tensor) -> Tensor:
        if outputs.shape != (len(y), wanted):
            raise InputError(f"the model's outputs have shape {tuple(outputs.shape)}, {loss} needs {(len(y), wanted)}")
        above = (y.to(outputs.dtype)[:, None] - outputs) / unit
        if loss == "squared":
            return above.square().mean()
        at = levels.to(outputs)
        return torch.maximum(at * above, (at - 1) * above).sum(dim=1).mean()

    return mean_loss
