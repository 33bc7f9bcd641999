"""Training on Flower, at the server: carries the steps of FedAvg, FedProx and TCT to the sites."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, MessageType, RecordDict
from torch import Tensor, nn

from fedconformal.engines.flower.federation import Federation
from fedconformal.engines.flower.records import ARRAYS, ASK, LINEAR, METRIC_OF, fingerprint, is_float, read_update
from fedconformal.engines.flower.site_training import arrays_of
from fedconformal.federated.ask import Answer, Ask
from fedconformal.training.fedavg import FedAvg
from fedconformal.training.fedprox import FedProx
from fedconformal.training.step import Step, Update
from fedconformal.training.tct import TCT, LinearisedModel

SENT = ("epochs", "rate", "momentum", "batch", "balanced", "seed")
SENT_LINEAR = ("coordinates", "seed", "solver", "intercept", "steps", "loss", "memory")


def weights_in(arrays: ArrayRecord) -> dict[str, Tensor]:
    """Return what is averaged of a model: its arrays of floats."""
    return {name: torch.tensor(array.numpy()) for name, array in arrays.items() if is_float(array)}


def with_weights(arrays: ArrayRecord, weights: Mapping[str, Tensor]) -> ArrayRecord:
    """Return the model with other weights; arrays of whole numbers stay as they are."""
    return ArrayRecord({name: _array(weights[name]) if name in weights else one for name, one in arrays.items()})


def ask_rounds(federation: Federation, start: ArrayRecord, settings: FedAvg) -> Ask[Step, Update]:
    """Ask the sites to train from given weights; the other arrays are those at the start."""

    def ask(step: Step) -> Iterator[Answer[Update]]:
        config = ConfigRecord({name: getattr(settings, name) for name in SENT})
        if isinstance(settings, FedProx):
            config["proximal-mu"] = settings.mu
        if settings.numbers:
            config["loss"], config["quantiles"] = str(settings.loss), list(settings.quantiles)
        config["server-round"] = int(step.numbers["round"]) + 1
        like = with_weights(start, step.tensors)
        contents = dict.fromkeys(federation.grid.get_node_ids(), RecordDict({ARRAYS: like, "config": config}))
        return _updates(federation, ("train", MessageType.TRAIN, "weights"), contents, like, ["loss"])

    return ask


def ask_linear(federation: Federation, network: nn.Module, model: LinearisedModel, settings: TCT) -> Ask[Step, Update]:
    """Ask the sites for the steps of TCT's second stage; each site gets the network once."""
    column, table, weights = _array(model.mean), _array(model.theta), arrays_of(network)
    expected: dict[str, tuple[dict[str, Array], list[str]]] = {
        "measure": ({"mean": column, "variance": column}, []),
        "prepare": ({}, ["eigenvalue"] if settings.solver == "scaffold" else []),
        "gradient": ({"gradient": table}, ["loss"]),
        "round": ({"control": table}, ["loss"]),
    }
    config: dict[str, Any] = {name: getattr(settings, name) for name in SENT_LINEAR}
    config |= {"classes": len(model.theta), "network": fingerprint(weights)}
    have: set[int] = set()

    def ask(step: Step) -> Iterator[Answer[Update]]:
        asked = ConfigRecord({**config, "what": step.what, "step": step.numbers.get("step", 0.0)})
        vectors = ArrayRecord({name: _array(tensor) for name, tensor in step.tensors.items()})
        later = RecordDict({LINEAR: vectors, ASK: asked})
        first = RecordDict({**later, ARRAYS: weights})
        contents = {node: later if node in have else first for node in federation.grid.get_node_ids()}
        for answer in _updates(federation, ("linear", "train.linear", step.what), contents, *expected[step.what]):
            have.add(answer.node)
            yield answer

    return ask


def _updates(
    federation: Federation,
    names: tuple[str, str, str],
    contents: Mapping[int, RecordDict],
    like: Mapping[str, Array],
    numbers: Sequence[str],
) -> Iterator[Answer[Update]]:
    """Ask, and read arrays like these and these numbers; `names` are of the stage, the message and the arrays."""
    stage, message_type, what = names

    def read(reply: RecordDict, _site: str) -> tuple[dict[str, Any], int, dict[str, float]]:
        return read_update(reply, like, [METRIC_OF[name] for name in numbers], what=what)

    answers = federation.exchange(stage, contents, message_type, read, least=federation.min_sites)
    for name, (arrays, rows, metrics), node in answers:
        tensors = {one: torch.tensor(array) for one, array in arrays.items() if is_float(like[one])}
        yield Answer(name, Update(rows, tensors, {one: metrics[METRIC_OF[one]] for one in numbers}), node)


def _array(tensor: Tensor) -> Array:
    return Array(tensor.numpy())
