"""What a site does with torch: load the model of a message, train it on the site's own rows, ask it about them.

The steps are those of `fedconformal.federated`, with the site at its own place among the sites, so a run on Flower
gives the weights that `FedAvg.fit` and `TCT.fit` give.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord
from flwr.clientapp import ClientApp
from numpy.typing import NDArray
from torch import Tensor, nn

from fedconformal.engines.flower.client import evaluate_reply, keep_predictor, temperature_reply
from fedconformal.engines.flower.records import (
    ARRAYS,
    ASK,
    EXAMPLES,
    LINEAR,
    METRIC_OF,
    METRICS,
    RESIDUALS,
    read_arrays,
    reply,
    site_of,
)
from fedconformal.engines.flower.watching import watch_reply
from fedconformal.errors import InputError
from fedconformal.training.clients import ClientData, PackedClients, as_clients
from fedconformal.training.fedprox import FedProx
from fedconformal.training.linear_site import linear_task
from fedconformal.training.local import LocalTraining, weights_of, with_weights
from fedconformal.training.models import Regressor
from fedconformal.training.step import Step, Update
from fedconformal.training.tct import TCT, LinearisedModel
from fedconformal.training.threads import one_thread

CPU = torch.device("cpu")
BATCH = 256
PREPARATIONS = ("measure", "prepare")


def arrays_of(model: nn.Module) -> ArrayRecord:
    """Return the weights of a model, in the order of its state_dict."""
    return ArrayRecord({name: Array(tensor.cpu().numpy()) for name, tensor in model.state_dict().items()})


def load_model(model: nn.Module, arrays: ArrayRecord) -> nn.Module:
    """Return the model with these weights, or its linearised form if they are of TCT's second stage."""
    if "theta" in arrays:
        (classes, columns), (count,) = arrays["theta"].shape, arrays["mean"].shape
        model = LinearisedModel.of(model, classes=classes, coordinates=count, seed=0, intercept=columns > count)
    found = read_arrays(arrays, arrays_of(model))
    model.load_state_dict({name: torch.tensor(array) for name, array in found.items()})
    return model.eval()


def outputs(msg: Message, model: nn.Module, rows: ClientData) -> tuple[NDArray[np.float32], NDArray[Any]]:
    """Return the logits of the message's model on these rows, and their labels; no logits if it brings no model.

    Of a `Regressor`, what it predicts and the true numbers.
    """
    (rows,) = as_clients([rows], numbers=isinstance(model, Regressor))
    if ARRAYS not in msg.content:  # a later step of a sums session
        return np.empty((0, 0), np.float32), np.empty(0, np.int64)
    loaded = load_model(model, msg.content.array_records[ARRAYS])
    with one_thread(), torch.no_grad():
        parts = [loaded(rows.inputs(slice(i, i + BATCH))).numpy() for i in range(0, rows.n, BATCH)]
    return np.concatenate(parts), rows.y.numpy()


def train_reply(msg: Message, context: Context, model: nn.Module, rows: ClientData) -> Message:
    """Answer `train`: some epochs from the weights of the message; with `proximal-mu` in its config it is FedProx.

    Epochs, rate, momentum, batch and seed come from the message's config, so all sites train alike.
    """
    config: dict[str, Any] = dict(msg.content.config_records["config"])
    settings = FedProx(
        epochs=int(config["epochs"]),
        rate=float(config["rate"]),
        momentum=float(config["momentum"]),
        batch=int(config["batch"]),
        seed=int(config["seed"]),
        mu=float(config.get("proximal-mu", 0.0)),
        loss=config.get("loss"),
        quantiles=tuple(config.get("quantiles", FedProx.quantiles)),
    )
    (rows,) = as_clients([rows], numbers=settings.numbers)
    loaded = load_model(model, msg.content.array_records[ARRAYS])
    place = _place(context)
    starts = (0,) * (place + 1) + (rows.n,)  # the sites before it have no rows here
    packed = PackedClients(x=rows.x, y=rows.y, starts=starts, preprocess=rows.preprocess)
    task = LocalTraining(module=loaded, clients=packed, settings=settings, device=CPU)
    step = Step("train", {"weights": weights_of(loaded)}, {"round": int(config["server-round"]) - 1})
    with one_thread():
        update = task(place, step)
    return _update_reply(msg, context, arrays_of(with_weights(loaded, update.tensors["weights"])), update)


