"""What a site does in TCT's second stage on Flower: one message for each step of `federated/linear_site.py`.

Only a site's residuals, one number a row and class, are kept from message to message, in the context's state. A
deployment starts a new process for every message, so features are computed again for each.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from flwr.app import Array, ArrayRecord, Context, Message
from torch import Tensor, nn

from fedconformal.engines.flower.learning import CPU, load_model, reply
from fedconformal.engines.flower.records import ARRAYS, ASK, EXAMPLES, LINEAR, METRIC_OF
from fedconformal.engines.local.threads import one_thread
from fedconformal.federated.ask import Step, Update
from fedconformal.federated.clients import ClientData, as_clients
from fedconformal.federated.linear_site import LinearTask, linear_task
from fedconformal.federated.tct import TCT, LinearisedModel

RESIDUALS = "residuals"
STEPS = ("measure", "prepare", "round")


def linear_reply(msg: Message, context: Context, model: nn.Module, rows: ClientData) -> Message:
    """Answer `train.linear`: moments of the features, the largest eigenvalue, or the mean gradient of a round."""
    asked: dict[str, Any] = dict(msg.content.config_records[ASK])
    network = load_model(model, msg.content.array_records[ARRAYS])
    (rows,) = as_clients([rows])
    classes, coordinates, seed, steps = (int(asked[name]) for name in ("classes", "coordinates", "seed", "steps"))
    settings = TCT(coordinates=coordinates, seed=seed, steps=steps, loss=asked["loss"], memory=float(asked["memory"]))
    features = LinearisedModel.of(network, classes=classes, coordinates=coordinates, seed=seed).features
    kept = context.state.array_records.get(RESIDUALS)
    residuals = torch.zeros(classes, rows.n) if kept is None else _tensor(kept[RESIDUALS])
    with one_thread(), linear_task(settings, features, [rows], residuals, CPU) as task:
        update = _last_step(msg, task, str(asked["what"]), float(asked["step"]))
    if asked["what"] == "round":
        context.state[RESIDUALS] = ArrayRecord({RESIDUALS: Array(task.residuals.numpy())})
    arrays = ArrayRecord({name: Array(tensor.numpy()) for name, tensor in update.tensors.items()})
    numbers = {METRIC_OF[name]: value for name, value in update.numbers.items()}
    return reply(msg, context, arrays, {EXAMPLES: update.rows, **numbers})


def _last_step(msg: Message, task: LinearTask, what: str, size: float) -> Update:
    """Take the step that is asked for, after those that it needs."""
    sent = msg.content.array_records.get(LINEAR, ArrayRecord())
    tensors = {name: _tensor(array) for name, array in sent.items()}
    for step in STEPS[: STEPS.index(what)]:
        task(0, Step(step, tensors))
    return task(0, Step(what, tensors, {"step": size}))


def _tensor(array: Array) -> Tensor:
    return torch.from_numpy(np.array(array.numpy(), dtype=np.float32))
