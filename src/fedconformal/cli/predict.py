"""fedconformal predict: anywhere, from probabilities to prediction sets, or from predictions to intervals."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from fedconformal._base.arrays import as_alpha
from fedconformal._base.files import write_bytes
from fedconformal.cli.answers import encode_intervals, encode_sets, make_answers
from fedconformal.cli.console import print_result
from fedconformal.cli.losses import predict_decisions
from fedconformal.cli.options import Json, OtherAlpha, Risk, expand_options, load_predictor, split
from fedconformal.cli.outputs import Force, check_output
from fedconformal.cli.rows import Groups, Sites, Unlabelled, column_in, file_in, group_columns, values_of
from fedconformal.errors import InputError


@expand_options
def predict(
    predictor: Annotated[Path, typer.Argument(help="The predictor (.json).")],
    probs: Annotated[
        Path,
        typer.Argument(help="Probabilities, predictions, or scores of a loss."),
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="The sets or intervals (.csv .npz .npy).")],
    alpha: OtherAlpha = None,
    risk: Risk = None,
    *,
    columns: Unlabelled,
    groups: Groups = None,
    sites: Sites = None,
    keep: Annotated[
        str | None,
        typer.Option(metavar="A,B,...", help="Columns to write beside the sets (.csv)."),
    ] = None,
    wide: Annotated[bool, typer.Option("--wide", help="A column for each class, with yes or no (.csv).")] = False,
    force: Force = False,
    json: Json = False,
) -> None:
    """Write the prediction set of every row, or its interval."""
    rule = load_predictor(predictor)
    about = rule.certificate
    check_output(output, predictor, probs, file_in(sites), force=force)
    if about.risk is not None:
        if alpha or groups or sites or columns != Unlabelled():
            raise InputError(f"{predictor}: limits a loss; give SCORES, and no more than --risk")
        predict_decisions(rule, probs, output, risk=risk, json=json)
        return
    if risk is not None:
        raise InputError(f"{predictor}: does not limit a loss; leave out --risk")
    if output.suffix not in (".npz", ".npy", ".csv"):
        raise InputError(f"{output}: expected a name that ends in .npz, .npy or .csv")
    if (keep or wide) and output.suffix != ".csv":
        raise InputError("--keep and --wide are for a .csv file; name one with -o")
    if groups is not None and about.by != "group":
        raise InputError("--groups goes with a predictor by group; leave it out")
    level, by = as_alpha(about.alpha if alpha is None else alpha), group_columns(groups, rule)
    beside = [] if keep is None else split(keep)
    kept = replace(columns.keeping(*by, column_in(sites), *beside), skip_missing=output.suffix == ".csv")
    rows = kept.read_for(rule, probs)
    held = {name: values_of(rows, name, "groups") for name in by}
    owners = None if sites is None else values_of(rows, sites, "sites", columns)
    if owners is not None and about.by != "site":
        raise InputError("the predictor has one threshold for all sites; leave them out", param="sites")
    made = make_answers(rule, rows, level, groups=held, sites=owners)
    facts: dict[str, Any] = {"output": str(output), "rows": len(made.values), "alpha": float(level), **made.facts}
    facts["skipped"] = list(rows.skipped)
    if about.intervals:
        write_bytes(output, encode_intervals(made.values, output.suffix, rows, keep=beside, alpha=float(level)))
        width = float(np.diff(made.values, axis=1).mean())
        facts["mean_width"] = None if np.isinf(width) else width
        wrote = f"{len(made.values)} intervals, mean width {width:.6g}"
    else:
        classes = about.class_names if rows.classes is None else rows.classes
        data = encode_sets(made.values, output.suffix, rows, classes, keep=beside, wide=wide, alpha=float(level))
        write_bytes(output, data)
        facts |= {"classes": made.values.shape[1], "mean_size": float(made.values.sum(axis=1).mean())}
        wrote = f"{len(made.values)} sets of {facts['classes']} labels, mean size {facts['mean_size']:.3f}"
    remark = [made.remark] if made.remark else []
    print_result(facts, f"wrote {output}: {wrote}, alpha {float(level):g}", *remark, json=json)
