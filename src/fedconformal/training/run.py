"""A training run in a directory: settings, a checkpoint after every round, metrics, the model and its outputs.

Every file (docs/training.md) is replaced atomically. A run that is killed at any moment continues from its last
checkpoint to the same result bit for bit, because all randomness is derived from (seed, round, site).
"""

from __future__ import annotations

import io
import json
import platform
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from fedconformal._base.files import read_bytes, read_npz, write_bytes
from fedconformal._version import __version__
from fedconformal.errors import InputError, prefix_errors
from fedconformal.training import data, models
from fedconformal.training.clients import ClientData
from fedconformal.training.config import Config
from fedconformal.training.data import Dataset, Progress, Sites
from fedconformal.training.fedavg import FedAvg
from fedconformal.training.outputs import Answers, Result, calibrated_outputs, npz, predict
from fedconformal.training.preprocess import Preprocess, normalise
from fedconformal.training.step import RoundState

FILES = ("config.json", "checkpoint.npz", "metrics.jsonl", "model.pt", "logits.npz", "result.json")
IMAGE_AXES = 3
FREE_TO_CHANGE = ("workers", "keep", "first_stage")
"""Settings that do not affect the result and may differ when a run continues."""
SAVED_TYPES = ("float32", "float64", "int64", "bool")
"""Data types of the tensors of a checkpoint."""
ABSENT = np.empty(0)


def train(
    config: Config,
    output: Path,
    *,
    resume: bool = False,
    progress: Progress | None = None,
    network: Callable[[], nn.Module] | None = None,
    dataset: Dataset | None = None,
) -> Result:
    """Train in a directory, or with `resume` continue; `network` and `dataset` replace those of the settings."""
    _check_settings(config, output, resume=resume)
    dataset, sites = partition_dataset(config, progress, dataset)
    clients, model = site_rows(config, dataset, sites), build_model(config, dataset, network)
    state = read_checkpoint(output / "checkpoint.npz", config.trainer.total_rounds) if resume else None
    state = state or _first_stage(config)
    _open(config, output)  # after all settings have been checked
    metrics = read_metrics(output / "metrics.jsonl", state.round if state else 0)
    write_bytes(output / "metrics.jsonl", b"".join(metrics))
    start = last = time.perf_counter()

    def on_round(now: RoundState) -> None:
        nonlocal last
        took, last = time.perf_counter() - last, time.perf_counter()
        line = {"round": now.round, "stage": now.stage, **now.metrics, "seconds": round(took, 3)}
        metrics.append(json.dumps(line).encode() + b"\n")
        write_bytes(output / "metrics.jsonl", b"".join(metrics))
        write_bytes(output / "checkpoint.npz", checkpoint(now))
        if now.round in config.settings.keep:
            write_bytes(output / f"checkpoint-{now.round}.npz", checkpoint(now))

    try:
        trained = config.trainer.fit(model, clients, progress=progress, on_round=on_round, resume=state)
    except InputError as error:
        if error.param != "resume":
            raise
        problem = f"{error}; start again in another directory"
        raise InputError(problem, param="resume", where=output / "checkpoint.npz") from None
    seconds = round(time.perf_counter() - start, 3)
    trained.to(config.trainer.torch_device)
    val, test = (
        Answers(predict(trained, torch.tensor(rows.x), clients[0].preprocess), rows.y, owners)
        for rows, owners in ((dataset.val, sites.val), (dataset.test, sites.test))
    )
    outputs, result = calibrated_outputs(config, dataset, sites, val, test)
    result = replace(result, seconds=seconds)
    torch.save({name: tensor.cpu() for name, tensor in trained.state_dict().items()}, weights := io.BytesIO())
    write_bytes(output / "model.pt", weights.getvalue())
    write_bytes(output / "logits.npz", outputs)
    write_bytes(output / "result.json", _json(asdict(result)))
    return result


def read_settings(output: Path) -> Config | None:
    """Return the settings of the run in a directory; None if there is no run."""
    path = output / "config.json"
    if not path.exists():
        return None
    content = read_bytes(path)
    with prefix_errors(path):
        try:
            return Config.from_dict({**json.loads(content)["config"]})
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError("is not the config.json of a run") from None


def partition_dataset(
    config: Config, progress: Progress | None = None, dataset: Dataset | None = None
) -> tuple[Dataset, Sites]:
    """Load the data set of a run, unless given, and partition it among the sites."""
    dataset = dataset or data.load(config.settings.dataset, progress=progress)
    if not isinstance(dataset, Dataset):
        raise InputError(f"the data set is {type(dataset).__name__}, expected training.data.Dataset", param="dataset")
    column = getattr(config.partition, "column", None)
    if column is not None:
        dataset = dataset.having(column)
    return dataset, config.partition.split(dataset, seed=config.trainer.seed)


