"""FedAvg and FedProx on Flower: what a site does with its own rows, and how the server asks for it.

The steps are those of `fedconformal.training`, with the site at its own place among the sites, so a run on Flower
gives the weights of `FedAvg.fit`. A site has rows for four purposes, each its own: to train, to fit the temperature, to
calibrate and to test. They come from a directory of its own, or, to try things, from one data set that is dealt out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MessageType, MetricRecord, RecordDict
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
from fedconformal.engines.flower.federation import Federation
from fedconformal.engines.flower.records import (
    ARRAYS,
    EXAMPLES,
    METRICS,
    check_keys,
    is_float,
    read_arrays,
    read_metrics,
    site_of,
    wrap,
)
from fedconformal.errors import InputError
from fedconformal.federated.ask import Answer, Ask
from fedconformal.privacy.policy import WEIGHTS, Outgoing
from fedconformal.training import data
from fedconformal.training.clients import ClientData, as_clients
from fedconformal.training.config import make
from fedconformal.training.data.partitions import Partition
from fedconformal.training.fedavg import FedAvg, client_seed, local_sgd
from fedconformal.training.fedprox import FedProx
from fedconformal.training.outputs import halves, predict
from fedconformal.training.pool import one_thread
from fedconformal.training.step import Step, Update
from fedconformal.training.weights import FlatModel, weights_of
from fedconformal.training.weights import with_weights as with_vector

LOSS = "train-loss"
PARTS = ("train", "temperature", "calibrate", "test")
SENT = ("epochs", "rate", "momentum", "batch", "balanced", "seed")
"""Settings that every site trains with."""

Columns = tuple[Tensor, Tensor]


def own_rows(context: Context, part: str) -> Columns | None:
    """Read x and y of a part from rows.npz in the directory that `data` in the node config names, if it does."""
    if "data" not in context.node_config:
        return None
    path = Path(str(context.node_config["data"])) / "rows.npz"
    found = read_npz(path)
    for name in (f"{part}_x", f"{part}_y"):
        if name not in found:
            raise InputError(f"{path}: holds no {name}; it needs x and y of {', '.join(PARTS)}")
    return torch.from_numpy(found[f"{part}_x"]), torch.from_numpy(found[f"{part}_y"])


@cache
def deal(dataset: str, partition: Partition) -> list[dict[str, Columns]]:
    """Deal a data set out; of a site's validation rows one half fits the temperature, the other calibrates.

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
    return ArrayRecord({name: Array(tensor.cpu().numpy()) for name, tensor in model.state_dict().items()})


def load_model(model: nn.Module, arrays: ArrayRecord) -> nn.Module:
    """Return the model with these weights."""
    found = read_arrays(arrays, arrays_of(model))
    model.load_state_dict({name: torch.tensor(array) for name, array in found.items()})
    return model.eval()


def outputs(msg: Message, model: nn.Module, rows: ClientData) -> tuple[NDArray[np.float32], NDArray[Any]]:
    """Return the logits of the message's model on these rows, and their labels; no logits if it brings no model."""
    (rows,) = as_clients([rows])
    if ARRAYS not in msg.content:  # a later step of a sums session
        return np.empty((0, 0), np.float32), np.empty(0, np.int64)
    loaded = load_model(model, msg.content.array_records[ARRAYS])
    with one_thread():
        return predict(loaded, rows.x, rows.preprocess), rows.y.numpy()


def train_reply(msg: Message, context: Context, model: nn.Module, rows: ClientData) -> Message:
    """Answer `train`: some epochs from the weights of the message; with `proximal-mu` in its config it is FedProx.

    Epochs, rate, momentum, batch and seed come from the message's config, so all sites train alike.
    """
    config = dict(msg.content.config_records["config"])
    number, mu = int(str(config.pop("server-round"))), config.pop("proximal-mu", 0.0)
    settings = make(FedProx, {**config, "mu": mu})
    (rows,) = as_clients([rows])
    loaded = load_model(model, msg.content.array_records[ARRAYS])
    place, most = site_of(context).partition, int(context.node_config.get("num-partitions", 0))
    if not 0 <= place < most:
        raise InputError(f"partition-id is {place} and num-partitions {most} in the node config; give both")
    seed = client_seed(settings.seed, number - 1, place)
    with one_thread():
        update = local_sgd(FlatModel(loaded), weights_of(loaded), rows.x, rows.y, rows.preprocess, settings, seed)
    site_policy(context).check(Outgoing(kind=WEIGHTS, rows=update.rows))
    arrays = arrays_of(with_vector(loaded, update.tensors["weights"]))
    metrics = MetricRecord({EXAMPLES: update.rows, LOSS: update.numbers["loss"]})
    return wrap(msg, context, RecordDict({ARRAYS: arrays, METRICS: metrics}))


def add_handlers(
    app: ClientApp, build_model: Callable[[], nn.Module], load_rows: Callable[[Context, str], ClientData]
) -> None:
    """Let a client app answer in the stages temperature, evaluate and broadcast of `run_stages`, and `watch`.

    Training and calibration are the app's own. So are all of them for an app that does not call this, and decorates
    functions like those below.

    Parameters
    ----------
    app
        Flower's.
    build_model
        Makes the network.
    load_rows
        Reads the site's rows to "train", to fit the "temperature" or to "test".
    """

    @app.query("temperature")
    def temperature(msg: Message, context: Context) -> Message:
        return temperature_reply(msg, context, *outputs(msg, build_model(), load_rows(context, "temperature")))

    @app.query("evaluate")
    def evaluate(msg: Message, context: Context) -> Message:
        return evaluate_reply(msg, context, *outputs(msg, build_model(), load_rows(context, "test")))

    app.query("broadcast")(keep_predictor)
    app.query("watch")(watch_reply)


def weights_in(arrays: ArrayRecord) -> dict[str, Tensor]:
    """Return what is averaged of a model: its arrays of floats."""
    return {name: torch.tensor(array.numpy()) for name, array in arrays.items() if is_float(array)}


def with_weights(arrays: ArrayRecord, weights: Mapping[str, Tensor]) -> ArrayRecord:
    """Return the model with other weights; arrays of whole numbers stay as they are."""
    return ArrayRecord({name: Array(weights[name].numpy()) if name in weights else one for name, one in arrays.items()})


def ask_rounds(federation: Federation, start: ArrayRecord, settings: FedAvg) -> Ask[Step, Update]:
    """Ask the sites to train from given weights; the other arrays are those at the start."""

    def ask(step: Step) -> Iterator[Answer[Update]]:
        config = ConfigRecord({name: getattr(settings, name) for name in SENT})
        if isinstance(settings, FedProx):
            config["proximal-mu"] = settings.mu
        config["server-round"] = int(step.numbers["round"]) + 1
        like = with_weights(start, step.tensors)

        def read(reply: RecordDict, _site: str) -> Update:
            check_keys(reply, ARRAYS, METRICS)
            metrics, arrays = read_metrics(reply[METRICS], {LOSS}), read_arrays(reply[ARRAYS], like)
            tensors = {name: torch.tensor(array) for name, array in arrays.items() if is_float(like[name])}
            return Update(int(metrics[EXAMPLES]), tensors, {"loss": metrics[LOSS]})

        content = RecordDict({ARRAYS: like, "config": config})
        yield from federation.exchange("train", content, MessageType.TRAIN, read, least=federation.min_sites)

    return ask
