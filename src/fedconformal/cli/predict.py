"""fedconformal predict: prediction sets from probabilities, intervals from predictions, decisions from scores."""

from __future__ import annotations

import csv
import io
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from fedconformal._base.arrays import as_alpha
from fedconformal._base.files import write_bytes
from fedconformal._base.names import abbreviate, name_key
from fedconformal.calibration.membership import needed_groups, own_sites
from fedconformal.calibration.predictor import Predictor
from fedconformal.certificates.certificate import threshold_json
from fedconformal.certificates.text import explain_uninformative, full_set_count
from fedconformal.cli.arrays import LossRows
from fedconformal.cli.console import logger, print_result
from fedconformal.cli.options import (
    Json,
    OtherAlpha,
    PredictorFile,
    check_output,
    expand_options,
    load_predictor,
    split,
)
from fedconformal.cli.rows import PredictorRows, Sites, Unlabelled, file_in
from fedconformal.errors import InfeasibleWarning, InputError, prefix_errors
from fedconformal.evaluation import full_sets
from fedconformal.evaluation.regression import infinite_words
from fedconformal.tables import Predictions
from fedconformal.tables.text import TextCells, guarded


@dataclass(frozen=True)
class Answers:
    """Sets or intervals, the threshold, and the number of uninformative ones with the reason."""

    values: NDArray[Any]
    threshold: Any
    uninformative: int
    why: str | None
    remark: str


@expand_options
def predict(
    predictor: PredictorFile,
    probs: Annotated[Path, typer.Argument(help="Probabilities, predictions, or scores of a loss.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The sets or intervals (.csv .npz .npy).")],
    alpha: OtherAlpha = None,
    *,
    columns: Unlabelled,
    sites: Sites = None,
    keep: Annotated[
        str | None, typer.Option(metavar="A,B,...", help="Columns to write beside the sets (.csv).")
    ] = None,
    wide: Annotated[bool, typer.Option("--wide", help="A column for each class, with yes or no (.csv).")] = False,
    json: Json = False,
) -> None:
    """Write the prediction set of every row, or its interval."""
    rule = load_predictor(predictor)
    about = rule.certificate
    check_output(output, predictor, probs, file_in(sites))
    if about.risk is not None:
        if alpha or sites or keep or wide or columns.given:
            raise InputError(f"{predictor}: limits a loss; give SCORES alone")
        _predict_decisions(rule, probs, output, json=json)
        return
    if output.suffix not in (".npz", ".npy", ".csv"):
        raise InputError(f"{output}: expected a name that ends in .npz, .npy or .csv")
    if (keep or wide) and output.suffix != ".csv":
        raise InputError("--keep and --wide are for a .csv file; name one with -o")
    if wide and about.intervals:
        raise InputError("--wide has a column for each class, and an interval has none; leave it out")
    if columns.groups is not None and about.by != "group":
        raise InputError("--groups goes with a predictor by group; leave it out")
    level, beside = as_alpha(about.alpha if alpha is None else alpha), split(keep or "")
    columns = replace(columns, skip_missing=output.suffix == ".csv")
    rows = columns.read_for(rule, probs, sites=sites, beside=beside)
    if sites is not None and about.by != "site":
        raise InputError("the predictor has one threshold for all sites; leave them out", param="sites")
    made, found = make_answers(rule, rows, level), rows.table
    about_rows: dict[str, Any] = {"alpha": float(level)} | ({} if found.ids is None else {"ids": found.ids})
    if about.intervals:
        header, cells, size = ["lower", "upper"], made.values.tolist(), float(np.diff(made.values, axis=1).mean())
        wrote, name = f"intervals, mean width {size:.6g}", "intervals"
    else:
        classes = about.class_names if found.classes is None else found.classes
        names = None if classes is None or isinstance(classes, int) else list(classes)
        about_rows |= {} if names is None else {"classes": names}
        header, cells = _set_table(made.values, names, wide=wide) if output.suffix == ".csv" else ([], [])
        size, name = float(made.values.sum(axis=1).mean()), "sets"
        wrote = f"sets of {made.values.shape[1]} labels, mean size {size:.3f}"
    if output.suffix == ".csv":
        write_bytes(output, _table(found, beside, header, cells))
    else:
        write_bytes(output, _arrays(output.suffix, **{name: made.values}, **about_rows))
    record = {
        "output": output,
        "rows": len(made.values),
        "alpha": float(level),
        "threshold": made.threshold,
        "mean_size": size if np.isfinite(size) else None,
        "uninformative": made.uninformative,
        "why_uninformative": made.why,
        "skipped": found.skipped,
    }
    line = f"wrote {output}: {len(made.values)} {wrote}, alpha {float(level):g}"
    print_result(record, line, *filter(None, [made.remark]), json=json)


