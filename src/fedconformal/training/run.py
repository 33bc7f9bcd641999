"""A training run in a directory: its settings, a checkpoint after every round, metrics, the model and its logits.

Every file is written beside and renamed. A run that is killed, at any moment, continues from its last checkpoint
to the same result bit for bit: all that is random comes from (seed, round, site).

    config.json      settings with every default, seed, versions
    checkpoint.npz   the state after the last round; checkpoint-100.npz that of a round to keep
    metrics.jsonl    one line a round
    model.pt         the trained weights
    logits.npz       what the model says of validation and test rows; of a regressor, predictions.npz
    result.json      accuracy and temperature, or the errors of a regressor
"""

from __future__ import annotations

import io
import json
import platform
import time
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from fedconformal._base.files import read_bytes, read_npz, write_bytes
from fedconformal._version import __version__
from fedconformal.calibration.temperature import fit_temperature
from fedconformal.errors import InputError, prefix_errors
from fedconformal.training import data, models
from fedconformal.training.clients import ClientData
from fedconformal.training.config import Config, suited_model
from fedconformal.training.data import Dataset, Progress, Sites
from fedconformal.training.fedavg import FedAvg
from fedconformal.training.logits import Answers, answer, halves, npz, write_answers
from fedconformal.training.losses import outputs_of
from fedconformal.training.metrics import Metrics
from fedconformal.training.preprocess import Preprocess, normalise
from fedconformal.training.regression import RegressionResult, finish_regression
from fedconformal.training.trainer import RoundState, find_device

FILES = ("config.json", "checkpoint.npz", "metrics.jsonl", "model.pt", "logits.npz", "predictions.npz", "result.json")
IMAGE_AXES = 3
NOTHING = np.empty(0)
SAVED = ("float32", "float64", "int64", "bool")
"""What tensors of a checkpoint are."""
FREE_TO_CHANGE = ("workers", "scratch", "keep", "first_stage")
"""Settings that do not change the result, so a run may continue with others."""


@dataclass(frozen=True, kw_only=True)
class Result:
    """How good the trained model is.

    Attributes:
        accuracy: on the test rows of all sites.
        temperature: what logits are divided by.
        temperature_at_bound: whether it is at the end of its range.
        rows: how many rows trained, fitted the temperature, calibrate and test.
        seconds: how long the training took, since its last start.
    """

    accuracy: float
    temperature: float
    temperature_at_bound: bool
    clients: int
    rows: dict[str, int]
    seconds: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """Describe for JSON."""
        return {**asdict(self), "seconds": round(self.seconds, 3)}


def train(
    config: Config, output: Path, *, resume: bool = False, tensorboard: bool = False, progress: Progress | None = None
) -> Result | RegressionResult:
    """Train as the settings say, in a directory of its own, or continue a run that is there.

    Args:
        config: the settings.
        output: the run's directory.
        resume: continue from the checkpoint in the directory; without one, start.
        tensorboard: write events for TensorBoard too.
        progress: called with how much is done, of how much, and what.
    """
    _check_settings(config, output, resume=resume)
    dataset, sites = _parted(config, progress)
    suited = _suited(config, dataset)
    clients, model = _clients(config, dataset, sites), _model(suited, dataset)
    device = find_device(config.trainer.device)
    state = read_checkpoint(output / "checkpoint.npz", config.trainer.total_rounds) if resume else None
    state = state or _first_stage(config)
    _open(config, output)  # whatever is wrong with the settings has been said by now
    metrics = Metrics(
        output / "metrics.jsonl",
        done=state.round if state else 0,
        tensorboard=output / "tensorboard" if tensorboard else None,
    )
    start = last = time.perf_counter()

    def on_round(now: RoundState) -> None:
        nonlocal last
        took, last = time.perf_counter() - last, time.perf_counter()
        metrics.add(now.round, now.stage, {**now.metrics, "seconds": round(took, 3)})
        write_bytes(output / "checkpoint.npz", checkpoint(now))
        if now.round in config.settings.keep:
            write_bytes(output / f"checkpoint-{now.round}.npz", checkpoint(now))

    try:
        trained = suited.trainer.fit(model, clients, progress=progress, on_round=on_round, resume=state)
    except InputError as error:
        if error.param != "resume":
            raise
        problem = f"{error}; start again in another directory"
        raise InputError(problem, param="resume", where=output / "checkpoint.npz") from None
    finally:
        metrics.close()
    seconds = time.perf_counter() - start
    ask = partial(answer, trained.to(device), preprocess=clients[0].preprocess, progress=progress)
    val, test = ask(dataset.val, sites.val), ask(dataset.test, sites.test)
    result: Result | RegressionResult
    if dataset.target is None:
        name, outputs, result = _finish_classes(config, dataset, sites, val, test)
    else:
        name, outputs, result = finish_regression(dataset, sites, val, test)
    result = replace(result, seconds=seconds)
    write_bytes(output / "model.pt", _weights(trained))
    write_bytes(output / name, outputs)
    write_bytes(output / "result.json", _json(result.to_dict()))
    return result


