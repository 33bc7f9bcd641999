"""Settings of a run: one flat table, from a preset, a TOML file and the command line.

The settings are the fields of the run itself, of the method and of the partition.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal, TypeVar, get_type_hints

from fedconformal._base.files import read_bytes
from fedconformal._base.registry import find
from fedconformal.errors import InputError
from fedconformal.training.data.partitions import Partition
from fedconformal.training.preprocess import Augmentation
from fedconformal.training.trainer import Trainer, convert

T = TypeVar("T")
Table = dict[str, Any]
"""Settings by name, as JSON and TOML hold them."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of a run other than those of its method and its partition."""

    dataset: str
    model: str | None = None
    """Name of the network; None for the default of the data set."""
    weights: str | None = None
    """A file of weights to start from."""
    augment: Augmentation = "none"
    temperature: Literal["pooled", "mean", "none"] = "pooled"
    keep: tuple[int, ...] = ()
    """Rounds whose checkpoints are kept, as checkpoint-100.npz."""
    first_stage: str | None = None
    """Checkpoint of FedAvg after TCT's `rounds`, used as TCT's first stage (they agree bit for bit)."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """Settings of a run, checked: its own, the method's and the partition's.

    >>> config = Config.from_dict({"dataset": "digits", "method": "fedprox", "mu": 0.5, "partition": "iid"})
    >>> config.trainer.name, config.to_dict()["mu"], config.partition.clients
    ('fedprox', 0.5, 10)
    """

    settings: Settings
    trainer: Trainer
    partition: Partition

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Config:
        """Check a flat table of settings."""
        table = {"method": "fedavg", "partition": "classes", **values}
        method, partition = find(str(table.pop("method")), Trainer), find(str(table.pop("partition")), Partition)
        allowed = [field.name for part in (Settings, method, partition) for field in fields(part)]
        for key in table:
            if key not in allowed:
                near = difflib.get_close_matches(key, [*allowed, "method", "partition"], n=1, cutoff=0.0)
                names = f"{method.name} and {partition.name}"
                raise InputError(f"{key} is no setting of {names}; did you mean {near[0]}?", param="settings")
        if "dataset" not in table:
            raise InputError("no dataset is named; add it to the settings", param="dataset")
        return cls(settings=make(Settings, table), trainer=make(method, table), partition=make(partition, table))

    def to_dict(self) -> Table:
        """Return the flat table, including defaults."""
        names = {"method": self.trainer.name, "partition": self.partition.name}
        return names | asdict(self.settings) | asdict(self.trainer) | asdict(self.partition)


def read_config(path: Path) -> Table:
    """Read settings from a TOML file."""
    try:
        return tomllib.loads(read_bytes(path).decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: is not TOML ({error})") from None


def paper_settings(values: Mapping[str, Any]) -> Table:
    """Return the paper's settings for this method and data set.

    >>> paper_settings({"dataset": "cifar100", "method": "fedprox"})["mu"]
    0.1
    """
    dataset, method = str(values.get("dataset")), values.get("method", "fedavg")
    table: Table = {"rounds": 200, "epochs": 5, "rate": 0.01, "momentum": 0.9, "batch": 64}
    table |= {"weighting": "uniform", "augment": "flip-crop", "temperature": "mean"}
    if dataset.startswith("fitzpatrick17k"):
        table |= {"rate": 0.001, "augment": "flip-crop-jitter-rotate", "balanced": True}
    if dataset == "tissuemnist":  # grey images, whose default is LeNet
        table["model"] = "resnet14"
    if method == "central":  # as in the authors' code: 200 epochs in all
        table["epochs"] = 1
    if method == "fedprox":
        table["mu"] = 0.1
    if method == "tct":  # a step of 1e-4 on 100,000 features equals 10 on features divided by sqrt(100,000)
        table |= {"rounds": 100, "linear_rounds": 100, "coordinates": 100_000, "steps": 500, "step": 10.0}
        table |= {"solver": "scaffold", "intercept": False}
    return table


def make(cls: Callable[..., T], table: Mapping[str, Any]) -> T:
    """Create a dataclass from the settings that are its fields; a value of another type is refused."""
    described: Any = cls
    hints, values = get_type_hints(cls), {}
    for setting in fields(described):
        if setting.name in table:
            values[setting.name] = convert(table[setting.name], hints[setting.name], setting.name)
        elif setting.default is MISSING and setting.default_factory is MISSING:
            raise InputError(f"{setting.name} is needed here; add it to the settings", param="settings")
    return cls(**values)