def linear_reply(msg: Message, context: Context, model: nn.Module, rows: ClientData) -> Message:
    """Answer `train.linear`: moments of the features, the largest eigenvalue, or the gradient of a round.

    L-BFGS keeps nothing at a site. For SCAFFOLD its residuals, one number a row and class, are kept from message to
    message, in the context's state. A deployment starts a new process for every message, so features are computed
    again for each.
    """
    asked: dict[str, Any] = dict(msg.content.config_records[ASK])
    network = load_model(model, msg.content.array_records[ARRAYS])
    (rows,) = as_clients([rows])
    classes, coordinates, seed, steps = (int(asked[name]) for name in ("classes", "coordinates", "seed", "steps"))
    settings = TCT(
        coordinates=coordinates,
        seed=seed,
        solver=asked.get("solver", "scaffold"),  # what servers of earlier versions mean
        intercept=bool(asked.get("intercept", False)),
        steps=steps,
        loss=asked["loss"],
        memory=float(asked["memory"]),
    )
    features = LinearisedModel.of(network, classes=classes, coordinates=coordinates, seed=seed).features
    kept = context.state.array_records.get(RESIDUALS)
    residuals = torch.zeros(classes, rows.n) if kept is None else _tensor(kept[RESIDUALS])
    sent = msg.content.array_records.get(LINEAR, ArrayRecord())
    tensors = {name: _tensor(array) for name, array in sent.items()}
    with one_thread(), linear_task(settings, features, [rows], residuals, CPU) as task:
        for needed in itertools.takewhile(lambda step: step != asked["what"], PREPARATIONS):
            task(0, Step(needed, tensors))
        update = task(0, Step(asked["what"], tensors, {"step": float(asked["step"])}))
    if asked["what"] == "round":
        context.state[RESIDUALS] = ArrayRecord({RESIDUALS: Array(task.residuals.numpy())})
    arrays = ArrayRecord({name: Array(tensor.numpy()) for name, tensor in update.tensors.items()})
    return _update_reply(msg, context, arrays, update)


def add_handlers(
    app: ClientApp, build_model: Callable[[], nn.Module], load_rows: Callable[[Context, str], ClientData]
) -> None:
    """Let a client app answer in the stages linear, temperature, evaluate and broadcast of `run_stages`, and `watch`.

    Training and calibration are the app's own. So are all of them for an app that does not call this, and decorates
    four functions like those below.

    Args:
        app: Flower's.
        build_model: makes the network.
        load_rows: reads the site's rows to "train", to fit the "temperature" or to "test".
    """

    @app.train("linear")
    def linear(msg: Message, context: Context) -> Message:
        return linear_reply(msg, context, build_model(), load_rows(context, "train"))

    @app.query("temperature")
    def temperature(msg: Message, context: Context) -> Message:
        return temperature_reply(msg, context, *outputs(msg, build_model(), load_rows(context, "temperature")))

    @app.evaluate()
    def evaluate(msg: Message, context: Context) -> Message:
        return evaluate_reply(msg, context, *outputs(msg, build_model(), load_rows(context, "test")))

    app.query("predictor")(keep_predictor)
    app.query("watch")(watch_reply)


def _place(context: Context) -> int:
    """Return the site's number among the clients, which its random numbers come from."""
    place, most = site_of(context).partition, int(context.node_config.get("num-partitions", 0))
    if not 0 <= place < most:
        raise InputError(f"partition-id is {place} and num-partitions {most} in the node config; give both")
    return place


def _update_reply(msg: Message, context: Context, arrays: ArrayRecord, update: Update) -> Message:
    numbers: dict[str, Any] = {METRIC_OF[name]: value for name, value in update.numbers.items()}
    return reply(msg, context, {ARRAYS: arrays, METRICS: MetricRecord({EXAMPLES: update.rows, **numbers})})


def _tensor(array: Array) -> Tensor:
    return torch.from_numpy(np.array(array.numpy(), dtype=np.float32))
