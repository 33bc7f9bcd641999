"""fedconformal evaluate: coverage and size of the sets on rows with known labels."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from fedconformal._base.arrays import as_alpha, as_labels
from fedconformal.calibration.certificate import threshold_json
from fedconformal.calibration.predictor import load
from fedconformal.cli.console import print_json, say, table
from fedconformal.cli.inputs import (
    AllowEmpty,
    From,
    Json,
    Source,
    from_logits,
    read_clients,
    read_labels,
    read_probabilities,
    read_run,
    warn_of_use,
)
from fedconformal.cli.sets import Cluster, make_sets, named_sites, read_clusters
from fedconformal.errors import InputError
from fedconformal.evaluation import evaluate_sets, full_words


def evaluate(
    predictor: Annotated[Path, typer.Argument(help="The predictor (.json).")],
    probs: Annotated[Path, typer.Argument(help="Probabilities (.npy .npz .csv), or the logits.npz of a training run.")],
    labels: Annotated[Path | None, typer.Argument(help="Labels (.npy .npz .csv); not with a training run.")] = None,
    clients: Annotated[Path | None, typer.Option(help="Which site each row is from (.npy .npz .csv).")] = None,
    cluster: Cluster = None,
    alpha: Annotated[str | None, typer.Option(help="Another alpha than the certified one, fixed beforehand.")] = None,
    source: From = Source.probs,
    allow_empty: AllowEmpty = False,
    check: Annotated[
        bool, typer.Option("--check", help="Exit with 1 if the rows contradict the promise.", show_default=False)
    ] = False,
    json: Json = False,
) -> None:
    """Compare the sets with known labels: does the promise hold, coverage and size, by site, class and set size."""
    rule = load(predictor)
    temperature = rule.certificate.temperature
    ids: Any = None
    if labels is None:
        if clients is not None:
            raise InputError("--clients goes with LABELS; a training run has its own")
        logits, truth, ids, _ = read_run(probs, "test")
        ids = named_sites(ids)
        rows = from_logits(logits, str(probs), temperature)
        truth = as_labels(truth, rows=len(rows), classes=rows.shape[1], name=f"{probs}: test_labels")
    else:
        warn_of_use(rule, source)
        rows = read_probabilities(probs, source, temperature)
        truth = read_labels(labels, rows)
        if clients is not None:
            ids = read_clients(clients, len(rows))
    if not len(rows):
        raise InputError(f"{probs}: is empty; there is nothing to evaluate")
    clusters = None if cluster is None else read_clusters(cluster, len(rows))
    wanted = as_alpha(rule.certificate.alpha if alpha is None else alpha)
    made = make_sets(rule, rows, wanted, path=probs, allow_empty=allow_empty)
    result = evaluate_sets(made.sets, truth, clients=ids, clusters=clusters, certificate=rule.certificate, alpha=wanted)
    below = result.verdict is not None and result.verdict.below
    if json:
        about = {"alpha": float(wanted), "threshold": threshold_json(made.threshold)}
        print_json({**about, **result.to_dict(), "why_full": made.why})
        raise typer.Exit(int(check and below))
    if result.verdict is not None:
        say(result.verdict.words, f"This holds if {result.verdict.assumes}.", "")
    table(("", *result.columns), [result.overall.cells])
    for title, groups in (("client", result.by_client), ("class", result.by_class), ("set size", result.by_size)):
        if groups:
            say("")
            table((title, *result.columns), [group.cells for group in groups])
    say("")
    say(result.interval_words)
    if result.reweighted is not None:
        say(result.reweighted.sentence)
    if made.full:
        say(f"{full_words(made.full, len(rows))}.")
    say(f"alpha {float(wanted):g}: {1 - float(wanted):.10g} is promised {rule.certificate.promise}.")
    say(rule.certificate.caveat)
    raise typer.Exit(int(check and below))
