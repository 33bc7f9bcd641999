"""Options that several commands share, and how their files are read."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from numpy.lib.format import MAGIC_PREFIX as NPY
from numpy.typing import NDArray

from fedconformal._base.arrays import Floats, Integers, as_labels, as_temperature, named_sites, softmax
from fedconformal._base.files import TEXT, read_bytes, read_npz
from fedconformal._base.names import as_name
from fedconformal.calibration.predictor import Predictor, check_coverage
from fedconformal.cli.console import progress
from fedconformal.errors import InputError, prefix_errors
from fedconformal.summaries.batch import SummaryBatch, check_together
from fedconformal.summaries.format import MAGIC, NOISY
from fedconformal.summaries.summary import Summary

FILES = 1000
"""Summaries that are read at a time."""


OTHERS = {MAGIC: "a site's summary", NOISY: "a site's noisy counts", NPY: "an array", b"PK": "arrays or a sheet"}
"""What a file is that begins like this."""


class Source(StrEnum):
    """What the numbers of a file are."""

    probs = "probs"
    logits = "logits"
    features = "features"


Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")]
AllowEmpty = Annotated[bool, typer.Option("--allow-empty", help="Leave the top label out if it does not conform.")]
Alpha = Annotated[str, typer.Option("--alpha", help="How often the truth may be missed.")]


class Run(NamedTuple):
    """One part of a training run's logits.npz, at a temperature."""

    probs: Floats
    labels: Integers
    clients: NDArray[Any]
    temperature: float
    trained: list[str]
    """The sites that the model was trained on."""


def trained_sites(arrays: Mapping[str, NDArray[Any]]) -> list[str]:
    """Return the names of the sites that a run trained on, as its file says."""
    names, trained = arrays.get("names", np.empty(0, np.str_)), arrays.get("trained", np.empty(0, np.bool_))
    if trained.dtype != np.bool_ or trained.shape not in ((0,), names.shape):
        raise InputError(f"trained has shape {trained.shape}, expected True or False for each of {len(names)} sites")
    return [as_name(str(name), "site") for name in names[: len(trained)][trained]]


def read_run(path: Path, part: str, temperature: float | None = None) -> Run:
    """Read one part ("val" or "test") of a training run's logits.npz; at the run's own temperature if None."""
    wanted = [f"{part}_{name}" for name in ("logits", "labels", "clients")]
    if path.suffix != ".npz":
        raise InputError(
            f"{path}: give LABELS as well, or their column with --labels, or the logits.npz of a training run"
        )
    arrays = read_npz(path)
    absent = [name for name in wanted if name not in arrays]
    if absent:
        raise InputError(
            f"{path}: has no {', '.join(absent)}; give LABELS as well, or the logits.npz of a training run"
        )
    logits, labels, clients = (arrays[name] for name in wanted)
    if clients.shape != (len(logits),):
        raise InputError(f"{path}: {part}_clients has shape {clients.shape}, expected ({len(logits)},)")
    with prefix_errors(path):
        clients = named_sites(clients, arrays.get("names"))
        own = arrays.get("temperature", np.array(1.0))
        known = as_temperature(own.item() if own.shape == () else own)
        trained = trained_sites(arrays)
    at = known if temperature is None else temperature
    probs = softmax(logits, temperature=at, name=str(path))
    truth = as_labels(labels, rows=len(probs), classes=probs.shape[1], name=f"{path}: {part}_labels")
    return Run(probs, truth, clients, at, trained)


def read_summaries(paths: Sequence[Path]) -> list[Summary]:
    """Read summaries; refuse the same file twice and files that do not go together."""
    seen: set[Path] = set()
    summaries: list[Summary] = []
    for start in progress(range(0, len(paths), FILES), "reading summaries", math.ceil(len(paths) / FILES)):
        some = paths[start : start + FILES]
        for path in some:
            if path.resolve() in seen:
                raise InputError(f"{path}: is given twice; give each site's summary once")
            seen.add(path.resolve())
        summaries += SummaryBatch.from_bytes(map(read_bytes, some), [str(path) for path in some])
    check_together(summaries, [str(path) for path in paths])
    return summaries


def load_predictor(path: Path) -> Predictor:
    """Read a predictor of sets; say what a file of another kind is."""
    found = load_any(path)
    if found.certificate.intervals:
        raise InputError(f"{path}: is a predictor of intervals; give one of sets")
    return found


def load_any(path: Path) -> Predictor:
    """Read a predictor of sets or intervals; say what a file of another kind is."""
    data = read_bytes(path)
    for begins, what in OTHERS.items():
        if data.startswith(begins):
            raise InputError(f"{path}: is {what}, not a predictor; give the .json file that calibrate wrote")
    if path.suffix.lower() in TEXT:
        raise InputError(f"{path}: is a table, not a predictor; give the .json file that calibrate wrote first")
    with prefix_errors(path):
        return check_coverage(Predictor.from_bytes(data))
