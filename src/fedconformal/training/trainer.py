"""Base class of the training algorithms: settings and one `fit`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields
from typing import Annotated, Any, ClassVar, Literal, get_args, get_origin, get_type_hints

import msgspec
import numpy as np
import torch
from msgspec import Meta
from torch import nn

from fedconformal.errors import InputError
from fedconformal.federated.ask import Ask
from fedconformal.training.clients import ClientData, as_clients, count_classes
from fedconformal.training.data import Progress
from fedconformal.training.pool import Task, local_engine
from fedconformal.training.step import OnRound, RoundState, Step, Update
from fedconformal.training.weights import weights_of

Count = Annotated[int, Meta(ge=1)]
NotNegative = Annotated[int, Meta(ge=0)]
Positive = Annotated[float, Meta(gt=0, le=1e300)]


@dataclass(frozen=True, kw_only=True)
class Trainer(ABC):
    """Base class of algorithms that train one model across sites.

    Parameters
    ----------
    rounds, epochs
        Number of exchanges of weights, and of passes over a site's rows in a round.
    rate, momentum, batch
        Learning rate, momentum and batch size of stochastic gradient descent; momentum starts at zero in every round.
    balanced
        Whether an epoch draws rows with replacement, every class of a site equally often.
    seed
        Seed of all randomness.
    weighting
        Weight sites by their number of examples, or uniformly.
    workers
        Worker processes; None for one per core if the work is long, 1 for none. Does not affect the result.
    device
        "auto", "cpu", "cuda" or "mps". An accelerator is used in this process alone.
    """

    name: ClassVar[str]

    rounds: Count = 20
    epochs: Count = 1
    rate: Positive = 0.01
    momentum: Annotated[float, Meta(ge=0, lt=1)] = 0.9
    batch: Count = 64
    balanced: bool = False
    seed: NotNegative = 0
    weighting: Literal["examples", "uniform"] = "examples"
    workers: NotNegative | None = None
    device: str = "auto"

    def __post_init__(self) -> None:
        hints = get_type_hints(type(self), include_extras=True)
        for setting in fields(self):
            convert(getattr(self, setting.name), hints[setting.name], setting.name)

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
        clients: Mapping[str, Any] | Sequence[Any],
        *,
        progress: Progress | None = None,
        on_round: OnRound | None = None,
        resume: RoundState | None = None,
    ) -> nn.Module:
        """Train a copy of the model.

        Parameters
        ----------
        model
            Returns (n, J) logits; it is not changed.
        clients
            The rows of each site, in any form that `as_clients` reads.
        progress
            Called after every round with the completed and total numbers of rounds and a description.
        on_round
            Called with the state after every round.
        resume
            A state to continue from, to the same result bit for bit.

        Returns
        -------
        torch.nn.Module
            The trained copy, in eval mode.
        """
        sites = as_clients(clients)
        weights_of(model)  # refuses a model without weights, or with weights of other types
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

    @property
    def torch_device(self) -> torch.device:
        """The device; "auto" is an accelerator if available."""
        available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
        devices = [name for name, here in available.items() if here]
        if self.device not in ("auto", *devices):
            raise InputError(f"device is {self.device!r}; there are auto, {', '.join(devices)}", param="device")
        return torch.device(devices[0] if self.device == "auto" else self.device)

    def _engine(self, task: Task, sites: Sequence[ClientData]) -> AbstractContextManager[Ask[Step, Update]]:
        """Return the local engine: worker processes, or this process alone with an accelerator."""
        workers = self.workers if self.torch_device.type == "cpu" else 1
        return local_engine(task, [site.name for site in sites], workers=workers)


def convert(value: Any, hint: Any, name: str) -> Any:
    """Convert the value of a setting to its type; an error lists the choices."""
    try:
        return msgspec.convert(value.item() if isinstance(value, np.generic) else value, hint)
    except msgspec.ValidationError as error:
        choices = [str(c) for part in (hint, *get_args(hint)) if get_origin(part) is Literal for c in get_args(part)]
        expected = f"; there are {', '.join(choices)}" if choices else ""
        problem = str(error)[0].lower() + str(error)[1:]
        raise InputError(f"{name.replace('_', '-')}: {problem}{expected}", param=name) from None
