"""Training on Flower, at a site: the steps of FedAvg, FedProx and TCT on the site's rows, and the outputs of a model.

The steps are those of `fedconformal.training`, with the site's index among the sites, so a run on Flower gives the
weights of `FedAvg.fit` and `TCT.fit`. A site has separate rows for training, for fitting the temperature, for
calibration and for testing. They come from a directory of the site or, for demonstrations, from one data set that is
partitioned among the sites.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from numpy.typing import NDArray
from torch import Tensor, nn

from fedconformal._base.files import read_npz
from fedconformal.engines.flower.client import (
    evaluate_reply,
    keep_predictor,
    site_policy,
    temperature_reply,
    watch_reply,
)
from fedconformal.engines.flower.records import (
    ARRAYS,
    ASK,
    EXAMPLES,
    FEATURES,
    METRICS,
    NETWORK,
    fingerprint,
    forget_training,
    read_arrays,
    site_of,
    wrap,
)
from fedconformal.errors import InputError
from fedconformal.privacy.policy import WEIGHTS, Outgoing
from fedconformal.training import data
from fedconformal.training.clients import ClientData, as_clients, count_classes
from fedconformal.training.config import make
from fedconformal.training.data.partitions import Partition
from fedconformal.training.fedavg import client_seed, local_sgd
from fedconformal.training.fedprox import FedProx
from fedconformal.training.outputs import halves, predict
from fedconformal.training.pool import one_thread
from fedconformal.training.step import Step, Update
from fedconformal.training.tct import TCT, LinearisedModel, linear_task
from fedconformal.training.weights import FlatModel, weights_of
from fedconformal.training.weights import with_weights as with_vector

LINEARISED = "fedconformal.tct."
"""Prefix of the arrays of a `LinearisedModel`, unique to it."""
PARTS = ("train", "temperature", "calibrate", "test")
SENT = ("epochs", "rate", "momentum", "batch", "balanced", "seed")
"""Settings sent to every site for training."""
LINEAR_SENT = ("coordinates", "seed", "solver", "intercept", "steps", "loss")
"""Settings sent to every site for TCT's second stage."""
VECTORS = "vectors"
MOST_KEPT = 2**28
"""Maximum size of features stored between messages; larger ones are recomputed for each message."""

Columns = tuple[Tensor, Tensor]


def own_rows(context: Context, part: str) -> Columns | None:
    """Read x and y of a part from rows.npz in the directory `data` of the node config; None without it."""
    if "data" not in context.node_config:
        return None
    path = Path(str(context.node_config["data"])) / "rows.npz"
    arrays = read_npz(path)
    for name in (f"{part}_x", f"{part}_y"):
        if name not in arrays:
            raise InputError(f"{path}: holds no {name}; it needs x and y of {', '.join(PARTS)}")
    return torch.from_numpy(arrays[f"{part}_x"]), torch.from_numpy(arrays[f"{part}_y"])


@cache
def deal(dataset: str, partition: Partition) -> list[dict[str, Columns]]:
    """Partition a data set; half of a site's validation rows are for the temperature, half for calibration.

    >>> from fedconformal.training.data.partitions import IID
    >>> {part: len(y) for part, (x, y) in deal("digits", IID(clients=10))[0].items()}
    {'train': 108, 'temperature': 18, 'calibrate': 18, 'test': 36}
    """
    whole = data.load(dataset)
    owners = partition.split(whole, seed=0)
    first, second = halves(owners, seed=0)
    held = (whole.train, whole.val.take(first), whole.val.take(second), whole.test)
    places = (owners.train, owners.val[first], owners.val[second], owners.test)

    def part(rows: Any, owner: NDArray[Any], site: int) -> Columns:
        return torch.from_numpy(rows.x[owner == site]), torch.from_numpy(rows.y[owner == site])

    return [
        {name: part(rows, owner, k) for name, rows, owner in zip(PARTS, held, places, strict=True)}
        for k in range(len(owners))
    ]


def arrays_of(model: nn.Module) -> ArrayRecord:
    """Return the weights of a model, in the order of its state_dict."""
    return record_of(model.state_dict(prefix=LINEARISED if isinstance(model, LinearisedModel) else ""))


def record_of(tensors: Mapping[str, Tensor]) -> ArrayRecord:
    """Convert tensors to a record of Flower."""
    return ArrayRecord({name: Array(tensor.cpu().numpy()) for name, tensor in tensors.items()})


def load_model(model: nn.Module, arrays: ArrayRecord) -> nn.Module:
    """Return the model with these weights, or its linearised form for weights of TCT's second stage."""
    if f"{LINEARISED}theta" in arrays:
        (classes, columns), (count,) = arrays[f"{LINEARISED}theta"].shape, arrays[f"{LINEARISED}mean"].shape
        model = LinearisedModel.of(model, classes=classes, coordinates=count, seed=0, intercept=columns > count)
    values = read_arrays(arrays, arrays_of(model))
    model.load_state_dict({name.removeprefix(LINEARISED): torch.tensor(array) for name, array in values.items()})
    return model.eval()