def reload(output: Path) -> tuple[nn.Module, Dataset, Sites, Preprocess]:
    """Return the model of a finished run and its data: from the last checkpoint on there is nothing left to train."""
    found = read_settings(output)
    if found is None:
        raise InputError(f"{output}: holds no run")
    config = Config.from_dict(found)
    dataset, sites = _parted(config, None)
    clients = _clients(config, dataset, sites)
    state = read_checkpoint(output / "checkpoint.npz", config.trainer.total_rounds)
    model = config.trainer.fit(_model(_suited(config, dataset), dataset), clients, resume=state)
    return model, dataset, sites, clients[0].preprocess


def _finish_classes(
    config: Config, dataset: Dataset, sites: Sites, val: Answers, test: Answers
) -> tuple[str, bytes, Result]:
    """Fit the temperature, and write the logits."""
    apart, kept = halves(sites, config.trainer.seed)
    if config.settings.temperature == "none":
        apart, kept = apart[:0], np.arange(len(sites.val))
    parts = {"val": val.take(kept), "test": test, "temp": val.take(apart)}
    fitted = parts["temp"].by_client()
    temperature = fit_temperature([z for z, _ in fitted], [y for _, y in fitted], method=config.settings.temperature)
    result = Result(
        accuracy=test.accuracy,
        temperature=temperature.value,
        temperature_at_bound=temperature.at_bound,
        clients=len(sites),
        rows={
            "train": len(dataset.train),
            "temperature": len(apart),
            "calibration": len(kept),
            "test": len(dataset.test),
        },
    )
    return "logits.npz", write_answers(parts, sites, temperature=result.temperature), result


def checkpoint(state: RoundState) -> bytes:
    """Return the bytes of a checkpoint: plain arrays in an .npz file."""
    arrays = {f"tensor.{name}": tensor.detach().cpu().numpy() for name, tensor in state.tensors.items()}
    return npz({"round": np.array(state.round), "stage": np.array(state.stage), **arrays})


def read_checkpoint(path: Path, rounds: int | None = None) -> RoundState | None:
    """Read a checkpoint of a run with this number of rounds; None if there is none yet."""
    if not path.exists():
        return None
    arrays = read_npz(path)
    number, stage = arrays.get("round", NOTHING), arrays.get("stage", NOTHING)
    kept = {name.removeprefix("tensor."): array for name, array in arrays.items() if name.startswith("tensor.")}
    sound = all(
        array.dtype.isnative and array.dtype.name in SAVED and np.isfinite(array).all() for array in kept.values()
    )
    if number.shape or number.dtype.kind not in "iu" or stage.shape or stage.dtype.kind != "U" or not sound:
        raise InputError(f"{path}: is no checkpoint; start again in another directory")
    if rounds is not None and not 0 < number <= rounds:
        raise InputError(
            f"{path}: is no checkpoint of this run, which has {rounds} rounds; start again in another place"
        )
    tensors = {name: torch.from_numpy(array) for name, array in kept.items()}
    return RoundState(round=int(number), stage=str(stage), tensors=tensors)


