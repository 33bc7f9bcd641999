"""What commands that make sets share: sets that hold every label are said, and rows may come in clusters."""

from __future__ import annotations

import csv
import warnings
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from numpy.typing import NDArray

from fedconformal._base.arrays import Booleans, Floats, as_clients
from fedconformal._base.files import UNREADABLE, in_lines, read_array, unreadable
from fedconformal._base.names import shown
from fedconformal.calibration.predictor import Predictor
from fedconformal.cli.console import logger, progress
from fedconformal.errors import InfeasibleWarning, InputError
from fedconformal.evaluation import full_sets, full_words, why_full

BLOCK = 2**22
"""Probabilities of which sets are made at a time."""

Cluster = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="FILE[:COLUMN]",
        help="Which cluster, such as a patient, each row is from (.npy .npz .csv); its rows may depend on each other.",
    ),
]


class Made(NamedTuple):
    """Sets, the threshold they were made at, how many hold every label, and why."""

    sets: Booleans
    threshold: float | Floats
    full: int
    why: str | None


def make_sets(predictor: Predictor, probs: NDArray[Any], alpha: Fraction, *, path: Path, allow_empty: bool) -> Made:
    """Make sets of the rows of a file, a block at a time, and warn if every label, or some class, is in every set."""
    step = max(1, BLOCK // max(1, probs.size // max(1, len(probs))))
    starts, blocks = range(0, max(1, len(probs)), step), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InfeasibleWarning)  # said below, with what would help
        for start in progress(starts, "predicting sets", len(starts)):
            with in_lines(path, len(probs), "probabilities", start):
                blocks.append(predictor.predict_set(probs[start : start + step], alpha=alpha, allow_empty=allow_empty))
        threshold = predictor.threshold(alpha)
    sets = np.concatenate(blocks)
    full = full_sets(sets)
    why = why_full(
        predictor.certificate,
        threshold,
        alpha=alpha,
        score=predictor.score,
        classes=sets.shape[1],
        share=full / max(1, len(sets)),
    )
    if why is not None:
        logger.warning("%s", f"{full_words(full, len(sets))}: {why}" if full else why)
    return Made(sets, threshold, full, why)


def named_sites(clients: NDArray[Any]) -> NDArray[Any]:
    """Name the sites of a training run as `summarize` does, so that they are those of the certificate."""
    return clients if clients.dtype.kind == "U" else np.array([f"client-{client}" for client in clients.tolist()])


def read_clusters(given: str, rows: int) -> NDArray[Any]:
    """Read one id a row from a file, or from a column of a .csv file with a header: FILE:COLUMN."""
    path, _, column = given.rpartition(":")
    if not path or Path(given).exists():
        found = read_array(Path(given), "clusters", text=True)
        if found.ndim == 2 and found.shape[1] > 1:
            raise InputError(f"{given}: has {found.shape[1]} columns; name one of its header, as {given}:COLUMN")
        return as_clients(found, rows=rows, name=given)
    return as_clients(np.array(_column(Path(path), column), dtype=np.str_), rows=rows, name=f"{path}, column {column}")


def _column(path: Path, name: str) -> list[str]:
    if path.suffix != ".csv":
        raise InputError(f"{path}: only a file that ends in .csv has columns; leave out :{name}")
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = csv.reader(file)
            header = [cell.strip() for cell in next(lines, [])]
            if header.count(name) != 1:
                raise InputError(f"{path}: has the columns {shown(', '.join(header))}, not one called {shown(name)}")
            found, blank = [], 0
            for cells in lines:
                if not any(cell.strip() for cell in cells):
                    blank = blank or lines.line_num  # at the very end, as in any other table, it does no harm
                elif blank:
                    raise InputError(f"{path}: line {blank} is blank; delete it, so that every row keeps its place")
                elif len(cells) != len(header):
                    raise InputError(f"{path}: line {lines.line_num} has {len(cells)} cells, the header {len(header)}")
                else:
                    found.append(cells[header.index(name)])
    except (*UNREADABLE, csv.Error) as error:
        raise unreadable(path, error) from None
    return found
