"""What commands do with a regressor's predictions: read them, make intervals, and say which have no end."""

from __future__ import annotations

import csv
import io
import warnings
from collections.abc import Iterable
from dataclasses import replace
from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from numpy.typing import NDArray

from fedconformal._base.arrays import Floats, named_sites
from fedconformal._base.files import read_npz
from fedconformal.calibration.predictor import Predictor
from fedconformal.certificates.uninformative import explain_uninformative
from fedconformal.cli.console import logger, note
from fedconformal.cli.inputs import Source, trained_sites
from fedconformal.cli.rows import Columns, split, warn_of_expiry
from fedconformal.errors import InfeasibleWarning, InputError, prefix_errors
from fedconformal.evaluation.regression import infinite_words
from fedconformal.scores import CQR, RegressionScore, Residual
from fedconformal.tables import Predictions, numbers_of, pair_numbers, table_of
from fedconformal.tables.layout import guarded

KEYS = ("predictions", "targets", "clients")


class Task(StrEnum):
    """What is predicted: a class, or a number."""

    classification = "classification"
    regression = "regression"


TaskOption = Annotated[
    Task | None, typer.Option("--task", help="What is predicted: a class, or a number.", show_default="by the score")
]


def read_numbers(columns: Columns, score: RegressionScore, path: Path, labels: Path | None = None) -> Predictions:
    """Read a regressor's predictions, and the true numbers from a column or from a file of their own."""
    for option, given in (("--classes", columns.classes), ("--positive", columns.positive)):
        if given is not None:
            raise InputError(f"{option} is for classes, and {score.name} scores numbers; leave it out")
    if columns.content is Source.logits:
        raise InputError(f"--from logits is for classes, and {score.name} scores numbers; leave it out")
    table = columns.open(path, "predictions")
    found = numbers_of(
        table,
        score.columns,
        columns=None if columns.predictions is None else split(columns.predictions),
        ids=columns.ids,
        y=columns.label_column if labels is None else None,
        drop=[name for one in columns.drop or () for name in split(one)],
        keep=columns.keep,
    )
    if labels is not None:
        found = pair_numbers(found, columns.open(labels, "labels"), y=columns.label_column)
    note(found.recognised)
    return found


def read_rows(rule: Predictor, columns: Columns, path: Path, labels: Path | None = None) -> Predictions:
    """Read rows for a predictor of sets or intervals; warn of a certificate that has expired."""
    if not rule.certificate.intervals:
        return columns.read_for(rule, path, labels)
    warn_of_expiry(rule.certificate)
    return read_numbers(columns, rule.score, path, labels)


class Run(NamedTuple):
    """One part of a run's predictions.npz: all columns, the true numbers, the site of each row, and who trained."""

    columns: dict[str, Floats]
    y: Floats
    clients: NDArray[Any]
    trained: list[str]

    def of(self, score: RegressionScore, path: Path) -> Floats:
        """Return the columns that a score takes."""
        if absent := [name for name in score.columns if name not in self.columns]:
            there = " and ".join(self.columns)
            raise InputError(f"{path}: has no {' and '.join(absent)}, which {score.name} needs; there is {there}")
        return np.column_stack([self.columns[name] for name in score.columns])


def is_run(path: Path) -> bool:
    """Whether a file is the predictions.npz of a training run."""
    return path.suffix == ".npz" and path.exists() and "val_predictions" in read_npz(path)


def read_run(path: Path, part: str) -> Run:
    """Read one part ("val" or "test") of a training run's predictions.npz."""
    if path.suffix != ".npz":
        raise InputError(f"{path}: has no true numbers so far; name their column with --labels, or give Y as well")
    arrays = read_npz(path)
    wanted = [*(f"{part}_{key}" for key in KEYS), "columns"]
    if absent := [name for name in wanted if name not in arrays]:
        raise InputError(
            f"{path}: has no {', '.join(absent)}; give Y as well, or the predictions.npz of a training run"
        )
    values, y, clients, names = (arrays[name] for name in wanted)
    if names.ndim != 1 or values.shape != (len(y), len(names)) or y.shape != clients.shape or values.dtype.kind != "f":
        raise InputError(f"{path}: {part}_predictions has shape {values.shape}, expected ({len(y)}, {len(names)})")
    if not len(y):
        raise InputError(f"{path}: is empty; there are no {part} rows")
    with prefix_errors(path):
        clients, trained = named_sites(clients, arrays.get("names")), trained_sites(arrays)
    named = clients if clients.dtype.kind == "U" else np.array([f"client-{one}" for one in clients.tolist()])
    found = dict(zip(map(str, names), values.T.astype(np.float64), strict=True))
    return Run(found, y.astype(np.float64), named, trained)


def default_score(run: Path | None) -> RegressionScore:
    """Return CQR for a run with quantiles, and the residual otherwise."""
    return CQR() if run is not None and {*CQR().columns} <= {*read_run(run, "val").columns} else Residual()


def rows_of_run(path: Path, score: RegressionScore) -> tuple[Predictions, NDArray[Any]]:
    """Read the test rows of a training run, and the site of each."""
    run = read_run(path, "test")
    table = table_of(run.of(score, path), name=str(path))
    return replace(numbers_of(table, score.columns), labels=run.y), run.clients


class Made(NamedTuple):
    """Intervals, how many have an end at infinity, and why."""

    intervals: Floats
    infinite: int
    why: str | None


def make_intervals(rule: Predictor, rows: Predictions, alpha: Fraction, sites: NDArray[Any] | None = None) -> Made:
    """Make intervals of the rows of a file, and warn if they have no end."""
    with warnings.catch_warnings(), rows.table.in_lines():
        warnings.simplefilter("ignore", InfeasibleWarning)  # said below, with what would help
        intervals = rule.predict_interval(rows.values, sites=sites, alpha=alpha)
        why = explain_uninformative(rule.certificate, rule.threshold_at(alpha), alpha=alpha)
    infinite = int(np.isinf(intervals).any(axis=1).sum())
    why = why if sites is None or infinite else None
    if why is not None:
        logger.warning("%s", f"{infinite_words(infinite, len(intervals))}: {why}")
    return Made(intervals, infinite, why)


def threshold_of(rule: Predictor, alpha: Fraction) -> dict[str, Any]:
    """Return the threshold, or both, for JSON."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InfeasibleWarning)
        found = rule.threshold_at(alpha)
    ends = found if isinstance(found, tuple) else (found,)
    said = [str(one) if np.isinf(one) else one for one in ends]
    return dict(zip(("lower_threshold", "threshold")[-len(said) :], said, strict=True))


def encoded(made: Floats, ending: str, rows: Predictions, **about: Any) -> bytes:
    """Write intervals as .npz, .npy or .csv: each row by its id, where there are ids."""
    buffer = io.BytesIO()
    if ending == ".npz":
        about |= {} if rows.ids is None else {"ids": rows.ids}
        np.savez_compressed(buffer, intervals=made, **about)
    elif ending == ".npy":
        np.save(buffer, made)
    else:
        file = io.StringIO()
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow([guarded(rows.id_column or "id") if rows.ids is not None else "row", "lower", "upper"])
        names: Iterable[Any] = range(len(made)) if rows.ids is None else map(guarded, rows.ids)
        lines.writerows([name, repr(low), repr(high)] for name, (low, high) in zip(names, made.tolist(), strict=True))
        buffer.write(file.getvalue().encode())
    return buffer.getvalue()
