"""What commands that make sets share: sets that hold every label are said, and rows may come in clusters."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from numpy.typing import NDArray

from fedconformal._base.arrays import Booleans, Floats
from fedconformal._base.groups import Groups
from fedconformal.calibration.predictor import Predictor
from fedconformal.certificates.text import full_set_count
from fedconformal.certificates.uninformative import explain_uninformative
from fedconformal.cli.console import logger, progress
from fedconformal.cli.inputs import read_run
from fedconformal.errors import InfeasibleWarning, InputError
from fedconformal.evaluation import full_sets
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


class Made(NamedTuple):
    """Sets, the threshold they were made at, how many hold every label, and why."""

    sets: Booleans
    threshold: float | Floats
    full: int
    why: str | None


def make_sets(
    predictor: Predictor,
    rows: Predictions,
    alpha: Fraction,
    *,
    allow_empty: bool,
    groups: Groups | None = None,
    sites: NDArray[Any] | None = None,
) -> Made:
    """Make sets of the rows of a file, a block at a time, and warn if every label, or some class, is in every set.

    The threshold is the largest of the `sites` of the rows, where each has its own.
    """
    probs = rows.values
    step = max(1, BLOCK // max(1, probs.size // max(1, len(probs))))
    starts, blocks = range(0, max(1, len(probs)), step), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InfeasibleWarning)  # said below, with what would help
        for start in progress(starts, "predicting sets", len(starts)):
            block = slice(start, start + step)
            own = None if groups is None else {name: values[block] for name, values in groups.items()}
            with rows.table.in_lines(start):
                known = None if sites is None else sites[block]
                about: dict[str, Any] = {"groups": own, "sites": known, "alpha": alpha}
                blocks.append(predictor.predict_set(probs[block], allow_empty=allow_empty, **about))
        threshold = predictor.threshold_at(alpha)
        if sites is not None and len(sites):
            threshold = max(float(predictor.threshold_at(alpha, site=str(site))) for site in np.unique(sites))
    sets = np.concatenate(blocks)
    full = full_sets(sets)
    why = explain_uninformative(
        predictor.certificate,
        threshold,
        alpha=alpha,
        score=predictor.score,
        classes=sets.shape[1],
        share=full / max(1, len(sets)),
    )
    if why is not None:
        logger.warning("%s", f"{full_set_count(full, len(sets))}: {why}" if full else why)
    return Made(sets, threshold, full, why)


def rows_of_run(
    path: Path, temperature: float | None, wanted: int | Sequence[str] | None
) -> tuple[Predictions, NDArray[Any]]:
    """Read the test rows of a training run, and the site of each; its columns have no names."""
    run = read_run(path, "test", 1.0 if temperature is None else temperature)
    if not len(run.probs):
        raise InputError(f"{path}: is empty; there are no test rows")
    table = table_of(run.probs, name=str(path))
    found = Predictions(table=table, values=run.probs, classes=None, recognised=table.recognised, labels=run.labels)
    sites = run.clients  # by their names in the certificate, which `summarize` gives them
    named = sites if sites.dtype.kind == "U" else np.array([f"client-{site}" for site in sites.tolist()])
    return found if wanted is None else found.matched(wanted), named
