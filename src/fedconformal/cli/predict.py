"""fedconformal predict: anywhere, from probabilities to prediction sets."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from fedconformal._base.arrays import Booleans, as_alpha
from fedconformal._base.files import write_bytes
from fedconformal.calibration.certificate import threshold_json
from fedconformal.calibration.predictor import load
from fedconformal.cli.console import print_json, say
from fedconformal.cli.inputs import (
    AllowEmpty,
    From,
    Json,
    Source,
    check_output,
    read_rows,
    warn_of_use,
)
from fedconformal.cli.sets import make_sets
from fedconformal.errors import InputError
from fedconformal.evaluation import full_words


def predict(
    predictor: Annotated[Path, typer.Argument(help="The predictor (.json).")],
    probs: Annotated[Path, typer.Argument(help="Probabilities (.npy .npz .csv).")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Where to write the sets (.npz .npy .csv).")],
    alpha: Annotated[str | None, typer.Option(help="Another alpha than the certified one, fixed beforehand.")] = None,
    source: From = Source.probs,
    allow_empty: AllowEmpty = False,
    json: Json = False,
) -> None:
    """Write the prediction set of every row."""
    rule = load(predictor)
    if output.suffix not in (".npz", ".npy", ".csv"):
        raise InputError(f"{output}: expected a name that ends in .npz, .npy or .csv")
    check_output(output, predictor, probs)
    wanted = as_alpha(rule.certificate.alpha if alpha is None else alpha)
    warn_of_use(rule, source)
    rows = read_rows(probs, source, rule.certificate.temperature)
    sets, threshold, full, why = make_sets(rule, rows, wanted, path=probs, allow_empty=allow_empty)
    write_bytes(output, _encode(sets, output.suffix, alpha=float(wanted), threshold=threshold))
    size = float(np.count_nonzero(sets) / max(1, len(sets)))
    if json:
        facts = {"output": str(output), "rows": len(sets), "classes": sets.shape[1], "mean_size": size}
        about = {"alpha": float(wanted), "threshold": threshold_json(threshold), "full_sets": full, "why_full": why}
        print_json({**facts, **about})
        return
    say(f"wrote {output}: {len(sets)} sets of {sets.shape[1]} labels, mean size {size:.3f}, alpha {float(wanted):g}")
    if full:
        say(full_words(full, len(sets)))


def _encode(sets: Booleans, suffix: str, **about: Any) -> bytes:
    buffer = io.BytesIO()
    if suffix == ".npz":
        np.savez_compressed(buffer, sets=sets, **about)
    elif suffix == ".npy":
        np.save(buffer, sets)
    else:
        lines = (
            f"{row},{members.size},{' '.join(map(str, members))}"
            for row, members in enumerate(map(np.flatnonzero, sets))
        )
        buffer.write(("row,size,labels\n" + "".join(f"{line}\n" for line in lines)).encode())
    return buffer.getvalue()