def site_rows(config: Config, dataset: Dataset, sites: Sites) -> list[ClientData]:
    """Return the training rows of each site that has any; images are normalised, tables are scaled already."""
    parts = [(name, sites.rows(dataset, "train", k)) for k, name in enumerate(sites.names)]
    rows = [(name, torch.from_numpy(part.x), torch.from_numpy(part.y)) for name, part in parts if len(part)]
    images = len(dataset.shape) == IMAGE_AXES
    preprocess = normalise((x for _, x, _ in rows), config.settings.augment) if images else Preprocess()
    return [ClientData(name=name, x=x, y=y, preprocess=preprocess) for name, x, y in rows]


def build_model(config: Config, dataset: Dataset, network: Callable[[], nn.Module] | None = None) -> nn.Module:
    """Build the network of a run, with its initial weights."""
    seed = config.trainer.seed
    if network is not None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = network()
    else:
        name = config.settings.model or suited_model(dataset)
        model = models.build(name, classes=dataset.num_classes, shape=dataset.shape, seed=seed)
    if config.settings.weights is not None:
        models.load_weights(model, config.settings.weights)
    return model


def suited_model(dataset: Dataset) -> str:
    """Return the default network: MLP for tables and tiny images, else LeNet (grey), ResNet-14 or EfficientNet-B1."""
    if len(dataset.shape) == 1 or min(dataset.shape[1:]) < 12:
        return "mlp"
    if dataset.shape[0] == 1:
        return "lenet"
    return "resnet14" if min(dataset.shape[1:]) <= 64 else "efficientnet-b1"


def checkpoint(state: RoundState) -> bytes:
    """Return the bytes of a checkpoint: plain arrays in an .npz file."""
    arrays = {f"tensor.{name}": tensor.detach().cpu().numpy() for name, tensor in state.tensors.items()}
    return npz({"round": np.array(state.round), "stage": np.array(state.stage), **arrays})


def read_checkpoint(path: Path, rounds: int | None = None) -> RoundState | None:
    """Read a checkpoint of a run with this number of rounds; None if the file does not exist."""
    if not path.exists():
        return None
    arrays = read_npz(path)
    number, stage = arrays.get("round", ABSENT), arrays.get("stage", ABSENT)
    data = {name.removeprefix("tensor."): array for name, array in arrays.items() if name.startswith("tensor.")}
    valid = all(
        array.dtype.isnative and array.dtype.name in SAVED_TYPES and np.isfinite(array).all() for array in data.values()
    )
    if number.shape or number.dtype.kind not in "iu" or stage.shape or stage.dtype.kind != "U" or not valid:
        raise InputError(f"{path}: is no checkpoint; start again in another directory")
    if rounds is not None and not 0 < number <= rounds:
        raise InputError(f"{path}: is of round {number}, but the run has {rounds}; start again in another directory")
    tensors = {name: torch.from_numpy(array) for name, array in data.items()}
    return RoundState(round=int(number), stage=str(stage), tensors=tensors)


def read_metrics(path: Path, done: int) -> list[bytes]:
    """Return the metrics lines of completed rounds, without a truncated last line."""
    lines = read_bytes(path).splitlines(keepends=True) if path.exists() else []
    try:
        return [line for line in lines if line.endswith(b"\n") and json.loads(line)["round"] <= done]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise InputError(f"{path}: has a line that is not of a round; start again in another directory") from None


def _check_settings(config: Config, output: Path, *, resume: bool) -> None:
    existing = read_settings(output)
    if existing is None:
        return
    if not resume:
        problem = f"{output}: already holds a run; continue it with resume=True or choose another directory"
        raise InputError(problem, param="resume")
    before, now = existing.to_dict(), config.to_dict()
    for key in {**before, **now}:
        if key not in FREE_TO_CHANGE and before.get(key) != now.get(key):
            change = f"{key} is {before.get(key)!r} in the run and {now.get(key)!r} now"
            raise InputError(f"{output}: {change}; resume=True needs the same settings", param="resume")


def _first_stage(config: Config) -> RoundState | None:
    """Read the checkpoint of FedAvg from which TCT's second stage starts, if the settings name one."""
    name = config.settings.first_stage
    if name is None:
        return None
    path, rounds = Path(name), config.trainer.rounds
    if config.trainer.name != "tct":
        raise InputError(f"first_stage is for tct, not for {config.trainer.name}; leave it out")
    state = read_checkpoint(path)
    if state is None:
        raise InputError(f"{path}: no such file")
    if state.stage != FedAvg.name or state.round != rounds:
        raise InputError(f"{path}: is of {state.stage}, round {state.round}; expected fedavg, round {rounds}")
    return state


def _open(config: Config, output: Path) -> None:
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{output}: cannot be created ({error.strerror})", param="output") from None
    packages = {name: metadata.version(name) for name in ("numpy", "torch")}
    versions = {"fedconformal": __version__, "python": platform.python_version(), **packages}
    write_bytes(output / "config.json", _json({"config": config.to_dict(), "versions": versions}))


def _json(values: Any) -> bytes:
    return (json.dumps(values, indent=1, allow_nan=False) + "\n").encode()
