"""Training on Flower, at the server: requests to the sites for the steps of FedAvg, FedProx and TCT."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, MessageType, RecordDict
from torch import Tensor, nn

from fedconformal.engines.flower.federation import Federation
from fedconformal.engines.flower.records import (
    ARRAYS,
    ASK,
    EXAMPLES,
    METRICS,
    check_keys,
    fingerprint,
    is_float,
    read_arrays,
    read_metrics,
)
from fedconformal.engines.flower.training import LINEAR_SENT, SENT, VECTORS, arrays_of, record_of
from fedconformal.errors import InputError
from fedconformal.federated.ask import Answer, Ask
from fedconformal.training.features import head_of
from fedconformal.training.fedavg import FedAvg
from fedconformal.training.step import Step, Update
from fedconformal.training.tct import TCT, LinearisedModel


def weights_in(arrays: ArrayRecord) -> dict[str, Tensor]:
    """Return the averaged weights of a model: its arrays of floats."""
    return {name: torch.tensor(array.numpy()) for name, array in arrays.items() if is_float(array)}


def with_weights(arrays: ArrayRecord, weights: Mapping[str, Tensor]) -> ArrayRecord:
    """Return the model with other weights; integer arrays are not changed."""
    return ArrayRecord({name: Array(weights[name].numpy()) if name in weights else old for name, old in arrays.items()})


def ask_rounds(federation: Federation, start: ArrayRecord, settings: FedAvg) -> Ask[Step, Update]:
    """Return the transport of training rounds; arrays that are not averaged keep their initial values."""

    def ask(step: Step) -> list[Answer[Update]]:
        config = ConfigRecord({name: getattr(settings, name) for name in SENT})
        config.update({"proximal-mu": settings.proximal, "server-round": int(step.numbers["round"]) + 1})
        like = with_weights(start, step.tensors)

        def read(reply: RecordDict, _site: str) -> Update:
            return read_update(reply, like, {"loss"})

        content = RecordDict({ARRAYS: like, "config": config})
        return federation.exchange("train", content, MessageType.TRAIN, read, least=federation.min_sites)

    return ask


def read_update(reply: RecordDict, like: Mapping[str, Array], numbers: Collection[str]) -> Update:
    """Read a site's update, which must have arrays like these and these metrics."""
    check_keys(reply, ARRAYS, METRICS)
    metrics, arrays = read_metrics(reply[METRICS], numbers), read_arrays(reply[ARRAYS], like)
    tensors = {name: torch.tensor(array) for name, array in arrays.items() if is_float(like[name])}
    return Update(int(metrics.pop(EXAMPLES)), tensors, metrics)


def fit_linear(federation: Federation, network: nn.Module, settings: TCT) -> LinearisedModel:
    """Run TCT's second stage; the network is sent to a site with the first step, and after a missing answer."""
    head: Any = network.get_submodule(head_of(network))
    model = LinearisedModel.of(
        network,
        classes=head.out_features,
        coordinates=settings.coordinates,
        seed=settings.seed,
        intercept=settings.intercept,
    )
    weights, column, table = arrays_of(network), Array(model.mean.numpy()), Array(model.theta.numpy())
    expected: dict[str, tuple[dict[str, Array], set[str]]] = {
        "measure": ({"mean": column, "variance": column}, set()),
        "prepare": ({}, {"eigenvalue"} if settings.solver == "scaffold" else set()),
        "gradient": ({"gradient": table}, {"loss"}),
        "round": ({"control": table}, {"loss"}),
    }
    config: dict[str, Any] = {name: getattr(settings, name) for name in LINEAR_SENT} | {"network": fingerprint(weights)}
    have: set[int] = set()

    def ask(step: Step) -> list[Answer[Update]]:
        def read(reply: RecordDict, _site: str) -> Update:
            update = read_update(reply, *expected[step.what])
            if step.what == "measure" and update.tensors["variance"].min() < 0:
                raise InputError("sent a negative variance")
            return update

        asked = ConfigRecord({**config, "what": step.what, "rate": step.numbers.get("step", 0.0)})
        later = RecordDict({ASK: asked, VECTORS: record_of(step.tensors)})
        first = RecordDict({**later, ARRAYS: weights})
        contents = {node: later if node in have else first for node in federation.grid.get_node_ids()}
        answers = federation.exchange("linear", contents, "train.linear", read, least=federation.min_sites)
        have.clear()
        have.update(answer.node for answer in answers)
        return answers

    settings.fit_linear(ask, model)
    return model
