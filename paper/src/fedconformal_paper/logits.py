"""The logits of trained models on held-out rows: files of other people, or runs of our own.

A file is `<dataset>_<method>[_<variant>].npz` in one directory; the variant is "iid", "overlap3" for three classes a
client, or "source" for sites that a column of the data names. A run of `fedconformal train` is a directory of that name
there, with logits.npz in it. One more run of the same is `<dataset>_<method>[_<variant>].<label>`; tab:full-results
shows every run, all else uses the one without a label. All held-out rows are pooled: the experiments cut them in two at
random, ten times.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedconformal._base.arrays import Integers, as_labels, as_matrix
from fedconformal._base.files import read_bytes, read_npz
from fedconformal._base.groups import as_sites, named_sites
from fedconformal.errors import InputError, prefix_errors
from fedconformal_paper.clients import GROUPS, Partition, client_of_each
from fedconformal_paper.numbers import deviations, network

PARTS = ("val", "temp", "test")
"""Rows of a run that fitted its temperature are held out too: here the temperature is fitted anew in every trial."""

RUN, OWN = "logits.npz", "of our own"
"""The file of a run, and how a run is called where others' logits have its name."""

COLUMNS = {"fitz17k-disease": "three_groups", "fitz17k-skin": "skin_type"}
"""Data sets whose clients are the values of a column."""
CLIENTS = {"fitz17k-disease": 3, "fitz17k-skin": 6}


@dataclass(frozen=True, kw_only=True, eq=False)
class Answers:
    """Logits of held-out rows with their labels and clients, and what differs from the paper's experiment."""

    name: str
    dataset: str
    logits: NDArray[np.float32]
    labels: Integers
    clients: Integers
    differs: str
    sites: tuple[str, ...]
    """What the clients are called; a number where they have no name."""
    network: str = ""
    """The network of an own run; empty for others' logits."""
    central: bool = False
    """A model trained in one place, whose temperature is fitted on all calibration rows together."""

    @property
    def accuracy(self) -> float:
        """How often the highest logit is the label's."""
        return float(np.mean(self.logits.argmax(axis=1) == self.labels))


@dataclass(frozen=True, kw_only=True)
class LogitsFolder:
    """A directory of logits, and how rows that name no client are given to clients."""

    directory: Path
    partition: Partition | None = None
    """None for the one that the file's name says."""

    def path(self, dataset: str, method: str, *, variant: str = "", label: str = "") -> Path | None:
        """Find the file, or a run's; None if there is neither."""
        return self._paths(dataset, method, variant).get(label)

    def labels(self, dataset: str, method: str, *, variant: str = "") -> list[str]:
        """Name what there is of a model: "" for the one that all tables use, and the labels of further runs."""
        return list(self._paths(dataset, method, variant))

    def _paths(self, dataset: str, method: str, variant: str) -> dict[str, Path]:
        name = _name(dataset, method, variant=variant)
        first = [self.directory / f"{name}.npz", self.directory / name / RUN]
        found = dict(zip(("", OWN), (place for place in first if place.exists()), strict=False))
        more = sorted(self.directory.glob(f"{name}.*/{RUN}"))
        return found | {place.parent.name.removeprefix(f"{name}."): place for place in more}

    def read(self, dataset: str, method: str, *, variant: str = "", label: str = "") -> Answers | None:
        """Read and pool the rows; None if there are none of this data set and method."""
        path = self.path(dataset, method, variant=variant, label=label)
        if path is None:
            return None
        return read_logits(path, dataset, method, variant=variant, partition=self.partition)

    def command(self, dataset: str, method: str, *, variant: str = "") -> Command:
        """Say how to train what is absent."""
        output = self.directory / _name(dataset, method, variant=variant)
        trainer, _, loss = method.partition("-")
        words = ["train", "--preset", "paper", "--dataset", dataset, "--method", trainer]
        if loss:
            words += ["--set", f"loss={loss}"]
        if dataset in COLUMNS:
            words[4] = "fitzpatrick17k"
        if variant == "iid":
            words += ["--partition", "iid", "--set", f"clients={CLIENTS.get(dataset) or len(GROUPS[dataset])}"]
        elif variant == "source":
            words += ["--partition", "column", "--set", f"column={variant}"]
        elif variant:
            words += ["--partition", "overlap", "--set", f"classes_per_client={variant.removeprefix('overlap')}"]
        elif dataset in COLUMNS:
            words += ["--partition", "column", "--set", f"column={COLUMNS[dataset]}"]
        return Command(output, [*words, "-o", str(output)])


