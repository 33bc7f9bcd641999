"""Logits of trained models on held-out rows: others' files, or our own runs.

A file is `<dataset>_<method>[_<variant>].npz` in one directory; the variant is "iid", "overlap3" for three classes per
client, or "source" for sites from a column of the data. A run of `fedconformal train` is a directory of that name, with
logits.npz in it. A further run of the same model is `<dataset>_<method>[_<variant>].<label>`; tab:full-results shows
every run, all other tables the one without a label. All held-out rows are pooled: the experiments split them at random
into two halves, ten times.
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
"""Held-out parts, including the rows of a run's own temperature, which is fitted again in every trial."""

RUN, OWN = "logits.npz", "of our own"
"""The file of a run, and the label of a run if others' logits have its name."""

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
    """Names of the clients, or their numbers."""
    network: str = ""
    """The network of an own run; empty for others' logits."""
    central: bool = False
    """Whether the model was trained centrally; its temperature is then fitted on all calibration rows together."""

    @property
    def accuracy(self) -> float:
        """Share of rows whose highest logit is the label's."""
        return float(np.mean(self.logits.argmax(axis=1) == self.labels))


@dataclass(frozen=True, kw_only=True)
class LogitsFolder:
    """A directory of logits, with the assignment of rows to clients for files without clients."""

    directory: Path
    partition: Partition | None = None
    """None to infer it from the file's name."""

    def path(self, dataset: str, method: str, *, variant: str = "", label: str = "") -> Path | None:
        """Return the path of a file, or of a run's file; None if there is neither."""
        return self._paths(dataset, method, variant).get(label)

    def labels(self, dataset: str, method: str, *, variant: str = "") -> list[str]:
        """Return the labels of the runs of a model: "" for the one in all tables, and those of further runs."""
        return list(self._paths(dataset, method, variant))

    def _paths(self, dataset: str, method: str, variant: str) -> dict[str, Path]:
        name = _name(dataset, method, variant=variant)
        first = [self.directory / f"{name}.npz", self.directory / name / RUN]
        found = dict(zip(("", OWN), (place for place in first if place.exists()), strict=False))
        more = sorted(self.directory.glob(f"{name}.*/{RUN}"))
        return found | {place.parent.name.removeprefix(f"{name}."): place for place in more}

    def read(self, dataset: str, method: str, *, variant: str = "", label: str = "") -> Answers | None:
        """Read and pool the rows; None without a file of this data set and method."""
        path = self.path(dataset, method, variant=variant, label=label)
        if path is None:
            return None
        return read_logits(path, dataset, method, variant=variant, partition=self.partition)

    def command(self, dataset: str, method: str, *, variant: str = "") -> Command:
        """Return the command that trains an absent model."""
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
        """Return the command as typed in a shell."""
        return f"fedconformal {shlex.join(self.words)}"

    @property
    def absent(self) -> str:
        """Return a text on the absent run with its command."""
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
