"""What a site does with torch: load the model of a message, train it on the site's own rows, ask it about them.

The steps are those of `fedconformal.federated`, with the site at its own place among the sites, so a run on Flower
gives the weights that `FedAvg.fit` and `TCT.fit` give.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from numpy.typing import NDArray
from torch import nn

from fedconformal._base.arrays import Integers
from fedconformal.engines.flower.records import ARRAYS, EXAMPLES, METRICS, SITE, read_arrays, site_of, site_record
from fedconformal.engines.local.threads import one_thread
from fedconformal.errors import InputError
from fedconformal.federated.ask import Step
from fedconformal.federated.clients import ClientData, PackedClients, as_clients
from fedconformal.federated.fedprox import FedProx
from fedconformal.federated.local import LocalTraining, weights_of, with_weights
from fedconformal.federated.tct import LinearisedModel

CPU = torch.device("cpu")
BATCH = 256


def arrays_of(model: nn.Module) -> ArrayRecord:
    """Return the weights of a model, in the order of its state_dict."""
    return ArrayRecord({name: Array(tensor.cpu().numpy()) for name, tensor in model.state_dict().items()})


def load_model(model: nn.Module, arrays: ArrayRecord) -> nn.Module:
    """Return the model with these weights, or its linearised form if they are of TCT's second stage."""
    if "theta" in arrays:
        classes, count = arrays["theta"].shape
        model = LinearisedModel.of(model, classes=classes, coordinates=count, seed=0)
    found = read_arrays(arrays, arrays_of(model))
    model.load_state_dict({name: torch.tensor(array) for name, array in found.items()})
    return model.eval()


def outputs(msg: Message, model: nn.Module, rows: ClientData) -> tuple[NDArray[np.float32], Integers]:
    """Return the logits of the message's model on these rows, and their labels; no logits if it brings no model."""
    (rows,) = as_clients([rows])
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
    (rows,) = as_clients([rows])
    loaded = load_model(model, msg.content.array_records[ARRAYS])
    place = place_of(context)
    starts = (0,) * (place + 1) + (rows.n,)  # the sites before it have no rows here
    packed = PackedClients(x=rows.x, y=rows.y, starts=starts, preprocess=rows.preprocess)
    settings = FedProx(
        epochs=int(config["epochs"]),
        rate=float(config["rate"]),
        momentum=float(config["momentum"]),
        batch=int(config["batch"]),
        seed=int(config["seed"]),
        mu=float(config.get("proximal-mu", 0.0)),
    )
    task = LocalTraining(module=loaded, clients=packed, settings=settings, device=CPU)
    step = Step("train", {"weights": weights_of(loaded)}, {"round": int(config["server-round"]) - 1})
    with one_thread():
        update = task(place, step)
    metrics = {EXAMPLES: update.rows, "train-loss": update.numbers["loss"]}
    return reply(msg, context, arrays_of(with_weights(loaded, update.tensors["weights"])), metrics)


def reply(msg: Message, context: Context, arrays: ArrayRecord, metrics: dict[str, Any]) -> Message:
    """Answer with arrays and metrics."""
    content = RecordDict({ARRAYS: arrays, METRICS: MetricRecord(metrics), SITE: site_record(site_of(context))})
    return Message(content, reply_to=msg)


def place_of(context: Context) -> int:
    """Return the site's number among the clients, which its random numbers come from."""
    place, most = site_of(context).partition, int(context.node_config.get("num-partitions", 0))
    if not 0 <= place < most:
        raise InputError(f"partition-id is {place} and num-partitions {most} in the node config; give both")
    return place