def read_logits(
    path: Path, dataset: str, method: str, *, variant: str = "", partition: Partition | None = None
) -> Answers:
    """Read and pool the held-out rows of one file."""
    arrays = read_npz(path)
    parts = [part for part in PARTS if f"{part}_logits" in arrays]
    absent = [f"{part}_labels" for part in parts if f"{part}_labels" not in arrays]
    if not parts or absent:
        raise InputError(f"{path}: has no {', '.join(absent) or 'val_logits, test_logits'}")
    logits = _joined(path, [arrays[f"{part}_logits"] for part in parts])
    labels = np.concatenate([arrays[f"{part}_labels"].reshape(-1) for part in parts])
    labels = as_labels(labels, rows=len(logits), classes=logits.shape[1], name=f"{path}: labels")
    own = [arrays[f"{part}_clients"] for part in parts if f"{part}_clients" in arrays]
    if partition is None and len(own) == len(parts):
        owners = as_sites(np.concatenate(own), rows=len(logits), name=f"{path}: clients")
        with prefix_errors(path):
            sites, clients = np.unique(named_sites(owners, arrays.get("names")), return_inverse=True)
    else:
        if dataset in GROUPS and sum(map(len, GROUPS[dataset])) != logits.shape[1]:
            raise InputError(f"{path}: has {logits.shape[1]} classes, not those of {dataset}")
        if variant not in ("", "iid"):
            raise InputError(
                f"{path}: has no val_clients, test_clients; its name does not say which client has which rows"
            )
        with prefix_errors(path):
            clients = client_of_each(labels, dataset, partition or ("iid" if variant == "iid" else "classes"))
        sites = np.arange(clients.max() + 1)
    return Answers(
        name=_name(dataset, method, variant=variant),
        dataset=dataset,
        logits=logits,
        labels=labels,
        clients=clients,
        differs=_differs(path, len(logits), float(np.mean(logits.argmax(axis=1) == labels)), dataset),
        network=_network(path, dataset),
        sites=tuple(map(str, sites)),
        central=method == "central",
    )


ABSENT = "absent; make it with: "


@dataclass(frozen=True)
class Command:
    """The words of a command that trains a model, and the directory of its run."""

    path: Path
    words: list[str]

    def __str__(self) -> str:
        """Write as one would type it."""
        return f"fedconformal {shlex.join(self.words)}"

    @property
    def absent(self) -> str:
        """Say that the run is not there, and how to make it."""
        return f"{ABSENT}{self}"


def _name(dataset: str, method: str, *, variant: str) -> str:
    return f"{dataset}_{method}_{variant}" if variant else f"{dataset}_{method}"


def _joined(path: Path, parts: Sequence[NDArray[Any]]) -> NDArray[np.float32]:
    if len({part.shape[1:] for part in parts}) != 1:
        raise InputError(f"{path}: val and test rows have different shapes")
    logits = as_matrix(np.concatenate(parts), f"{path}: logits").astype(np.float32, copy=False)
    if not np.isfinite(logits).all():
        raise InputError(f"{path}: logits hold a value that is not finite (NaN or inf)")
    return logits


def _settings(path: Path) -> dict[str, Any] | None:
    """Read the settings of an own run; None for others' logits."""
    config = path.parent / "config.json"
    if path.name != RUN or not config.exists():
        return None
    try:
        return {"method": "fedavg", **json.loads(read_bytes(config))["config"]}
    except (ValueError, KeyError, TypeError):
        raise InputError(f"{config}: is not the config.json of a run") from None


def _network(path: Path, dataset: str) -> str:
    settings = _settings(path)
    return "" if settings is None else str(settings.get("model") or network(dataset))


def _differs(path: Path, rows: int, accuracy: float, dataset: str) -> str:
    settings = _settings(path)
    if settings is None:
        return f"others' logits, {rows} rows"
    parts = [f"own run, {rows} rows, accuracy {accuracy:.2f}", *deviations(settings, dataset)]
    if settings.get("weights"):
        parts.append(f"started from {Path(str(settings['weights'])).name}")
    return ", ".join(parts)
