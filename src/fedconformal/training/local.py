"""What a site does in a round: some epochs of stochastic gradient descent from the global weights.

The weights of the model are views of one vector, and so are its gradients. So loading the global weights is one copy
and a step of SGD is three operations on a vector, however many layers there are.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from fedconformal.errors import InputError
from fedconformal.training.clients import PackedClients
from fedconformal.training.losses import loss_of
from fedconformal.training.step import Step, Update

if TYPE_CHECKING:
    from fedconformal.training.fedavg import FedAvg


class FlatModel:
    """A model whose weights are views of one float32 vector: first what is trained, then what is only averaged.

    The second part holds frozen weights and buffers of floats, such as the running statistics of BatchNorm. Buffers
    of whole numbers, such as BatchNorm's count of batches, stay as they are.

    >>> flat = FlatModel(nn.Linear(2, 3))
    >>> flat.vector.shape, flat.trained
    (torch.Size([9]), 9)
    """

    def __init__(self, module: nn.Module, device: torch.device | None = None) -> None:
        self.module = copy.deepcopy(module).to(device or "cpu")
        parts = _parts(self.module)
        self.vector = torch.cat([tensor.detach().reshape(-1) for tensor in parts])
        self.trained = sum(tensor.numel() for tensor in parts if tensor.requires_grad)
        self.gradient = torch.zeros(self.trained, device=self.vector.device)
        start = 0
        for tensor in parts:
            place = slice(start, start + tensor.numel())
            tensor.data = self.vector[place].view(tensor.shape)
            if tensor.requires_grad:
                tensor.grad = self.gradient[place].view(tensor.shape)
            start = place.stop


def weights_of(module: nn.Module) -> Tensor:
    """Return all that is averaged of a model as one vector."""
    return torch.cat([tensor.detach().reshape(-1).cpu() for tensor in _parts(module)])


def with_weights(module: nn.Module, vector: Tensor) -> nn.Module:
    """Return a copy of a model with these weights, in eval mode."""
    made = copy.deepcopy(module).cpu()
    parts = _parts(made)
    for tensor, values in zip(parts, vector.split([tensor.numel() for tensor in parts]), strict=True):
        tensor.data = values.view(tensor.shape).clone()
    return made.eval()


def client_seed(seed: int, number: int, client: int) -> int:
    """Return the seed of one site in one round.

    >>> client_seed(0, 1, 0) != client_seed(0, 0, 1)
    True
    """
    return int(np.random.SeedSequence((seed, number, client)).generate_state(1, np.uint64)[0] >> np.uint64(1))


@dataclass(eq=False, kw_only=True)
class LocalTraining:
    """The step "train" at a site: start from the global weights and give back the new ones."""

    module: nn.Module
    clients: PackedClients
    settings: FedAvg
    device: torch.device
    _model: FlatModel | None = field(default=None, init=False)

    @property
    def _loss(self) -> Callable[[Tensor, Tensor], Tensor]:
        return loss_of(self.settings.loss, self.settings.quantiles, self.module)

    def __getstate__(self) -> dict[str, object]:
        # A worker makes a model of its own: in a copy, weights and gradients would no longer be views of one vector.
        return {**vars(self), "_model": None}

    def __call__(self, site: int, step: Step) -> Update:
        """Train at one site; the step holds the global weights and the number of the round."""
        if self._model is None:
            self._model = FlatModel(self.module, self.device)
        model, (x, y) = self._model, self.clients.rows(site)
        model.vector.copy_(step.tensors["weights"])
        model.module.train()
        seed = client_seed(self.settings.seed, int(step.numbers["round"]), site)
        if self.device.type == "cpu":  # seeding all devices costs more than a step where there is no other
            torch.default_generator.manual_seed(seed)
        else:
            torch.manual_seed(seed)
        trained, speed, losses = model.vector[: model.trained], torch.zeros_like(model.gradient), []
        start = trained.clone()
        for _ in range(self.settings.epochs):
            for rows in batches(len(y), self.settings.batch, balance(y) if self.settings.balanced else None):
                chosen = rows.to(self.device)
                losses.append(self._gradient(model, x[chosen], y[chosen]))
                if self.settings.proximal:
                    model.gradient.add_(trained - start, alpha=self.settings.proximal)
                speed.mul_(self.settings.momentum).add_(model.gradient)
                trained.add_(speed, alpha=-self.settings.rate)
        weights = model.vector.cpu()
        numbers = {"loss": float(torch.stack(losses).mean())}
        return Update(len(y), {"weights": weights}, numbers, finite=bool(weights.isfinite().all()))

    def _gradient(self, model: FlatModel, x: Tensor, y: Tensor) -> Tensor:
        model.gradient.zero_()
        inputs = self.clients.preprocess.training(x)
        if self.device.type == "cpu" and getattr(self.module, "channels_last", False):
            # Up to a fifth faster; also where there is one channel, which `contiguous` would leave as it is.
            inputs = torch.empty_like(inputs, memory_format=torch.channels_last).copy_(inputs)
        loss = self._loss(model.module(inputs), y)
        loss.backward()
        return loss.detach()


def balance(y: Tensor) -> Tensor:
    """Return for each row one over the number of rows of its class.

    >>> balance(torch.tensor([0, 0, 1]))
    tensor([0.5000, 0.5000, 1.0000])
    """
    return 1 / torch.bincount(y).to(torch.float32)[y].cpu()


def batches(n: int, size: int, weights: Tensor | None = None) -> list[Tensor]:
    """Deal the rows out in random order; a last row by itself joins the batch before, as BatchNorm needs two.

    With weights, as many rows are drawn with replacement.

    >>> [len(rows) for rows in batches(129, 64)]
    [64, 65]
    """
    order = torch.randperm(n) if weights is None else torch.multinomial(weights, n, replacement=True)
    dealt = list(order.split(size))
    if len(dealt) > 1 and len(dealt[-1]) == 1:
        dealt[-2:] = [torch.cat(dealt[-2:])]
    return dealt


def _parts(module: nn.Module) -> list[Tensor]:
    """Return what is averaged: first what is trained, then frozen weights, then buffers of floats."""
    parts: list[Tensor] = sorted(module.parameters(), key=lambda weight: not weight.requires_grad)
    if not parts or not parts[0].requires_grad:
        raise InputError("the model has no weights to train")
    parts += [buffer for buffer in module.buffers() if buffer.is_floating_point()]
    wrong = [tensor.dtype for tensor in parts if tensor.dtype != torch.float32]
    if wrong:
        raise InputError(f"the model has weights of {wrong[0]}; call model.float() first")
    return parts
