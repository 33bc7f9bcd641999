"""Runs of our own as scripts/results.py writes them down: one NAME.json for each, with its settings and its sets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedconformal._base.files import read_bytes
from fedconformal.errors import InputError
from fedconformal_paper.logits import COLUMNS

AUTHORS, OURS = "authors' way", "our second stage"
"""TCT's second stage: SCAFFOLD as its authors do it, or L-BFGS."""
GREY = ("fashionmnist", "tissuemnist")
NETWORKS = {"lenet": "LeNet", "resnet14": "ResNet-14", "efficientnet-b1": "EfficientNet-B1"}
PAPERS_CLASSES, ALL_CLASSES = 2, 10
"""How many classes a client of CIFAR-10 has in the paper's tables, and how many there are."""


def logits_name(settings: Mapping[str, Any], *, label: str = "") -> str:
    """Name the logits of a run as `fedconformal paper` looks for them.

    >>> logits_name({"dataset": "cifar10", "method": "tct", "partition": "overlap", "classes_per_client": 3})
    'cifar10_tct_overlap3'
    >>> logits_name({"dataset": "cifar100", "method": "tct", "loss": "squared"}, label="again")
    'cifar100_tct-squared.again'
    """
    dataset, variant = _dataset_and_variant(settings)
    method = settings["method"] + ("-squared" if settings.get("loss") == "squared" else "")
    return "_".join(filter(None, (dataset, method, variant))) + (f".{label}" if label else "")


def _dataset_and_variant(settings: Mapping[str, Any]) -> tuple[str, str]:
    dataset, partition = str(settings["dataset"]), settings.get("partition") or "classes"
    if partition == "column":
        column = str(settings["column"])
        papers = {one: name for name, one in COLUMNS.items()}
        return (papers[column], "") if column in papers else (dataset, column)
    if partition == "overlap":
        count = int(settings["classes_per_client"])
        return dataset, {PAPERS_CLASSES: "", ALL_CLASSES: "iid"}.get(count, f"overlap{count}")
    return dataset, "" if partition == "classes" else str(partition)


@dataclass(frozen=True, kw_only=True)
class Run:
    """A trained model: how it was trained, its accuracy, and size and coverage of its sets by level."""

    name: str
    settings: Mapping[str, Any]
    linear: int
    accuracy: float
    sets: Mapping[str, Mapping[str, float]]

    @classmethod
    def read(cls, path: Path) -> Run:
        """Read what scripts/results.py wrote."""
        try:
            found = json.loads(read_bytes(path))
            settings = {**found["defaults"], **found["settings"]}
            linear = len(found.get("linear_losses", ())) or settings.get("linear_rounds", 0)
            return cls(
                name=found["name"], settings=settings, linear=linear, accuracy=found["accuracy"], sets=found["sets"]
            )
        except (ValueError, KeyError, TypeError):
            raise InputError(f"{path}: is not what scripts/results.py writes of a run") from None

    @property
    def logits(self) -> str:
        """What its logits are called."""
        return logits_name(self.settings)

    @property
    def dataset(self) -> str:
        """The data set, as the paper's tables have it."""
        return _dataset_and_variant(self.settings)[0]

    @property
    def model(self) -> str:
        """The network; the one that suits the data set if none was chosen."""
        return str(self.settings.get("model") or ("lenet" if self.dataset in GREY else "resnet14"))

    @property
    def way(self) -> str:
        """How TCT's second stage was done; empty for other methods."""
        if self.settings["method"] != "tct":
            return ""
        return OURS if self.settings.get("solver", "scaffold") == "lbfgs" else AUTHORS

    @property
    def size(self) -> float:
        """The mean size of the sets at 0.9."""
        return float(self.sets["0.9"]["size"])

    @property
    def coverage(self) -> float:
        """The coverage at 0.9."""
        return float(self.sets["0.9"]["coverage"])

    @property
    def order(self) -> tuple[bool, int]:
        """Sort key: a larger network first, then more passes over the data in the first stage, and more rounds."""
        passes = int(self.settings["rounds"]) * int(self.settings.get("epochs", 1)) + self.linear
        return self.model != "lenet", passes

    @property
    def cut(self) -> str:
        """Say in few words how it was trained."""
        rounds = str(self.settings["rounds"])
        if self.way:
            rounds += f" + {self.linear}"
        epochs = int(self.settings.get("epochs", 1))
        passes = f" of {epochs} epochs" if epochs > 1 else ""
        start = " from others' weights" if self.settings.get("weights") else ""
        return f"{NETWORKS.get(self.model, self.model)}, {rounds} rounds{passes}{start}"


def read_runs(directory: Path | None) -> list[Run]:
    """Read all runs of a directory, by name; none without a directory."""
    return [] if directory is None else [Run.read(path) for path in sorted(directory.glob("*.json"))]


def largest(runs: list[Run], logits: str, *, way: str = "", model: str = "") -> Run | None:
    """Find the run with the largest cut among those of a model, perhaps of one way and one network."""
    some = [
        run
        for run in runs
        if run.logits == logits and (not way or run.way == way) and (not model or run.model == model)
    ]
    return max(some, key=lambda run: run.order, default=None)