def read_settings(output: Path) -> dict[str, Any] | None:
    """Return the settings of the run in a directory; None if there is no run."""
    path = output / "config.json"
    if not path.exists():
        return None
    data = read_bytes(path)
    try:
        found = json.loads(data)["config"]
    except (ValueError, KeyError, TypeError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise InputError(f"{path}: is not the config.json of a run")
    with prefix_errors(path):
        return _plain(Config.from_dict(found))  # with settings that are newer than the run


def versions() -> dict[str, str]:
    """Return the versions of what computed."""
    packages = {name: metadata.version(name) for name in ("numpy", "torch")}
    return {"fedconformal": __version__, "python": platform.python_version(), **packages}


def _check_settings(config: Config, output: Path, *, resume: bool) -> None:
    there = read_settings(output)
    if there is not None and not resume:
        raise InputError(
            f"{output}: holds a run already; go on with it with resume=True, or choose another place", param="resume"
        )
    asked = _plain(config)
    if there is not None:
        for key in {**there, **asked}:
            if key not in FREE_TO_CHANGE and there.get(key) != asked.get(key):
                found = f"{key} is {there.get(key)!r} in the run and {asked.get(key)!r} now"
                raise InputError(f"{output}: {found}; resume=True goes on with the same settings", param="resume")


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
        raise InputError(f"{output}: cannot be made ({error.strerror}); choose another place", param="output") from None
    write_bytes(output / "config.json", _json({"config": _plain(config), "versions": versions()}))


def _plain(config: Config) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(config.to_dict()))
    return found


def _parted(config: Config, progress: Progress | None) -> tuple[Dataset, Sites]:
    dataset = data.load(config.settings.dataset, progress=progress)
    column = getattr(config.partition, "column", None)
    if column is not None:
        dataset = dataset.having(column)
    return dataset, config.partition.split(dataset, seed=config.trainer.seed)


def _clients(config: Config, dataset: Dataset, sites: Sites) -> list[ClientData]:
    """Return the training rows of each site that has some, normalised if they are images; tables come scaled."""
    parts = [(name, sites.rows(dataset, "train", k)) for k, name in enumerate(sites.names)]
    rows = [(name, torch.from_numpy(part.x), torch.from_numpy(part.y)) for name, part in parts if len(part)]
    images = len(dataset.shape) == IMAGE_AXES
    preprocess = normalise((x for _, x, _ in rows), config.settings.augment) if images else Preprocess()
    return [ClientData(name=name, x=x, y=y, preprocess=preprocess) for name, x, y in rows]


def _suited(config: Config, dataset: Dataset) -> Config:
    """Choose the loss that suits the data set, and refuse one that does not."""
    trainer = config.trainer
    if dataset.target is None:
        if trainer.numbers:
            raise InputError(f"{dataset.name}: has classes, for which the loss is cross-entropy; leave loss out")
        return config
    if not isinstance(trainer, FedAvg) or trainer.loss == "cross-entropy":
        why = f"has a number to predict ({dataset.target.name})"
        raise InputError(f"{dataset.name}: {why}; train it with fedavg, and with the loss squared or pinball")
    return replace(config, trainer=replace(trainer, loss=trainer.loss or "squared"))


def _model(config: Config, dataset: Dataset) -> nn.Module:
    name, target, trainer = config.settings.model or suited_model(dataset), dataset.target, config.trainer
    about: dict[str, Any] = {"shape": dataset.shape, "seed": trainer.seed}
    model: nn.Module
    if target is not None and isinstance(trainer, FedAvg):
        network = models.build(name, classes=outputs_of(trainer.loss or "squared", trainer.quantiles), **about)
        model = models.Regressor(network, centre=target.centre, scale=target.scale)
    else:
        model = models.build(name, classes=dataset.num_classes, **about)
    if config.settings.weights is not None:
        models.load_weights(model, config.settings.weights)
    return model


def _weights(model: nn.Module) -> bytes:
    file = io.BytesIO()
    torch.save({name: tensor.cpu() for name, tensor in model.state_dict().items()}, file)
    return file.getvalue()


def _json(values: Any) -> bytes:
    return (json.dumps(values, indent=1, allow_nan=False) + "\n").encode()
