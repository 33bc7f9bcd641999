"""Sets and intervals of the rows of a file, and how they are written."""

from __future__ import annotations

import csv
import io
import warnings
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedconformal._base.arrays import Booleans, Floats
from fedconformal._base.names import abbreviate, name_key
from fedconformal.calibration.membership import needed_groups, own_sites
from fedconformal.calibration.predictor import Predictor
from fedconformal.certificates.certificate import threshold_json
from fedconformal.certificates.text import full_set_count
from fedconformal.certificates.uninformative import explain_uninformative
from fedconformal.cli.console import logger, progress
from fedconformal.errors import InfeasibleWarning, InputError
from fedconformal.evaluation import full_sets
from fedconformal.evaluation.regression import infinite_words
from fedconformal.tables import Predictions
from fedconformal.tables.layout import guarded
from fedconformal.tables.records import TextCells

BLOCK = 2**22
"""Probabilities of which sets are made at a time."""


class Answers(NamedTuple):
    """Sets or intervals, and how many of them say nothing.

    `facts` are the same for JSON, with the threshold and the reason.
    """

    values: Any
    uninformative: int
    remark: str
    facts: dict[str, Any]


def make_answers(
    predictor: Predictor, rows: Predictions, alpha: Fraction, *, groups: Any = None, sites: Any = None
) -> Answers:
    """Return the sets or intervals of the rows of a file; warn if they say nothing, with what would help."""
    about = predictor.certificate
    sites = own_sites(about, sites)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InfeasibleWarning)  # said below, with what would help
        if about.intervals:
            return _intervals(predictor, rows, alpha, sites)
        return _sets(predictor, rows, alpha, needed_groups(about, groups), sites)


def _sets(predictor: Predictor, rows: Predictions, alpha: Fraction, groups: Any, sites: Any) -> Answers:
    """Make sets a block at a time; the threshold is the largest of the `sites`, where each has its own."""
    probs, blocks = rows.values, []
    step = max(1, BLOCK // max(1, probs.shape[1]))
    starts = range(0, max(1, len(probs)), step)
    for start in progress(starts, "predicting sets", len(starts)):
        block = slice(start, start + step)
        own = None if groups is None else {name: values[block] for name, values in groups.items()}
        with rows.table.in_lines(start):
            known = None if sites is None else sites[block]
            blocks.append(predictor.predict_set(probs[block], groups=own, sites=known, alpha=alpha))
    threshold = predictor.threshold_at(alpha)
    if sites is not None and len(sites):
        threshold = max(float(predictor.threshold_at(alpha, site=str(site))) for site in np.unique(sites))
    sets: Booleans = np.concatenate(blocks)
    full = full_sets(sets)
    why = explain_uninformative(
        predictor.certificate,
        threshold,
        alpha=alpha,
        score=predictor.score,
        classes=sets.shape[1],
        share=full / max(1, len(sets)),
    )
    remark = full_set_count(full, len(sets)) if full else ""
    _warn(remark, why)
    return Answers(sets, full, remark, {"threshold": threshold_json(threshold), "full_sets": full, "why_full": why})


def _intervals(predictor: Predictor, rows: Predictions, alpha: Fraction, sites: NDArray[Any] | None) -> Answers:
    with rows.table.in_lines():
        ends = predictor.predict_interval(rows.values, sites=sites, alpha=alpha)
    threshold = predictor.threshold_at(alpha)
    infinite = int(np.isinf(ends).any(axis=1).sum())
    why = explain_uninformative(predictor.certificate, threshold, alpha=alpha) if sites is None or infinite else None
    remark = infinite_words(infinite, len(ends)) if infinite else ""
    _warn(remark, why)
    limits = threshold if isinstance(threshold, tuple) else (threshold,)
    facts: dict[str, Any] = dict(
        zip(("lower_threshold", "threshold")[-len(limits) :], map(threshold_json, limits), strict=True)
    )
    return Answers(ends, infinite, remark, {**facts, "infinite": infinite, "why_infinite": why})


def _warn(remark: str, why: str | None) -> None:
    if why is not None:
        logger.warning("%s", f"{remark}: {why}" if remark else why)


def encode_sets(
    sets: Booleans, ending: str, rows: Predictions, classes: Any, *, keep: Sequence[str], wide: bool, **about: Any
) -> bytes:
    """Write sets as .npz, .npy or .csv: each row by its id and each label by its name, where they are known.

    A table has the labels in one column, or with `wide` a column for each class.
    """
    names = None if classes is None or isinstance(classes, int) else list(classes)
    if ending != ".csv":
        about |= {} if names is None else {"classes": names}
        return _arrays(sets, ending, "sets", rows, about)
    if wide:
        header = ["size", *map(str, names or range(sets.shape[1]))]
        return _table(
            rows, keep, header, [(sum(row), *("yes" if one else "no" for one in row)) for row in sets.tolist()]
        )
    odd = next((name for name in names or () if ";" in name), None)
    if odd is not None:
        raise InputError(f"the class {abbreviate(repr(odd))} has a semicolon, which parts names; write --wide, or .npz")
    members = [np.flatnonzero(one) for one in sets]
    if names is None:
        labels = [" ".join(map(str, one)) for one in members]
    else:
        labels = [";".join(names[label] for label in one) for one in members]
    return _table(rows, keep, ["size", "labels"], [(one.size, cell) for one, cell in zip(members, labels, strict=True)])


def encode_intervals(ends: Floats, ending: str, rows: Predictions, *, keep: Sequence[str], **about: Any) -> bytes:
    """Write intervals as .npz, .npy or .csv: each row by its id, where there are ids."""
    if ending != ".csv":
        return _arrays(ends, ending, "intervals", rows, about)
    return _table(rows, keep, ["lower", "upper"], ends.tolist())


def _arrays(values: NDArray[Any], ending: str, name: str, rows: Predictions, about: dict[str, Any]) -> bytes:
    buffer = io.BytesIO()
    if ending == ".npy":
        np.save(buffer, values)
    else:
        about |= {name: values} if rows.ids is None else {name: values, "ids": rows.ids}
        np.savez_compressed(buffer, **about)
    return buffer.getvalue()


def _table(rows: Predictions, keep: Sequence[str], header: list[str], answers: Sequence[Sequence[Any]]) -> bytes:
    """Write the id of each row, or its number, the columns to keep and its answer, as the table that was read.

    Semicolons and decimal commas are kept, for a spreadsheet that expects them.
    """
    cells, file = rows.table.cells, io.StringIO()
    semicolons = isinstance(cells, TextCells) and cells.separator == ";"
    comma = isinstance(cells, TextCells) and cells.decimal == ","
    lines = csv.writer(file, lineterminator="\n", delimiter=";" if semicolons else ",")
    numbers = range(len(answers)) if rows.table.taken is None else rows.table.taken
    ids = [(rows.id_column or "id", rows.ids) if rows.ids is not None else ("row", numbers)]
    columns = [*ids, *((name, rows.others[name_key(name)]) for name in keep)]
    lines.writerow([*(guarded(name) for name, _ in columns), *map(guarded, header)])
    for *about, answer in zip(*(values for _, values in columns), answers, strict=True):
        lines.writerow([_cell(one, comma=comma) for one in (*about, *answer)])
    return file.getvalue().encode()


def _cell(value: Any, *, comma: bool) -> str:
    """Format a number with all its digits; text that a spreadsheet could run is guarded."""
    if not isinstance(value, float):
        return str(value) if isinstance(value, int) else guarded(str(value))
    return repr(value).replace(".", ",") if comma else repr(value)
