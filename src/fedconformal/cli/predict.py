"""fedconformal predict: anywhere, from probabilities to prediction sets, or from predictions to intervals."""

from __future__ import annotations

import csv
import io
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from fedconformal._base.arrays import Booleans, as_alpha
from fedconformal._base.files import write_bytes
from fedconformal._base.names import abbreviate
from fedconformal.calibration.predictor import Predictor
from fedconformal.certificates.certificate import threshold_json
from fedconformal.certificates.text import full_set_count
from fedconformal.cli.answers import predicted_by_rule
from fedconformal.cli.console import print_result
from fedconformal.cli.groups import Needed, columns_in, read_groups
from fedconformal.cli.inputs import AllowEmpty, Json, load_any
from fedconformal.cli.options import expand_options
from fedconformal.cli.outputs import Force, check_output
from fedconformal.cli.regression import encoded, make_intervals, read_rows, threshold_of
from fedconformal.cli.risk import Risk
from fedconformal.cli.rows import Sites, Unlabelled, column_in, file_in, values_of
from fedconformal.cli.sets import make_sets
from fedconformal.errors import InputError
from fedconformal.evaluation.regression import infinite_words
from fedconformal.tables import Predictions
from fedconformal.tables.layout import guarded


@expand_options
def predict(
    predictor: Annotated[Path, typer.Argument(help="The predictor (.json).")],
    probs: Annotated[Path, typer.Argument(help="Probabilities, or predictions (.csv .tsv .txt .parquet .npy .npz).")],
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Where to write the sets or intervals (.npz .npy .csv).")
    ],
    alpha: Annotated[str | None, typer.Option(help="Another alpha than the certified one, fixed beforehand.")] = None,
    risk: Risk = None,
    *,
    columns: Unlabelled,
    groups: Needed = None,
    sites: Sites = None,
    allow_empty: AllowEmpty = False,
    force: Force = False,
    json: Json = False,
) -> None:
    """Write the prediction set of every row, or its interval."""
    plain = alpha is None and groups is None and sites is None and not allow_empty and columns == Unlabelled()
    if predicted_by_rule(predictor, probs, output, risk=risk, force=force, json=json, plain=plain):
        return
    rule = load_any(predictor)
    if output.suffix not in (".npz", ".npy", ".csv"):
        raise InputError(f"{output}: expected a name that ends in .npz, .npy or .csv")
    check_output(output, predictor, probs, file_in(sites), force=force)
    wanted = as_alpha(rule.certificate.alpha if alpha is None else alpha)
    if rule.certificate.intervals:
        if groups is not None:
            raise InputError("--groups goes with a predictor by group, and this one gives intervals; leave it out")
        _intervals(rule, probs, output, wanted, columns, sites, allow_empty=allow_empty, json=json)
        return
    by = columns_in(groups, rule)
    rows = columns.keeping(*by, column_in(sites)).read_for(rule, probs)
    held = read_groups(rows, by) if by else None
    known = None if sites is None else values_of(rows, sites, "sites", columns)
    sets, threshold, full, why = make_sets(rule, rows, wanted, allow_empty=allow_empty, groups=held, sites=known)
    data = _encoded(sets, output.suffix, rows, rule.certificate.class_names, alpha=float(wanted), threshold=threshold)
    write_bytes(output, data)
    size = float(np.count_nonzero(sets) / max(1, len(sets)))
    facts = {"output": str(output), "rows": len(sets), "classes": sets.shape[1], "mean_size": size}
    made = {"alpha": float(wanted), "threshold": threshold_json(threshold), "full_sets": full, "why_full": why}
    wrote = f"{len(sets)} sets of {sets.shape[1]} labels, mean size {size:.3f}, alpha {float(wanted):g}"
    more = [full_set_count(full, len(sets))] if full else []
    print_result({**facts, **made}, f"wrote {output}: {wrote}", *more, json=json)


def _intervals(
    rule: Predictor,
    path: Path,
    output: Path,
    alpha: Fraction,
    columns: Unlabelled,
    sites: str | None,
    *,
    allow_empty: bool,
    json: bool,
) -> None:
    if allow_empty:
        raise InputError("--allow-empty is for sets, and this predictor gives intervals; leave it out")
    rows = read_rows(rule, columns.keeping(column_in(sites)), path)
    made = make_intervals(rule, rows, alpha, None if sites is None else values_of(rows, sites, "sites", columns))
    write_bytes(output, encoded(made.intervals, output.suffix, rows, alpha=float(alpha)))
    width = float(np.diff(made.intervals, axis=1).mean())
    facts = {"output": str(output), "rows": len(made.intervals), "alpha": float(alpha), **threshold_of(rule, alpha)}
    facts |= {"mean_width": None if np.isinf(width) else width, "infinite": made.infinite, "why_infinite": made.why}
    wrote = f"{len(made.intervals)} intervals, mean width {width:.6g}, alpha {float(alpha):g}"
    more = [infinite_words(made.infinite, len(made.intervals))] if made.infinite else []
    print_result(facts, f"wrote {output}: {wrote}", *more, json=json)


def _encoded(sets: Booleans, ending: str, rows: Predictions, classes: Any, **about: Any) -> bytes:
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
        raise InputError(
            f"the class {abbreviate(repr(odd))} has a semicolon, which parts names; write the sets as .npz"
        )
    file = io.StringIO()
    lines = csv.writer(file, lineterminator="\n")
    lines.writerow([guarded(rows.id_column or "id") if rows.ids is not None else "row", "size", "labels"])
    for row, members in enumerate(map(np.flatnonzero, sets)):
        said = " ".join(map(str, members)) if names is None else ";".join(names[label] for label in members)
        lines.writerow([row if rows.ids is None else guarded(rows.ids[row]), members.size, guarded(said)])
    return file.getvalue()
