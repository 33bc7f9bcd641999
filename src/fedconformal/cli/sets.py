"""What commands that make sets share: sets that hold every label are said, and rows may come in clusters."""

from __future__ import annotations

import csv
import io
import warnings
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from numpy.typing import NDArray

from fedconformal._base.arrays import Booleans, Floats, as_labels
from fedconformal._base.names import shown
from fedconformal.calibration.predictor import Predictor
from fedconformal.cli.console import logger, progress
from fedconformal.cli.inputs import from_logits, read_run
from fedconformal.cli.rows import naming_rows
from fedconformal.errors import InfeasibleWarning, InputError
from fedconformal.evaluation import full_sets, full_words, why_full
from fedconformal.tables import Predictions, table_of

BLOCK = 2**22
"""Probabilities of which sets are made at a time."""

Cluster = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="COLUMN|FILE[:COLUMN]",
        help="Which cluster, such as a patient, each row is from; its rows may depend on each other.",
    ),
]


SETS = ("size", "labels")
"""How the header of a table of sets ends."""


class Made(NamedTuple):
    """Sets, the threshold they were made at, how many hold every label, and why."""

    sets: Booleans
    threshold: float | Floats
    full: int
    why: str | None


def make_sets(predictor: Predictor, rows: Predictions, alpha: Fraction, *, allow_empty: bool) -> Made:
    """Make sets of the rows of a file, a block at a time, and warn if every label, or some class, is in every set."""
    probs = rows.values
    step = max(1, BLOCK // max(1, probs.size // max(1, len(probs))))
    starts, blocks = range(0, max(1, len(probs)), step), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InfeasibleWarning)  # said below, with what would help
        for start in progress(starts, "predicting sets", len(starts)):
            with naming_rows(rows.table, start):
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


def rows_of_run(
    path: Path, temperature: float | None, wanted: int | Sequence[str] | None
) -> tuple[Predictions, NDArray[Any]]:
    """Read the test rows of a training run, and the site of each; its columns have no names."""
    run = read_run(path, "test")
    probs = from_logits(run.logits, str(path), temperature)
    truth = as_labels(run.labels, rows=len(probs), classes=probs.shape[1], name=f"{path}: test_labels")
    if not len(probs):
        raise InputError(f"{path}: is empty; there are no test rows")
    table = table_of(probs, name=str(path))
    found = Predictions(table=table, values=probs, classes=None, recognised=table.recognised, labels=truth)
    return found if wanted is None else found.matched(wanted), named_sites(run.clients)


def named_sites(clients: NDArray[Any]) -> NDArray[Any]:
    """Name the sites of a training run as `summarize` does, so that they are those of the certificate."""
    return clients if clients.dtype.kind == "U" else np.array([f"client-{client}" for client in clients.tolist()])


def encode(sets: Booleans, ending: str, rows: Predictions, classes: int | Sequence[str] | None, **about: Any) -> bytes:
    """Write sets as .npz, .npy or .csv: each row by its id and each label by its name, where they are known."""
    names = None if classes is None or isinstance(classes, int) else list(classes)
    buffer = io.BytesIO()
    if ending == ".npz":
        about |= {key: known for key, known in (("ids", rows.ids), ("classes", names)) if known is not None}
        np.savez_compressed(buffer, sets=sets, **about)
    elif ending == ".npy":
        np.save(buffer, sets)
    else:
        buffer.write(_text(sets, rows, names).encode())
    return buffer.getvalue()


def _text(sets: Booleans, rows: Predictions, names: list[str] | None) -> str:
    odd = next((name for name in names or () if ";" in name), None)
    if odd is not None:
        raise InputError(f"the class {shown(repr(odd))} has a semicolon, which parts names; write the sets as .npz")
    file = io.StringIO()
    lines = csv.writer(file, lineterminator="\n")
    lines.writerow([rows.id_column or "id" if rows.ids is not None else "row", *SETS])
    for row, members in enumerate(map(np.flatnonzero, sets)):
        said = " ".join(map(str, members)) if names is None else ";".join(names[label] for label in members)
        lines.writerow([row if rows.ids is None else rows.ids[row], members.size, said])
    return file.getvalue()
