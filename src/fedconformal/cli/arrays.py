"""Inputs other than tables of probabilities: outputs of a training run, and scores of a loss with their truth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedconformal._base.arrays import Floats, as_labels, as_temperature, softmax
from fedconformal._base.files import read_array, read_npz
from fedconformal._base.groups import named_sites
from fedconformal._base.names import abbreviate, as_name
from fedconformal.cli.rows import Classes
from fedconformal.errors import InputError, prefix_errors
from fedconformal.scores import AnyScore, RegressionScore
from fedconformal.tables import Predictions, read_table, table_of

Arrays = Mapping[str, NDArray[Any]]
CLASSES = ("logits", "labels", "clients")
NO_LABELS = "give LABELS as well, or name their column with --labels, or give the file of a training run"
ROWS = ("scores", "probs", "truth", "labels", "masks")
"""Names of the array with all rows of an .npz file; without one, each array is an image."""


@dataclass(frozen=True)
class Run:
    """The "val" or "test" rows of a training run: probabilities, labels and sites, and the sites used for training."""

    path: Path
    outputs: Floats
    truth: NDArray[Any]
    sites: NDArray[Any]
    trained: list[str]
    temperature: float

    def rows(self, classes: Classes = None) -> Predictions:
        """Return the rows in the form of a table whose columns are these classes."""
        table = table_of(self.outputs, name=str(self.path))
        predictions = Predictions(
            table=table, values=self.outputs, classes=None, recognised=table.recognised, labels=self.truth
        )
        return predictions if classes is None else predictions.matched(classes)


def read_run(path: Path, part: str, score: AnyScore, temperature: float | None = None) -> Run:
    """Read one part of a run, for a classification score; by default at the run's own temperature."""
    if path.suffix != ".npz" or isinstance(score, RegressionScore):
        raise InputError(NO_LABELS, where=path)
    arrays = read_npz(path)
    required = [f"{part}_{name}" for name in CLASSES]
    if absent := [name for name in required if name not in arrays]:
        raise InputError(f"{path}: has no {', '.join(absent)}; give LABELS as well, or the file of a training run")
    outputs, truth, sites = (arrays[name] for name in required)
    if outputs.ndim != 2 or sites.shape != (len(outputs),):
        raise InputError(f"{path}: {required[2]} has shape {sites.shape}, expected ({len(outputs)},)")
    if not len(outputs):
        raise InputError(f"{path}: is empty; there are no {part} rows")
    with prefix_errors(path):
        named, trained = named_sites(sites, arrays.get("names")), _trained(arrays)
        if named.dtype.kind != "U":
            named = np.array([f"client-{site}" for site in named.tolist()])
        own = arrays.get("temperature", np.array(1.0))
        known = as_temperature(own.item() if own.shape == () else own)
    at = known if temperature is None else temperature
    probs = softmax(outputs, temperature=at, name=str(path))
    labels = as_labels(truth, rows=len(probs), classes=probs.shape[1], name=f"{path}: {required[1]}")
    return Run(path, probs, labels, named, trained, at)


def _trained(arrays: Arrays) -> list[str]:
    """Return the names of the sites that a run trained on."""
    names, trained = arrays.get("names", np.empty(0, np.str_)), arrays.get("trained", np.empty(0, np.bool_))
    if trained.dtype != np.bool_ or trained.shape not in ((0,), names.shape):
        raise InputError(f"trained has shape {trained.shape}, expected True or False for each of {len(names)} sites")
    return [as_name(str(name), "site") for name in names[: len(trained)][trained]]


@dataclass(frozen=True)
class LossRows:
    """Scores of a loss, or their truth: one array, or images of different sizes with their names."""

    values: Any
    names: list[str] | None = None

    @classmethod
    def read(cls, path: Path, like: LossRows | None = None) -> LossRows:
        """Read an array, a table, or the images of an .npz, in the order of those of `like`."""
        if path.suffix.lower() == ".npz":
            held = read_npz(path)
            if len(held) > 1 and not set(held) & set(ROWS):
                names = sorted(held) if like is None else like.names or []
                if set(names) != set(held):
                    odd = min(set(names) ^ set(held))
                    raise InputError(f"{path}: the images of scores and truth have different names, such as {odd!r}")
                return cls([held[name] for name in names], names)
        if like is not None and like.names is not None:
            raise InputError(f"{path}: is one array, and the scores are images; give both in the same form")
        if path.suffix.lower() in (".npy", ".npz"):
            return cls(read_array(path, *ROWS))
        found = read_table(path)
        values = found.numbers(found.columns)
        return cls(values[:, 0] if len(found.columns) == 1 else values)


def read_scores_and_truth(scores: Path, truth: Path | None) -> tuple[Any, Any]:
    """Read scores and truth of the same rows from two files."""
    if truth is None:
        raise InputError("a loss needs SCORES and TRUTH; give both files")
    rows = LossRows.read(scores)
    return rows.values, LossRows.read(truth, rows).values


def read_grid(given: str) -> list[float]:
    """Parse thresholds: numbers separated by commas."""
    try:
        return [float(part) for part in given.split(",")]
    except ValueError:
        raise InputError(f"--thresholds: {abbreviate(given)} is no list of numbers such as 0,0.1,0.2") from None
