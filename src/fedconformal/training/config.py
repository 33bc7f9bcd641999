"""What a run is made from: one flat table of settings, from a preset, a TOML file and the command line.

The settings are the fields of the run itself, of the method and of the partition. So a new method or partition brings
its own, and a key that belongs to none of them is refused with the nearest one that does.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from fedconformal._base.files import read_bytes
from fedconformal._base.registry import find, members
from fedconformal.errors import InputError
from fedconformal.training.data import Dataset
from fedconformal.training.data.partitions import Partition
from fedconformal.training.preprocess import Augmentation
from fedconformal.training.trainer import Trainer

T = TypeVar("T")

FITZPATRICK = "fitzpatrick17k"
PRESETS = ("paper",)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a run needs beside a method and a partition.

    Attributes:
        dataset: its name.
        model: a network's name; None for one that suits the rows.
        weights: a file of weights to start from.
        augment: how images are varied in training.
        temperature: "pooled" over the sites' rows, "mean" of the sites' own, or "none".
        keep: rounds whose checkpoints are kept, as checkpoint-100.npz.
        first_stage: a checkpoint of FedAvg after TCT's `rounds`, which is TCT's first stage bit for bit.
    """

    dataset: str
    model: str | None = None
    weights: str | None = None
    augment: Augmentation = "none"
    temperature: Literal["pooled", "mean", "none"] = "pooled"
    keep: tuple[int, ...] = ()
    first_stage: str | None = None


@dataclass(frozen=True, kw_only=True)
class Config:
    """A run's settings, checked: its own, the method's and the partition's.

    >>> config = Config.from_dict({"dataset": "digits", "method": "fedprox", "mu": 0.5, "partition": "iid"})
    >>> config.trainer.name, config.to_dict()["mu"], config.partition.clients
    ('fedprox', 0.5, 10)
    >>> Config.from_dict({"dataset": "digits", "rouns": 3})
    Traceback (most recent call last):
    fedconformal.errors.InputError: rouns is no setting; did you mean rounds?
    """

    settings: Settings
    trainer: Trainer
    partition: Partition

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Config:
        """Check a flat table of settings."""
        given = {"method": "fedavg", "partition": "classes", **values}
        method, partition = find(str(given.pop("method")), Trainer), find(str(given.pop("partition")), Partition)
        allowed = [*_keys(Settings), *_keys(method), *_keys(partition)]
        for key in given:
            if key not in allowed:
                raise InputError(_unknown(key, allowed, f"{method.name} and {partition.name}"))
        if "dataset" not in given:
            raise InputError("no dataset is named; add it to the settings", param="dataset")
        return cls(settings=make(Settings, given), trainer=make(method, given), partition=make(partition, given))

    def to_dict(self) -> dict[str, Any]:
        """Return the flat table, with every default spelled out."""
        names = {"method": self.trainer.name, "partition": self.partition.name}
        return names | asdict(self.settings) | asdict(self.trainer) | asdict(self.partition)


def read_config(path: Path) -> dict[str, Any]:
    """Read settings from a TOML file."""
    try:
        return tomllib.loads(read_bytes(path).decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: is not TOML ({error})") from None


def preset(name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a preset for this method and data set; "paper" is the paper's.

    >>> preset("paper", {"dataset": "cifar100", "method": "fedprox"})["mu"]
    0.1
    """
    if name not in PRESETS:
        raise InputError(f"no preset is called {name!r}; there is {', '.join(PRESETS)}")
    dataset, method = str(values.get("dataset")), values.get("method", "fedavg")
    found: dict[str, Any] = {"rounds": 200, "epochs": 5, "rate": 0.01, "momentum": 0.9, "batch": 64}
    found |= {"weighting": "uniform", "augment": "flip-crop", "temperature": "mean"}
    if dataset.startswith(FITZPATRICK):
        found |= {"rate": 0.001, "augment": "flip-crop-jitter-rotate", "balanced": True}
    if dataset == "tissuemnist":  # grey images, for which LeNet would be chosen
        found["model"] = "resnet14"
    if method == "central":  # as in the authors' code: 200 epochs in all
        found["epochs"] = 1
    if method == "fedprox":
        found["mu"] = 0.1
    if method == "tct":  # a step of 1e-4 on 100,000 features is one of 10 on features divided by their root
        found |= {"rounds": 100, "linear_rounds": 100, "coordinates": 100_000, "steps": 500, "step": 10.0}
        found |= {"solver": "scaffold", "intercept": False}
    return found


def suited_model(dataset: Dataset) -> str:
    """Return the network for a data set: LeNet for grey images, ResNet-14 for coloured, EfficientNet-B1 for large."""
    if len(dataset.shape) == 1 or min(dataset.shape[1:]) < 12:
        return "mlp"
    if dataset.shape[0] == 1:
        return "lenet"
    return "resnet14" if min(dataset.shape[1:]) <= 64 else "efficientnet-b1"


def make(cls: Callable[..., T], given: Mapping[str, Any]) -> T:
    """Create a dataclass from those of the settings that are its fields; refuse values of another type."""
    try:
        made: T = msgspec.convert({key: given[key] for key in _keys(cls) if key in given}, type=cls)
    except msgspec.ValidationError as error:
        if isinstance(error.__cause__, InputError):
            raise error.__cause__ from None
        what, _, where = str(error).partition(" - at `$.")
        key = where.strip("`")
        if not key and "missing required field" in what:
            key = what.split("`")[1]
            raise InputError(f"{key} is needed here; add it to the settings", param="settings") from None
        choices = get_args(next((one for one in _choices(cls, key) if get_origin(one) is Literal), None))
        there = f"; there are {', '.join(map(str, choices))}" if choices else ""
        name = key.replace("_", "-") or cls.__name__.lower()
        raise InputError(f"{name}: {what[0].lower()}{what[1:]}{there}", param=key or None) from None
    return made


def _choices(cls: Any, key: str) -> tuple[Any, ...]:
    hint = get_type_hints(cls).get(key)
    return (hint, *get_args(hint))


def _keys(cls: Any) -> list[str]:
    return [field.name for field in fields(cls)]


def _unknown(key: str, allowed: list[str], chosen: str) -> str:
    everywhere: list[Any] = [*members(Trainer).values(), *members(Partition).values()]
    owners = sorted(cls.name for cls in everywhere if key in _keys(cls))
    if owners:
        return f"{key} is for {' and '.join(owners)}, not for {chosen}; leave it out"
    near = difflib.get_close_matches(key, [*allowed, "method", "partition"], n=1, cutoff=0.0)
    return f"{key} is no setting; did you mean {near[0]}?"
