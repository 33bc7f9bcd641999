"""fedconformal evaluate: coverage and size of the sets on rows with known labels."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from fedconformal.certificate import threshold_json
from fedconformal.cli.console import print_json, say, table
from fedconformal.cli.inputs import (
    AllowEmpty,
    From,
    Json,
    Source,
    checked_probabilities,
    predict_in_blocks,
    read_clients,
    read_labels,
    read_probabilities,
    read_run,
    warn_of_temperature,
)
from fedconformal.errors import InputError
from fedconformal.evaluation import GROUP_COLUMNS, evaluate_sets
from fedconformal.predictor import load
from fedconformal.validation import as_alpha, as_labels


def evaluate(
    predictor: Annotated[Path, typer.Argument(help="The predictor (.json).")],
    probs: Annotated[Path, typer.Argument(help="Probabilities (.npy .npz .csv), or the logits.npz of a training run.")],
    labels: Annotated[Path | None, typer.Argument(help="Labels (.npy .npz .csv); not with a training run.")] = None,
    clients: Annotated[Path | None, typer.Option(help="Which client each row is from (.npy .npz .csv).")] = None,
    alpha: Annotated[str | None, typer.Option(help="Another alpha than the certified one, fixed beforehand.")] = None,
    source: From = Source.probs,
    allow_empty: AllowEmpty = False,
    json: Json = False,
) -> None:
    """Compare the sets with known labels: coverage and size, by client, class and set size."""
    rule = load(predictor)
    temperature = rule.certificate.temperature
    ids: Any = None
    if labels is None:
        if clients is not None:
            raise InputError("--clients goes with LABELS; a training run has its own")
        logits, truth, ids, _ = read_run(probs, "test")
        rows = checked_probabilities(logits, str(probs), Source.logits, temperature)
        truth = as_labels(truth, rows=len(rows), classes=rows.shape[1], name=f"{probs}: test_labels")
    else:
        warn_of_temperature(rule, source)
        rows = read_probabilities(probs, source, temperature)
        truth = read_labels(labels, rows)
        if clients is not None:
            ids = read_clients(clients, len(rows))
    if not len(rows):
        raise InputError(f"{probs}: is empty; there is nothing to evaluate")
    wanted = as_alpha(rule.certificate.alpha if alpha is None else alpha)
    sets = predict_in_blocks(rule, rows, wanted, allow_empty=allow_empty)
    result = evaluate_sets(sets, truth, clients=ids)
    if json:
        about = {"alpha": float(wanted), "threshold": threshold_json(rule.threshold(wanted))}
        print_json({**about, **result.to_dict()})
        return
    table(("", *GROUP_COLUMNS), [result.overall.cells])
    for title, groups in (("client", result.by_client), ("class", result.by_class), ("set size", result.by_size)):
        if groups:
            say("")
            table((title, *GROUP_COLUMNS), [group.cells for group in groups])
    say("")
    say(f"alpha {float(wanted):g}: {1 - float(wanted):.10g} is promised {rule.certificate.promise}.")
    say(rule.certificate.caveat)
