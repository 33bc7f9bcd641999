"""fedconformal predict: anywhere, from probabilities to prediction sets."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from fedconformal._base.arrays import as_alpha
from fedconformal._base.files import write_bytes
from fedconformal.calibration.certificate import threshold_json
from fedconformal.cli.console import print_json, say
from fedconformal.cli.inputs import (
    AllowEmpty,
    From,
    Json,
    Source,
    load_predictor,
    warn_of_use,
)
from fedconformal.cli.outputs import Force, check_output
from fedconformal.cli.rows import ClassNames, Columns, Drop, Encoding, Id, Positive, read_predictions
from fedconformal.cli.sets import encode, make_sets
from fedconformal.errors import InputError
from fedconformal.evaluation import full_words


def predict(
    predictor: Annotated[Path, typer.Argument(help="The predictor (.json).")],
    probs: Annotated[Path, typer.Argument(help="Probabilities (.csv .tsv .txt .parquet .npy .npz).")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Where to write the sets (.npz .npy .csv).")],
    alpha: Annotated[str | None, typer.Option(help="Another alpha than the certified one, fixed beforehand.")] = None,
    source: From = Source.probs,
    ids: Id = None,
    classes: ClassNames = None,
    drop: Drop = None,
    positive: Positive = None,
    encoding: Encoding = None,
    allow_empty: AllowEmpty = False,
    force: Force = False,
    json: Json = False,
) -> None:
    """Write the prediction set of every row."""
    rule = load_predictor(predictor)
    if output.suffix not in (".npz", ".npy", ".csv"):
        raise InputError(f"{output}: expected a name that ends in .npz, .npy or .csv")
    check_output(output, predictor, probs, force=force)
    wanted = as_alpha(rule.certificate.alpha if alpha is None else alpha)
    warn_of_use(rule, source)
    columns = Columns(ids=ids, classes=classes, drop=drop, positive=positive, encoding=encoding)
    about = rule.certificate
    rows = read_predictions(probs, source, columns, wanted=about.labels, temperature=about.temperature)
    sets, threshold, full, why = make_sets(rule, rows, wanted, allow_empty=allow_empty)
    write_bytes(output, encode(sets, output.suffix, rows, about.labels, alpha=float(wanted), threshold=threshold))
    size = float(np.count_nonzero(sets) / max(1, len(sets)))
    if json:
        facts = {"output": str(output), "rows": len(sets), "classes": sets.shape[1], "mean_size": size}
        made = {"alpha": float(wanted), "threshold": threshold_json(threshold), "full_sets": full, "why_full": why}
        print_json({**facts, **made})
        return
    say(f"wrote {output}: {len(sets)} sets of {sets.shape[1]} labels, mean size {size:.3f}, alpha {float(wanted):g}")
    if full:
        say(full_words(full, len(sets)))
