"""fedconformal evaluate: coverage and size of the sets on rows with known labels."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from fedconformal._base.arrays import as_alpha
from fedconformal.calibration.certificate import threshold_json
from fedconformal.calibration.membership import needed_of
from fedconformal.cli.console import print_json, say, table
from fedconformal.cli.groups import columns_in, read_groups
from fedconformal.cli.inputs import AllowEmpty, Json, load_predictor
from fedconformal.cli.options import taking
from fedconformal.cli.risk import Risk, evaluate_losses_of
from fedconformal.cli.rows import NONE, Clients, Columns, Groups, column_in, values_of
from fedconformal.cli.sets import Cluster, make_sets, rows_of_run
from fedconformal.errors import InputError
from fedconformal.evaluation import evaluate_sets, full_words


@taking()
def evaluate(
    predictor: Annotated[Path, typer.Argument(help="The predictor (.json).")],
    probs: Annotated[
        Path,
        typer.Argument(help="Probabilities (.csv .tsv .txt .parquet .npy .npz), or the logits.npz of a training run."),
    ],
    labels: Annotated[Path | None, typer.Argument(help="Labels; not with --labels or a training run.")] = None,
    clients: Clients = None,
    cluster: Cluster = None,
    groups: Groups = None,
    alpha: Annotated[str | None, typer.Option(help="Another alpha than the certified one, fixed beforehand.")] = None,
    risk: Risk = None,
    *,
    columns: Columns,
    allow_empty: AllowEmpty = False,
    check: Annotated[
        bool, typer.Option("--check", help="Exit with 1 if the rows contradict the promise.", show_default=False)
    ] = False,
    json: Json = False,
) -> None:
    """Compare the sets with known labels: does the promise hold, coverage and size, by site, class and set size."""
    plain = alpha is None and not (cluster or groups or allow_empty)
    evaluate_losses_of(predictor, probs, labels, clients=clients, risk=risk, plain=plain, check=check, json=json)
    rule = load_predictor(predictor)
    about = rule.certificate
    by, kept = columns_in(groups, rule), (column_in(clients), column_in(cluster))
    typed, columns = columns.keeping(*columns_in(groups), *kept), columns.keeping(*by, *kept)
    sites: Any = None
    if labels is None and columns.label_column is None:
        if clients is not None or typed != NONE:
            raise InputError(f"{'--clients goes' if clients else 'columns go'} with LABELS; a training run has its own")
        rows, sites = rows_of_run(probs, about.temperature, about.labels)
        by = []
    else:
        rows = columns.read_for(rule, probs, labels)
        if clients is not None:
            sites = values_of(rows, clients, "clients", columns)
    clusters = None if cluster is None else values_of(rows, cluster, "clusters", columns)
    wanted = as_alpha(about.alpha if alpha is None else alpha)
    held = read_groups(rows, by)
    made = make_sets(rule, rows, wanted, allow_empty=allow_empty, groups=needed_of(about, held))
    result = evaluate_sets(
        made.sets,
        rows.truth,
        clients=sites,
        clusters=clusters,
        groups=held,
        certificate=about,
        alpha=wanted,
    )
    below = result.verdict is not None and result.verdict.below
    if json:
        stated = {"alpha": float(wanted), "threshold": threshold_json(made.threshold)}
        print_json({**stated, **result.to_dict(), "why_full": made.why})
        raise typer.Exit(int(check and below))
    if result.verdict is not None:
        say(result.verdict.words, f"This holds if {result.verdict.assumes}.", "")
    table(("", *result.columns), [result.overall.cells])
    parts = {"client": result.by_client, "class": result.by_class, "set size": result.by_size}
    for title, found in (*parts.items(), *result.by_group.items()):
        if found:
            say("")
            table((title, *result.columns), [group.cells for group in found])
    say("")
    say(result.interval_words)
    if result.reweighted is not None:
        say(result.reweighted.sentence)
    if made.full:
        say(f"{full_words(made.full, len(made.sets))}.")
    say(f"alpha {float(wanted):g}: {1 - float(wanted):.10g} is promised {about.promise}.")
    say(about.caveat)
    raise typer.Exit(int(check and below))
