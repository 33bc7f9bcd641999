"""Base class of the training algorithms: settings, one `fit`, and a resumable state after each round."""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Literal, get_args, get_origin, get_type_hints

import msgspec
import numpy as np
import torch
from torch import Tensor, nn

from fedconformal.errors import InputError
from fedconformal.training.clients import ClientData, as_clients, count_classes
from fedconformal.training.data import Progress
from fedconformal.training.pool import Task, WorkerPool


@dataclass(frozen=True, eq=False, kw_only=True)
class RoundState:
    """State after a round, from which training can continue.

    Attributes:
        round: number of rounds done, over all stages.
        stage: the stage of the training, such as "fedavg" or "tct".
        tensors: the state; the names are the trainer's own.
        metrics: such as the mean training loss.
    """

    round: int
    stage: str
    tensors: Mapping[str, Tensor]
    metrics: Mapping[str, float] = field(default_factory=dict)

    def tensor(self, name: str, shape: torch.Size, dtype: torch.dtype = torch.float32) -> Tensor:
        """Return a copy of a tensor, or refuse the state if its shape is another one."""
        found = self.tensors.get(name, torch.empty(0))
        if found.shape != shape:
            raise InputError(
                "resume: the state is not from this model, these clients and these settings", param="resume"
            )
        return found.to(dtype, copy=True)


OnRound = Callable[[RoundState], object]


@dataclass(frozen=True, kw_only=True)
class Trainer(ABC):
    """Base class of algorithms that train one model across sites.

    Attributes:
        rounds: number of exchanges of weights.
        epochs: passes over a site's rows in a round.
        rate: learning rate of stochastic gradient descent.
        momentum: of stochastic gradient descent; starts at zero in every round.
        batch: batch size.
        balanced: whether an epoch draws rows with replacement, every class of a site equally often.
        seed: seed of all randomness.
        weighting: sites weigh by their number of examples, or uniformly.
        workers: processes; None for one per core if the work is long, 1 for none. The result does not depend on it.
        device: "auto", "cpu", "cuda" or "mps". With an accelerator everything happens in this process.
    """

    name: ClassVar[str]
    counts: ClassVar[tuple[str, ...]] = ("rounds", "epochs", "batch")
    """Settings that are at least 1."""
    positive: ClassVar[tuple[str, ...]] = ("rate",)
    """Settings that are positive numbers."""

    rounds: int = 20
    epochs: int = 1
    rate: float = 0.01
    momentum: float = 0.9
    batch: int = 64
    balanced: bool = False
    seed: int = 0
    weighting: Literal["examples", "uniform"] = "examples"
    workers: int | None = None
    device: str = "auto"

    def __post_init__(self) -> None:
        hints = get_type_hints(type(self))
        for setting in fields(self):
            convert(getattr(self, setting.name), hints[setting.name], setting.name)
        self._require(self.counts, lambda value: value >= 1, "at least 1")
        self._require(self.positive, lambda value: 0 < value < math.inf, "a positive number")
        self._require(["momentum"], lambda value: 0 <= value < 1, "at least 0 and below 1")
        self._require(["seed", "workers"], lambda value: value is None or value >= 0, "at least 0")

    def _require(self, names: Sequence[str], holds: Callable[[Any], bool], expected: str) -> None:
        for name in names:
            if not holds(getattr(self, name)):
                raise InputError(f"{name} is {getattr(self, name)}, expected {expected}", param=name)

    @property
    def numbers(self) -> bool:
        """Whether the model predicts numbers, not classes."""
        return False

    @property
    def total_rounds(self) -> int:
        """Number of rounds in all stages."""
        return self.rounds

    def share(self, rows: int) -> float:
        """Return the weight of a site in a mean over sites."""
        return float(rows) if self.weighting == "examples" else 1.0

    def fit(
        self,
        model: nn.Module,
        clients: Sequence[Any],
        *,
        progress: Progress | None = None,
        on_round: OnRound | None = None,
        resume: RoundState | None = None,
    ) -> nn.Module:
        """Train a copy of the model and return it in eval mode; `model` stays as it is.

        Args:
            model: returns (n, J) logits, or numbers as a `models.Regressor` does.
            clients: the rows of each site, as `as_clients` reads them.
            progress: called after every round with the rounds done, their number and a description.
            on_round: called with the state after every round.
            resume: a state to continue from, to the same result bit for bit.
        """
        sites = as_clients(clients, numbers=self.numbers)
        weights_of(model)  # refuses a model without weights, or with other than float32
        if not self.numbers:
            count_classes(model, sites)

        def finished(state: RoundState) -> None:
            if on_round is not None:
                on_round(state)
            if progress is not None:
                progress(state.round, self.total_rounds, f"{self.name}: round {state.round} of {self.total_rounds}")

        return self._train(model, sites, finished, resume)

    @abstractmethod
    def _train(
        self, model: nn.Module, sites: list[ClientData], on_round: OnRound, resume: RoundState | None
    ) -> nn.Module:
        """Train on rows that have been read and checked."""

    def _pool(self, task: Task, sites: Sequence[ClientData], device: torch.device) -> WorkerPool:
        """Return the local engine: worker processes, or this process alone with an accelerator."""
        workers = self.workers if device.type == "cpu" else 1
        return WorkerPool(task, [site.name for site in sites], workers=workers)


