"""The server's side of training on Flower: it carries the steps of FedAvg, FedProx and TCT to the sites."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, MessageType, RecordDict
from torch import Tensor, nn

from fedconformal.engines.flower.federation import Answer, Federation
from fedconformal.engines.flower.learning import arrays_of
from fedconformal.engines.flower.records import ARRAYS, ASK, LINEAR, METRIC_OF, is_float, read_update
from fedconformal.federated.ask import Step, Update
from fedconformal.federated.fedavg import FedAvg
from fedconformal.federated.fedprox import FedProx
from fedconformal.federated.tct import TCT, LinearisedModel
from fedconformal.summaries.wire import MAX_SIZE

MAX_EXAMPLES = 10**8
"""No site trains on more rows than this."""


@dataclass(frozen=True, eq=False, kw_only=True)
class RoundsOnFlower:
    """Carries the rounds of FedAvg; arrays of whole numbers go along and stay as they are.

    Attributes:
        federation: whom to ask.
        start: the arrays of the model where training starts.
        settings: how the sites train.
    """

    federation: Federation
    start: ArrayRecord
    settings: FedAvg

    def weights(self) -> dict[str, Tensor]:
        """Return what is averaged."""
        return {name: torch.tensor(array.numpy()) for name, array in self.start.items() if is_float(array)}

    def arrays(self, weights: Mapping[str, Tensor]) -> ArrayRecord:
        """Return the model with these weights."""
        return ArrayRecord(
            {name: Array(weights[name].numpy()) if name in weights else array for name, array in self.start.items()}
        )

    def ask(self, step: Step) -> Iterator[Answer[Update]]:
        """Ask every site to train from these weights."""
        names = ("epochs", "rate", "momentum", "batch", "seed")
        config = ConfigRecord({name: getattr(self.settings, name) for name in names})
        if isinstance(self.settings, FedProx):
            config["proximal-mu"] = self.settings.mu
        config["server-round"] = int(step.numbers["round"]) + 1
        content = RecordDict({ARRAYS: self.arrays(step.tensors), "config": config})
        return _updates(self.federation, "train", content, MessageType.TRAIN, step, ("loss",), most=MAX_EXAMPLES)


@dataclass(frozen=True, eq=False, kw_only=True)
class LinearOnFlower:
    """Carries the steps of TCT's second stage.

    Attributes:
        federation: whom to ask.
        network: what the first stage has trained.
        model: its linear model.
        settings: how the sites train.
    """

    federation: Federation
    network: nn.Module
    model: LinearisedModel
    settings: TCT

    def ask(self, step: Step) -> Iterator[Answer[Update]]:
        """Ask every site to take this step."""
        settings = self.settings
        config: dict[str, Any] = {
            "what": step.what,
            "classes": len(self.model.theta),
            "coordinates": settings.coordinates,
            "seed": settings.seed,
            "steps": settings.steps,
            "loss": settings.loss,
            "memory": settings.memory,
            "step": step.numbers.get("step", 0.0),
        }
        vectors = ArrayRecord({name: Array(tensor.numpy()) for name, tensor in step.tensors.items()})
        content = RecordDict({ARRAYS: arrays_of(self.network), LINEAR: vectors, ASK: ConfigRecord(config)})
        tensors, numbers = {
            "measure": ({"mean": self.model.mean, "variance": self.model.mean}, ()),
            "prepare": ({}, ("eigenvalue",)),
            "round": ({"control": self.model.theta}, ("loss",)),
        }[step.what]
        expected = Step(step.what, tensors)
        return _updates(self.federation, "linear", content, "train.linear", expected, numbers)


def _updates(
    federation: Federation,
    stage: str,
    content: RecordDict,
    message_type: str,
    expected: Step,
    numbers: tuple[str, ...],
    most: int = MAX_SIZE,
) -> Iterator[Answer[Update]]:
    """Ask, and read tensors like those expected; a site whose numbers are not finite is refused."""
    what = "weights" if expected.what == "train" else expected.what
    like = content.array_records[ARRAYS] if expected.what == "train" else _arrays(expected.tensors)

    def read(reply: RecordDict) -> tuple[dict[str, Any], int, dict[str, float]]:
        return read_update(reply, like, [METRIC_OF[name] for name in numbers], what=what, most=most)

    for answer in federation.ask(stage, content, message_type, read):
        arrays, rows, metrics = answer.value
        tensors = {name: torch.tensor(arrays[name]) for name in expected.tensors}
        found = {name: metrics[METRIC_OF[name]] for name in numbers}
        yield Answer(answer.node, answer.site, Update(rows, tensors, found))


def _arrays(tensors: Mapping[str, Tensor]) -> ArrayRecord:
    return ArrayRecord({name: Array(np.zeros(tensor.shape, np.float32)) for name, tensor in tensors.items()})
