"""Base class of the training algorithms: one `fit`, and a resumable state after each round."""

from __future__ import annotations

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
from fedconformal.training.flat_model import weights_of
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


OnRound = Callable[[RoundState], object]


@dataclass(frozen=True, eq=False, kw_only=True)
class TrainingMonitor:
    """Callbacks and resume state of a training loop, and the number of sites."""

    progress: Progress | None = None
    on_round: OnRound | None = None
    resume: RoundState | None = None
    sites: int = 0

    def progressed(self, rounds: int, sites: int, total: int, text: str) -> None:
        """Report the number of answers in the current round."""
        if self.progress is not None:
            self.progress(rounds * self.sites + sites, total * self.sites, text)

    def finished_round(
        self, number: int, stage: str, tensors: Mapping[str, Tensor], metrics: Mapping[str, float]
    ) -> None:
        """Pass a copy of the state to the callback."""
        if self.on_round is not None:
            kept = {name: tensor.clone() for name, tensor in tensors.items()}
            self.on_round(RoundState(round=number, stage=stage, tensors=kept, metrics=metrics))


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
            value = getattr(self, setting.name)
            try:
                msgspec.convert(value.item() if isinstance(value, np.generic) else value, hints[setting.name])
            except msgspec.ValidationError as error:
                hint = hints[setting.name]
                choices = [c for one in (hint, *get_args(hint)) if get_origin(one) is Literal for c in get_args(one)]
                expected = f"there are {', '.join(choices)}" if choices else str(error)[0].lower() + str(error)[1:]
                raise InputError(f"{setting.name} is {value!r}; {expected}", param=setting.name) from None
        for what in self.counts:
            if getattr(self, what) < 1:
                raise InputError(f"{what} is {getattr(self, what)}, expected at least 1")
        for what in self.positive:
            if not 0 < getattr(self, what) < math.inf:
                raise InputError(f"{what} is {getattr(self, what)}, expected a positive number")
        if not 0 <= self.momentum < 1:
            raise InputError(f"momentum is {self.momentum}, expected at least 0 and below 1")
        if self.seed < 0:
            raise InputError(f"seed is {self.seed}, expected at least 0")
        if self.workers is not None and self.workers < 0:
            raise InputError(f"workers is {self.workers}, expected at least 0")

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
            progress: called with the work done, the total and a description.
            on_round: called with the state after every round.
            resume: a state to continue from, to the same result bit for bit.
        """
        monitor = TrainingMonitor(progress=progress, on_round=on_round, resume=resume)
        sites = as_clients(clients, numbers=self.numbers)
        weights_of(model)  # refuses a model without weights, or with other than float32
        if not self.numbers:
            count_classes(model, sites)
        return self._train(model, sites, monitor)

    @abstractmethod
    def _train(self, model: nn.Module, sites: list[ClientData], monitor: TrainingMonitor) -> nn.Module:
        """Train on rows that have been read and checked."""

    def _pool(
        self, task: Task, sites: Sequence[ClientData], device: torch.device, *, sent: int, received: int
    ) -> WorkerPool:
        """Return the local engine: worker processes, or this process alone with an accelerator."""
        names, workers = [site.name for site in sites], self.workers if device.type == "cpu" else 1
        return WorkerPool(task, names, sent=sent, received=received, workers=workers)


def find_device(name: str) -> torch.device:
    """Return the device of that name; "auto" is an accelerator if there is one.

    >>> find_device("cpu")
    device(type='cpu')
    """
    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if name == "auto":
        name = next(one for one, available in there.items() if available)
    if not there.get(name, False):
        known = "is not available here" if name in there else "is unknown"
        raise InputError(f"device {name!r} {known}; there are auto, {', '.join(one for one in there if there[one])}")
    return torch.device(name)
