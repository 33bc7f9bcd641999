"""The logits.npz or predictions.npz of a training run: outputs, truth and site of its calibration and test rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedconformal._base.arrays import Floats, as_labels, as_temperature, named_sites, softmax
from fedconformal._base.files import read_npz
from fedconformal._base.names import as_name
from fedconformal.errors import InputError, prefix_errors
from fedconformal.scores import CQR, DEFAULT, AnyScore, RegressionScore, Residual
from fedconformal.tables import Predictions, table_of

NUMBERS = ("predictions", "targets", "clients")
CLASSES = ("logits", "labels", "clients")


@dataclass(frozen=True)
class Run:
    """One part of a run, "val" or "test": (n, J) outputs, the truth and the site of each row, the sites that trained.

    Outputs are probabilities at a `temperature`, or the columns of a regressor, which has none.
    """

    path: Path
    outputs: Floats
    truth: NDArray[Any]
    sites: NDArray[Any]
    trained: list[str]
    temperature: float | None = None

    def rows(self, classes: int | Sequence[str] | None = None) -> Predictions:
        """Return the rows as a table gives them; its columns are these classes."""
        table = table_of(self.outputs, name=str(self.path))
        found = Predictions(
            table=table, values=self.outputs, classes=None, recognised=table.recognised, labels=self.truth
        )
        return found if classes is None else found.matched(classes)


def default_score(path: Path) -> AnyScore:
    """Return the score for a run: of numbers CQR if there are quantiles, else the residual; lac for classes."""
    arrays = read_npz(path) if path.suffix == ".npz" and path.exists() else {}
    if "val_predictions" not in arrays:
        return DEFAULT
    return CQR() if {*CQR().columns} <= {*map(str, arrays.get("columns", ()))} else Residual()


def read_run(path: Path, part: str, score: AnyScore, temperature: float | None = None) -> Run:
    """Read one part of a run; its own temperature if none is given."""
    numbers = isinstance(score, RegressionScore)
    if path.suffix != ".npz":
        raise InputError(
            f"{path}: give LABELS as well, or name their column with --labels, or give the file of a training run"
        )
    arrays = read_npz(path)
    wanted = [f"{part}_{name}" for name in (NUMBERS if numbers else CLASSES)]
    if absent := [name for name in wanted if name not in arrays]:
        raise InputError(f"{path}: has no {', '.join(absent)}; give LABELS as well, or the file of a training run")
    outputs, truth, sites = (arrays[name] for name in wanted)
    if outputs.ndim != 2 or sites.shape != (len(outputs),):
        raise InputError(f"{path}: {wanted[2]} has shape {sites.shape}, expected ({len(outputs)},)")
    if not len(outputs):
        raise InputError(f"{path}: is empty; there are no {part} rows")
    with prefix_errors(path):
        named, trained = named_sites(sites, arrays.get("names")), _trained(arrays)
        if named.dtype.kind != "U":
            named = np.array([f"client-{site}" for site in named.tolist()])
        if isinstance(score, RegressionScore):
            return Run(path, _columns(arrays, wanted, score), truth.astype(np.float64), named, trained)
        own = arrays.get("temperature", np.array(1.0))
        known = as_temperature(own.item() if own.shape == () else own)
    at = known if temperature is None else temperature
    probs = softmax(outputs, temperature=at, name=str(path))
    labels = as_labels(truth, rows=len(probs), classes=probs.shape[1], name=f"{path}: {wanted[1]}")
    return Run(path, probs, labels, named, trained, at)


def _columns(arrays: Mapping[str, NDArray[Any]], wanted: Sequence[str], score: RegressionScore) -> Floats:
    """Return the columns of a regressor that a score takes."""
    values, truth, names = arrays[wanted[0]], arrays[wanted[1]], arrays.get("columns", np.empty(0))
    if names.ndim != 1 or values.shape != (len(truth), len(names)) or values.dtype.kind != "f":
        raise InputError(f"{wanted[0]} has shape {values.shape}, expected ({len(truth)}, {len(names)})")
    there = dict(zip(map(str, names), values.T.astype(np.float64), strict=True))
    if absent := [name for name in score.columns if name not in there]:
        raise InputError(f"has no {' and '.join(absent)}, which {score.name} needs; there is {' and '.join(there)}")
    return np.column_stack([there[name] for name in score.columns])


def _trained(arrays: Mapping[str, NDArray[Any]]) -> list[str]:
    """Return the names of the sites that a run trained on."""
    names, trained = arrays.get("names", np.empty(0, np.str_)), arrays.get("trained", np.empty(0, np.bool_))
    if trained.dtype != np.bool_ or trained.shape not in ((0,), names.shape):
        raise InputError(f"trained has shape {trained.shape}, expected True or False for each of {len(names)} sites")
    return [as_name(str(name), "site") for name in names[: len(trained)][trained]]