def outputs(msg: Message, model: nn.Module, rows: ClientData) -> tuple[NDArray[np.float32], NDArray[Any]]:
    """Return the logits of the message's model on these rows, and their labels; empty without a model."""
    (rows,) = as_clients([rows])
    if ARRAYS not in msg.content:  # a later step of a sums session
        return np.empty((0, 0), np.float32), np.empty(0, np.int64)
    loaded = load_model(model, msg.content.array_records[ARRAYS])
    with one_thread():
        return predict(loaded, rows.x, rows.preprocess), rows.y.numpy()


def train_reply(msg: Message, context: Context, model: nn.Module, rows: ClientData) -> Message:
    """Answer `train` with the result of epochs; the message's config has the settings (`proximal-mu`: FedProx)."""
    config = dict(msg.content.config_records["config"])
    number, mu = int(str(config.pop("server-round"))), config.pop("proximal-mu", 0.0)
    settings = make(FedProx, {**config, "mu": mu})
    (rows,) = as_clients([rows])
    loaded = load_model(model, msg.content.array_records[ARRAYS])
    seed = client_seed(settings.seed, number - 1, site_of(context).partition)
    with one_thread():
        update = local_sgd(FlatModel(loaded), weights_of(loaded), rows.x, rows.y, rows.preprocess, settings, seed)
    return update_reply(msg, context, arrays_of(with_vector(loaded, update.tensors["weights"])), update)


def update_reply(msg: Message, context: Context, arrays: ArrayRecord, update: Update) -> Message:
    """Reply to a message of training with arrays and metrics, unless the site's policy forbids it."""
    site_policy(context).check(Outgoing(kind=WEIGHTS, rows=update.rows))
    metrics = MetricRecord({EXAMPLES: update.rows, **update.numbers})
    return wrap(msg, context, RecordDict({ARRAYS: arrays, METRICS: metrics}))


def linear_reply(msg: Message, context: Context, model: nn.Module, rows: ClientData) -> Message:
    """Answer `train.linear` with moments of the features, the largest eigenvalue, or the gradient of a round of TCT.

    The network is sent once. It is stored in the context's state with the features of the rows until the first question
    after training, because a deployment starts a process for each message.
    """
    asked: dict[str, Any] = dict(msg.content.config_records[ASK])
    network = load_model(model, _network(msg, context, asked["network"]))
    settings = make(TCT, {name: asked[name] for name in LINEAR_SENT} | {"device": "cpu"})
    (rows,) = as_clients([rows])
    classes = count_classes(network, [rows])
    linear = LinearisedModel.of(network, classes=classes, coordinates=settings.coordinates, seed=settings.seed)
    residuals = torch.zeros(classes, rows.n if settings.solver == "scaffold" else 0)
    tensors = {name: torch.tensor(array.numpy()) for name, array in msg.content.array_records[VECTORS].items()}
    step = Step(asked["what"], tensors, {"step": float(asked["rate"])})
    with one_thread(), linear_task(settings, linear.features, [rows], residuals) as task:
        parts = {"residuals": residuals, "features": task.storage.features, "products": task.storage.products}
        stored = context.state.array_records.get(FEATURES, ArrayRecord())
        for name, array in stored.items():
            parts[name].copy_(torch.tensor(array.numpy()))
        if "features" not in stored:
            for earlier in takewhile(lambda what: what != step.what, ("measure", "prepare")):
                task(0, Step(earlier, tensors))
        update = task(0, step)
        if sum(part.nbytes for part in parts.values()) > MOST_KEPT:
            parts = {"residuals": residuals}
        context.state[FEATURES] = record_of(parts)
    return update_reply(msg, context, record_of(update.tensors), update)


def _network(msg: Message, context: Context, wanted: str) -> ArrayRecord:
    """Return the network of a message and store it; without one, return the stored network."""
    if ARRAYS in msg.content:
        forget_training(context)
        context.state[NETWORK] = msg.content.array_records[ARRAYS]
    network = context.state.array_records.get(NETWORK, ArrayRecord())
    if fingerprint(network) != wanted:
        raise InputError("this site does not have the network that is asked about")
    return network


def add_handlers(
    app: ClientApp,
    build_model: Callable[[], nn.Module],
    load_rows: Callable[[Context, str], ClientData],
    classes: Sequence[str] | None = None,
) -> None:
    """Register handlers for the stages linear, temperature, evaluate and broadcast of `run_stages`, and for `watch`.

    Training and calibration are left to the app. An app may also define all handlers itself, by decorating functions
    like those below.

    Parameters
    ----------
    app
        Flower's client app.
    build_model
        Creates the network.
    load_rows
        Returns the site's rows of a part: "train", "temperature" or "test".
    classes
        The class names in the order of the site's label indices.
    """

    @app.train("linear")
    def linear(msg: Message, context: Context) -> Message:
        return linear_reply(msg, context, build_model(), load_rows(context, "train"))

    @app.query("temperature")
    def temperature(msg: Message, context: Context) -> Message:
        found = outputs(msg, build_model(), load_rows(context, "temperature"))
        return temperature_reply(msg, context, *found, classes=classes)

    @app.query("evaluate")
    def evaluate(msg: Message, context: Context) -> Message:
        return evaluate_reply(msg, context, *outputs(msg, build_model(), load_rows(context, "test")), classes=classes)

    app.query("broadcast")(keep_predictor)
    app.query("watch")(watch_reply)
