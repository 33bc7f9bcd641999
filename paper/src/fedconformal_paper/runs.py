"""Our own runs in the format of scripts/results.py: one NAME.json per run, with its settings and sets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedconformal._base.files import read_bytes
from fedconformal.errors import InputError
from fedconformal_paper.logits import COLUMNS
from fedconformal_paper.numbers import NETWORKS, deviations, network

AUTHORS, OURS, ABLATION = "the authors' way", "our way", "ablation"
"""TCT's second stage: SCAFFOLD; L-BFGS with sites weighted by rows and an intercept; L-BFGS without one of these."""
CONSECUTIVE = "consecutive"
"""The variant of the other map of classes to clients in the authors' code: 0-4, 5-9, ... instead of superclasses."""
PAPERS_CLASSES, ALL_CLASSES = 2, 10
"""Number of CIFAR-10 classes per client in the paper's tables, and in total."""


def logits_name(settings: Mapping[str, Any], *, label: str = "") -> str:
    """Return the name of a run's logits for `fedconformal paper`.

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
    if partition == "classes":
        return dataset, CONSECUTIVE if settings.get("groups") else ""
    return dataset, str(partition)


@dataclass(frozen=True, kw_only=True)
class Run:
    """A trained model: its settings, accuracy, and size and coverage of its sets by level.

    `halves` are means over ten random halves of the held-out rows, as in the paper; `sets` are calibrated on validation
    rows and tested on test rows, once. `halves` are preferred; they need the logits of the run.
    """

    name: str
    settings: Mapping[str, Any]
    linear: int
    accuracy: float
    sets: Mapping[str, Mapping[str, float]]
    halves: Mapping[str, Mapping[str, float]] | None = None

    @classmethod
    def read(cls, path: Path) -> Run:
        """Read a run written by scripts/results.py."""
        try:
            found = json.loads(read_bytes(path))
            settings = {**found["defaults"], **found["settings"]}
            return cls(
                name=found["name"],
                settings=settings,
                linear=len(found.get("linear_losses", ())) or settings.get("linear_rounds", 0),
                accuracy=found["accuracy"],
                sets=found["sets"],
                halves=found.get("halves"),
            )
        except (ValueError, KeyError, TypeError):
            raise InputError(f"{path}: is not what scripts/results.py writes of a run") from None

    @property
    def logits(self) -> str:
        """The name of its logits."""
        return logits_name(self.settings)

    @property
    def dataset(self) -> str:
        """The data set, by its name in the paper's tables."""
        return _dataset_and_variant(self.settings)[0]

    @property
    def model(self) -> str:
        """The network; the paper's if none was chosen."""
        return str(self.settings.get("model") or network(self.dataset))

    @property
    def way(self) -> str:
        """The second stage of TCT; empty for other methods."""
        if self.settings["method"] != "tct":
            return ""
        if self.settings.get("solver", "scaffold") != "lbfgs":
            return AUTHORS
        ours = self.settings.get("intercept", True) and self.settings.get("weighting", "examples") == "examples"
        return OURS if ours else ABLATION

    @property
    def differs(self) -> list[str]:
        """Every deviation from the paper's settings."""
        found = deviations({**self.settings, "model": self.model}, self.dataset)
        found += ["consecutive classes a client"] if self.settings.get("groups") else []
        return found + (["from others' weights"] if self.settings.get("weights") else [])

    @property
    def size(self) -> float:
        """The mean size of the sets at 0.9."""
        return float((self.halves or self.sets)["0.9"]["size"])

    @property
    def coverage(self) -> float:
        """The coverage at 0.9."""
        return float((self.halves or self.sets)["0.9"]["coverage"])

    @property
    def order(self) -> tuple[bool, int, bool]:
        """Sort key: a larger network, then more passes over the data and rounds, then the authors' second stage."""
        passes = int(self.settings["rounds"]) * int(self.settings.get("epochs", 1)) + self.linear
        return self.model != "lenet", passes, self.way == AUTHORS

    @property
    def short(self) -> str:
        """The network and the rounds, with their epochs: 100 x 5 + 100 rounds."""
        epochs = int(self.settings.get("epochs", 1))
        passes, linear = f" x {epochs}" if epochs > 1 else "", f" + {self.linear}" if self.way else ""
        start = " from others' weights" if self.settings.get("weights") else ""
        return f"{NETWORKS.get(self.model, self.model)}, {self.settings['rounds']}{passes}{linear} rounds{start}"

    @property
    def cut(self) -> str:
        """The network, the rounds, and augmentation and weighting where they are not the paper's."""
        augmented = self.settings.get("augment", "none") != "none"
        by_rows = self.settings.get("weighting", "examples") == "examples" and self.settings["method"] != "central"
        parts = [self.short, "" if augmented else "not augmented", "sites by rows" if by_rows else ""]
        return ", ".join(filter(None, parts))


def read_runs(directory: Path | None) -> list[Run]:
    """Read all runs of a directory, by name; none without a directory."""
    return [] if directory is None else [Run.read(path) for path in sorted(directory.glob("*.json"))]


def largest(runs: list[Run], logits: str, *, way: str = "", model: str = "") -> Run | None:
    """Return the run of a model with the most training, optionally of one second stage and one network."""
    some = [
        run
        for run in runs
        if run.logits == logits and (run.way == way if way else run.way != ABLATION) and model in ("", run.model)
    ]
    return max(some, key=lambda run: run.order, default=None)
