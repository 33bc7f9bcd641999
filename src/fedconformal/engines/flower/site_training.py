"""Training at a site: load the model of a message, train it on the site's own rows, compute its outputs.

The steps are those of `fedconformal.training`, with the site at its own place among the sites, so a run on Flower
gives the weights of `FedAvg.fit` and `TCT.fit`.
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

from fedconformal.engines.flower.client import evaluate_reply, keep_predictor, temperature_reply, watch_reply
from fedconformal.engines.flower.records import (
    ARRAYS,
    ASK,
    EXAMPLES,
    FEATURES,
    LINEAR,
    METRIC_OF,
    METRICS,
    NETWORK,
    RESIDUALS,
    TCT_STATE,
    fingerprint,
    read_arrays,
    site_of,
    wrap,
)
from fedconformal.engines.flower.sums_site import site_policy
from fedconformal.errors import InputError
from fedconformal.privacy.policy import WEIGHTS, Outgoing
from fedconformal.training.clients import ClientData, as_clients
from fedconformal.training.config import make
from fedconformal.training.fedavg import client_seed, local_sgd
from fedconformal.training.fedprox import FedProx
from fedconformal.training.flat_model import FlatModel, weights_of, with_weights
from fedconformal.training.linear_site import linear_task
from fedconformal.training.models import Regressor
from fedconformal.training.pool import one_thread
from fedconformal.training.step import Step, Update
from fedconformal.training.tct import TCT, LinearisedModel

CPU = torch.device("cpu")
BATCH = 256
PREPARATIONS = ("measure", "prepare")
LINEAR_ARRAYS = {"theta", "mean", "scale"}
MOST_KEPT = 2**28
"""Bytes of features that a site keeps between messages; more are computed again."""


def arrays_of(model: nn.Module) -> ArrayRecord:
    """Return the weights of a model, in the order of its state_dict."""
    return ArrayRecord({name: Array(tensor.cpu().numpy()) for name, tensor in model.state_dict().items()})


def load_model(model: nn.Module, arrays: ArrayRecord) -> nn.Module:
    """Return the model with these weights, or its linearised form if they are of TCT's second stage."""
    if set(arrays) != set(model.state_dict()) and set(arrays) >= LINEAR_ARRAYS:
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
    place, mu = int(config.pop("server-round")) - 1, float(config.pop("proximal-mu", 0.0))
    settings = make(FedProx, {**config, "mu": mu})
    (rows,) = as_clients([rows], numbers=settings.numbers)
    loaded = load_model(model, msg.content.array_records[ARRAYS])
    seed = client_seed(settings.seed, place, _place(context))
    with one_thread():
        update = local_sgd(FlatModel(loaded), weights_of(loaded), rows.x, rows.y, rows.preprocess, settings, seed)
    return _update_reply(msg, context, arrays_of(with_weights(loaded, update.tensors["weights"])), update)


def linear_reply(msg: Message, context: Context, model: nn.Module, rows: ClientData) -> Message:
    """Answer `train.linear`: moments of the features, the largest eigenvalue, or the gradient of a round.

    The network comes with the first message only. It stays in the context's state, by its fingerprint, with the
    standardised features if they fit, and with SCAFFOLD's residuals: a deployment starts a process for every message.
    """
    asked: dict[str, Any] = dict(msg.content.config_records[ASK])
    network, what = load_model(model, _network(msg, context, asked["network"])), asked["what"]
    (rows,) = as_clients([rows])
    names = ("coordinates", "seed", "solver", "intercept", "steps", "loss", "memory")
    settings, classes = TCT(**{name: asked[name] for name in names}), int(asked["classes"])
    about: dict[str, Any] = {"classes": classes, "coordinates": settings.coordinates, "seed": settings.seed}
    features, kept = LinearisedModel.of(network, **about).features, context.state.array_records
    residuals = torch.zeros(classes, rows.n) if RESIDUALS not in kept else _tensor(kept[RESIDUALS][RESIDUALS])
    sent = msg.content.array_records.get(LINEAR, ArrayRecord())
    tensors = {name: _tensor(array) for name, array in sent.items()}
    with one_thread(), linear_task(settings, features, [rows], residuals, CPU) as task:
        stored = {"features": task.storage.features, "products": task.storage.products}
        if FEATURES in kept and what not in PREPARATIONS:
            for name, vector in stored.items():
                vector.tensor.copy_(_tensor(kept[FEATURES][name]))
        else:
            for needed in itertools.takewhile(lambda step: step != what, PREPARATIONS):
                task(0, Step(needed, tensors))
        update = task(0, Step(what, tensors, {"step": float(asked["step"])}))
        if what == "prepare" and 4 * sum(vector.length for vector in stored.values()) <= MOST_KEPT:
            context.state[FEATURES] = ArrayRecord({name: Array(one.tensor.numpy()) for name, one in stored.items()})
    if what == "round":
        context.state[RESIDUALS] = ArrayRecord({RESIDUALS: Array(task.residuals.numpy())})
    arrays = ArrayRecord({name: Array(tensor.numpy()) for name, tensor in update.tensors.items()})
    return _update_reply(msg, context, arrays, update)


def _network(msg: Message, context: Context, wanted: str) -> ArrayRecord:
    """Return the network of a message, and keep it; or the one that was kept."""
    if ARRAYS in msg.content:
        for name in TCT_STATE:
            context.state.pop(name, None)
        context.state[NETWORK] = msg.content.array_records[ARRAYS]
    found = context.state.array_records.get(NETWORK, ArrayRecord())
    if fingerprint(found) != wanted:
        raise InputError("this site does not have the network that is asked about, or has lost its state")
    return found


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

    @app.query("evaluate")
    def evaluate(msg: Message, context: Context) -> Message:
        return evaluate_reply(msg, context, *outputs(msg, build_model(), load_rows(context, "test")))

    app.query("broadcast")(keep_predictor)
    app.query("watch")(watch_reply)


def _place(context: Context) -> int:
    """Return the site's number among the clients, which its random numbers come from."""
    place, most = site_of(context).partition, int(context.node_config.get("num-partitions", 0))
    if not 0 <= place < most:
        raise InputError(f"partition-id is {place} and num-partitions {most} in the node config; give both")
    return place


def _update_reply(msg: Message, context: Context, arrays: ArrayRecord, update: Update) -> Message:
    site_policy(context).check(Outgoing(kind=WEIGHTS, rows=update.rows))
    numbers: dict[str, Any] = {METRIC_OF[name]: value for name, value in update.numbers.items()}
    return wrap(msg, context, {ARRAYS: arrays, METRICS: MetricRecord({EXAMPLES: update.rows, **numbers})})


def _tensor(array: Array) -> Tensor:
    return torch.from_numpy(np.array(array.numpy(), dtype=np.float32))
