"""TCT's second stage on Flower: a linear model on gradient features, one exchange for each of its parts.

Yu, Wei, Karimireddy, Ma and Jordan, "TCT: convexifying federated learning using bootstrapped neural tangent kernels",
2022; the steps are those of `fedconformal.training.linear_stage`. Nothing but a site's residuals, one number a row and
class, is kept from message to message, in the context's state: a deployment starts a new process for every message,
so features are worked out again for each.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, RecordDict
from numpy.typing import NDArray
from torch import Tensor, nn

from fedconformal.engines.flower.federation import Answer, Federation
from fedconformal.engines.flower.learning import (
    CPU,
    alone,
    arrays_of,
    linearised,
    load_model,
    place_of,
    reply,
    tensor_of,
)
from fedconformal.engines.flower.records import (
    ARRAYS,
    ASK,
    EXAMPLES,
    METRICS,
    check_keys,
    read_arrays,
    read_examples,
    read_metrics,
)
from fedconformal.federated.clients import ClientData, as_clients
from fedconformal.federated.linear_stage import CURVATURE, LinearTask, Loss, Moments, merge, scale_of
from fedconformal.federated.matrices import Room
from fedconformal.federated.tct import SAFE, TCT
from fedconformal.federated.workers import one_thread

STAGE = "linear"
TYPE = "train.linear"
RESIDUALS = "residuals"
LINEAR = "linear"


def linear_reply(msg: Message, context: Context, model: nn.Module, rows: ClientData) -> Message:
    """Answer `train.linear`: moments of the features, the largest eigenvalue, or the mean gradient of a round."""
    asked: dict[str, Any] = dict(msg.content.config_records[ASK])
    network = load_model(model, msg.content.array_records[ARRAYS])
    (rows,) = as_clients([rows])
    place, classes = place_of(context), int(asked["classes"])
    features = linearised(network, classes=classes, coordinates=int(asked["coordinates"]), seed=int(asked["seed"]))
    count = features.features.count
    residuals = _residuals(context, classes, rows.n)
    with one_thread(), tempfile.TemporaryDirectory(prefix="fedconformal-") as folder:
        task = LinearTask(
            features=features.features,
            clients=alone(rows, place),
            classes=classes,
            steps=int(asked["steps"]),
            loss=asked["loss"],
            room=Room.make(
                [0] * place + [rows.n],
                count,
                memory=float(asked["memory"]),
                folder=Path(folder),
                device=CPU,
                shared=False,
            ),
            residuals=residuals,
            device=CPU,
        )
        return _answer(msg, context, task, place)


def _answer(msg: Message, context: Context, task: LinearTask, place: int) -> Message:
    what = str(msg.content.config_records[ASK]["what"])
    count, classes, rows = task.features.count, task.classes, task.clients.starts[-1]
    out = torch.zeros(max(classes, 2) * count)
    task(place, out, out, ("measure", 0.0))
    if what == "measure":
        mean, variance = out[: 2 * count].split(count)
        arrays = {"mean": Array(mean.numpy()), "variance": Array(variance.numpy())}
        return reply(msg, context, ArrayRecord(arrays), {EXAMPLES: rows})
    sent = msg.content.array_records[LINEAR]
    vectors = {name: tensor_of(array.numpy()) for name, array in sent.items()}
    largest, _ = task(place, torch.cat([vectors["mean"], vectors["scale"]]), out, ("prepare", 0.0))
    if what == "prepare":
        return reply(msg, context, ArrayRecord(), {EXAMPLES: rows, "eigenvalue": largest})
    step = float(str(msg.content.config_records[ASK]["step"]))
    vector = torch.cat([vectors["theta"].reshape(-1), vectors["control"].reshape(-1)])
    loss, _ = task(place, vector, out, ("round", step))
    context.state[RESIDUALS] = ArrayRecord({RESIDUALS: Array(task.residuals.numpy())})
    gradient = out[: classes * count].view(classes, count)
    metrics = {EXAMPLES: rows, "train-loss": loss}
    return reply(msg, context, ArrayRecord({"control": Array(gradient.numpy())}), metrics)


def _residuals(context: Context, classes: int, rows: int) -> Tensor:
    kept = context.state.array_records.get(RESIDUALS)
    if kept is None:
        return torch.zeros(classes, rows)
    return tensor_of(kept[RESIDUALS].numpy())


@dataclass(frozen=True, kw_only=True)
class LinearStage:
    """The server's side: merge moments, choose a stable step, and move theta by the mean of the sites' gradients."""

    federation: Federation
    network: nn.Module
    classes: int
    settings: TCT

    def run(self) -> ArrayRecord:
        """Return the weights of the linear model."""
        settings = self.settings
        model = linearised(self.network, classes=self.classes, coordinates=settings.coordinates, seed=settings.seed)
        shape = tuple(model.theta.shape)
        vector, matrix = Array(np.zeros(shape[1], np.float32)), Array(np.zeros(shape, np.float32))
        found = self._ask("measure", {}, {"mean": vector, "variance": vector})
        moments = merge(
            Moments(examples, *(tensor_of(arrays[name]) for name in ("mean", "variance")))
            for arrays, examples, _ in (answer.value for answer in found)
        )
        model.mean, model.scale = moments.mean.float(), scale_of(moments)
        standard = {"mean": model.mean, "scale": model.scale}
        eigenvalues = [answer.value[2]["eigenvalue"] for answer in self._ask("prepare", standard, {}, "eigenvalue")]
        loss: Loss = settings.loss
        largest = max(eigenvalues)
        step = min(settings.step, SAFE * 2 / (CURVATURE[loss] * largest) if largest > 0 else math.inf)
        theta, control = torch.zeros(shape), torch.zeros(shape)
        for _ in range(settings.linear_rounds):
            sent = {**standard, "theta": theta, "control": control}
            answers = self._ask("round", sent, {"control": matrix}, "train-loss", step=step)
            total = torch.zeros(shape, dtype=torch.float64)
            for answer in answers:
                total += tensor_of(answer.value[0]["control"])
            control = (total / len(answers)).float()
            theta = theta - step * settings.steps * control
        model.theta = theta
        return arrays_of(model)

    def _ask(
        self, what: str, sent: Mapping[str, Tensor], like: dict[str, Array], *metrics: str, step: float = 0.0
    ) -> list[Answer[tuple[dict[str, NDArray[Any]], int, dict[str, float]]]]:
        settings = self.settings
        config: dict[str, Any] = {
            "what": what,
            "classes": self.classes,
            "coordinates": settings.coordinates,
            "seed": settings.seed,
            "steps": settings.steps,
            "loss": settings.loss,
            "memory": settings.memory,
            "step": step,
        }
        vectors = ArrayRecord({name: Array(tensor.numpy()) for name, tensor in sent.items()})
        content = RecordDict({ARRAYS: arrays_of(self.network), LINEAR: vectors, ASK: ConfigRecord(config)})

        def read(reply: RecordDict) -> tuple[dict[str, NDArray[Any]], int, dict[str, float]]:
            check_keys(reply, ARRAYS, METRICS)
            values = read_metrics(reply[METRICS], (EXAMPLES, *metrics))
            return read_arrays(reply[ARRAYS], like, what), read_examples(values), values

        return self.federation.ask(STAGE, content, TYPE, read)