def make_answers(predictor: Predictor, rows: PredictorRows, alpha: Fraction) -> Answers:
    """Return the sets or intervals of rows, and the largest threshold of the `sites`; warn if uninformative."""
    about = predictor.certificate
    sites, groups = own_sites(about, rows.sites), needed_groups(about, rows.groups)
    with warnings.catch_warnings(), rows.table.table.in_lines():
        warnings.simplefilter("ignore", InfeasibleWarning)  # logged below, with advice
        if about.intervals:
            values = predictor.predict_interval(rows.table.values, sites=sites, alpha=alpha)
        else:
            values = predictor.predict_set(rows.table.values, groups=groups, sites=sites, alpha=alpha)
        threshold = predictor.threshold_at(alpha)
        if sites is not None and len(sites) and not about.intervals:
            threshold = max(float(predictor.threshold_at(alpha, site=str(site))) for site in np.unique(sites))
    if about.intervals:
        uninformative = int(np.isinf(values).any(axis=1).sum())
        why = explain_uninformative(about, threshold, alpha=alpha) if sites is None or uninformative else None
        remark = infinite_words(uninformative, len(values))
    else:
        uninformative = full_sets(values)
        share = uninformative / max(1, len(values))
        why = explain_uninformative(about, threshold, alpha=alpha, classes=values.shape[1], share=share)
        remark = full_set_count(uninformative, len(values))
    answers = Answers(values, threshold_json(threshold), uninformative, why, remark if uninformative else "")
    if why is not None:
        logger.warning("%s", f"{answers.remark}: {why}" if answers.remark else why)
    return answers


def _set_table(sets: NDArray[Any], names: list[str] | None, *, wide: bool) -> tuple[list[str], list[Any]]:
    """Return the header and the cells of sets: the labels in one column, or one column per class."""
    if wide:
        header = ["size", *map(str, names or range(sets.shape[1]))]
        return header, [(sum(row), *("yes" if member else "no" for member in row)) for row in sets.tolist()]
    odd = next((name for name in names or () if ";" in name), None)
    if odd is not None:
        raise InputError(f"the class {abbreviate(repr(odd))} has a semicolon, which parts names; write --wide, or .npz")
    labels, separator = np.array(names or range(sets.shape[1]), dtype=np.str_), " " if names is None else ";"
    return ["size", "labels"], [(int(row.sum()), separator.join(labels[row])) for row in sets]


def _arrays(ending: str, **arrays: Any) -> bytes:
    """Encode arrays as .npz, or the first of them as .npy."""
    buffer = io.BytesIO()
    if ending == ".npy":
        np.save(buffer, next(iter(arrays.values())))
    else:
        np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


def _table(rows: Predictions, keep: Sequence[str], header: list[str], answers: Iterable[Sequence[Any]]) -> bytes:
    """Return the bytes of a table: id or number, columns to keep, and answer; separators are those of the input."""
    cells, file = rows.table.cells, io.StringIO()
    semicolons = isinstance(cells, TextCells) and cells.separator == ";"
    comma = isinstance(cells, TextCells) and cells.decimal == ","
    lines = csv.writer(file, lineterminator="\n", delimiter=";" if semicolons else ",")
    numbers = range(rows.table.rows) if rows.table.taken is None else rows.table.taken
    ids = [(rows.id_column or "id", rows.ids) if rows.ids is not None else ("row", numbers)]
    columns = [*ids, *((name, rows.others[name_key(name)]) for name in keep)]
    lines.writerow([*(guarded(name) for name, _ in columns), *map(guarded, header)])
    for *about, answer in zip(*(values for _, values in columns), answers, strict=True):
        lines.writerow([_cell(value, comma=comma) for value in (*about, *answer)])
    return file.getvalue().encode()


def _cell(value: Any, *, comma: bool) -> str:
    """Format a number with all digits; text that a spreadsheet could execute is guarded."""
    if not isinstance(value, float):
        return str(value) if isinstance(value, int) else guarded(str(value))
    return repr(value).replace(".", ",") if comma else repr(value)


def _predict_decisions(rule: Predictor, scores: Path, output: Path, *, json: bool) -> None:
    """Write the decisions of a loss at the threshold."""
    rows = LossRows.read(scores)
    if output.suffix != ".npz" and (rows.names is not None or output.suffix != ".npy"):
        raise InputError(f"{output}: expected a name that ends in .npz, or of one array in .npy")
    with prefix_errors(scores):
        decisions = rule.predict(rows.values)
    images = {"sets": decisions} if rows.names is None else dict(zip(rows.names, decisions, strict=True))
    write_bytes(output, _arrays(output.suffix, **images))
    share, safe = float(np.mean([x.mean() for x in decisions])) if len(decisions) else 0.0, np.isinf(rule.threshold)
    record = {
        "output": output,
        "rows": len(decisions),
        "risk": rule.risk.limit,
        "threshold": threshold_json(rule.threshold),
    }
    words = f"wrote {output}: answers to {len(decisions)} rows, {share:.1%} of the entries are predicted on average"
    action = f"no threshold is good enough, so this is the safe action: {rule.risk.safe}"
    print_result({**record, "mean_size": share}, words, *[action] * bool(safe), json=json)