def convert(value: Any, hint: Any, name: str) -> Any:
    """Convert the value of a setting to its type; refuse another type, and say which choices there are."""
    try:
        return msgspec.convert(value.item() if isinstance(value, np.generic) else value, hint)
    except msgspec.ValidationError as error:
        choices = [str(c) for one in (hint, *get_args(hint)) if get_origin(one) is Literal for c in get_args(one)]
        expected = f"; there are {', '.join(choices)}" if choices else ""
        problem = str(error)[0].lower() + str(error)[1:]
        raise InputError(f"{name.replace('_', '-')}: {problem}{expected}", param=name) from None


def find_device(name: str) -> torch.device:
    """Return the device of that name; "auto" is an accelerator if there is one."""
    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if name == "auto":
        name = next(one for one, available in there.items() if available)
    if not there.get(name, False):
        known = "is not available here" if name in there else "is unknown"
        raise InputError(f"device {name!r} {known}; there are auto, {', '.join(one for one in there if there[one])}")
    return torch.device(name)


class FlatModel:
    """A model whose weights are views of one float32 vector, so that a step of SGD is three operations.

    First come the trained weights, then those only averaged: frozen weights and buffers of floats, such as the running
    statistics of BatchNorm. Buffers of whole numbers, such as BatchNorm's count of batches, stay as they are.

    >>> flat = FlatModel(nn.Linear(2, 3))
    >>> flat.vector.shape, flat.trained
    (torch.Size([9]), 9)
    """

    def __init__(self, module: nn.Module, device: torch.device | None = None) -> None:
        self.module = copy.deepcopy(module).to(device or "cpu")
        parts = _averaged(self.module)
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
    """Return all averaged weights of a model as one vector."""
    return torch.cat([tensor.detach().reshape(-1).cpu() for tensor in _averaged(module)])


def with_weights(module: nn.Module, vector: Tensor) -> nn.Module:
    """Return a copy of a model with these weights, in eval mode."""
    model = copy.deepcopy(module).cpu()
    parts = _averaged(model)
    for tensor, values in zip(parts, vector.split([tensor.numel() for tensor in parts]), strict=True):
        tensor.data = values.view(tensor.shape).clone()
    return model.eval()


def _averaged(module: nn.Module) -> list[Tensor]:
    """Return the averaged tensors: trained weights, then frozen weights, then buffers of floats."""
    parts: list[Tensor] = sorted(module.parameters(), key=lambda weight: not weight.requires_grad)
    if not parts or not parts[0].requires_grad:
        raise InputError("the model has no weights to train")
    parts += [buffer for buffer in module.buffers() if buffer.is_floating_point()]
    wrong = [tensor.dtype for tensor in parts if tensor.dtype != torch.float32]
    if wrong:
        raise InputError(f"the model has weights of {wrong[0]}; call model.float() first")
    return parts
