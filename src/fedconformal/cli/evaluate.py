"""fedconformal evaluate: coverage and size of sets or intervals on rows with known labels or numbers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from fedconformal._base.arrays import as_alpha
from fedconformal.calibration.predictor import Predictor
from fedconformal.cli.answers import make_answers
from fedconformal.cli.console import print_json, say, table
from fedconformal.cli.losses import print_risk
from fedconformal.cli.options import Json, OtherAlpha, Risk, expand_options, load_predictor
from fedconformal.cli.rows import (
    NONE,
    Columns,
    Groups,
    Sites,
    SkipMissing,
    column_in,
    group_columns,
    values_of,
    warn_of_repeated_ids,
)
from fedconformal.cli.runs import read_run
from fedconformal.errors import InputError
from fedconformal.evaluation import Evaluation, evaluate_intervals, evaluate_sets
from fedconformal.tables import Predictions


@expand_options
def evaluate(
    predictor: Annotated[Path, typer.Argument(help="The predictor (.json).")],
    probs: Annotated[
        Path,
        typer.Argument(
            help="Probabilities, predictions or scores; or the .npz of a training run.",
        ),
    ],
    labels: Annotated[Path | None, typer.Argument(help="Labels, or true numbers.")] = None,
    sites: Sites = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN|FILE",
            help="The cluster of each row, such as its patient.",
        ),
    ] = None,
    groups: Groups = None,
    alpha: OtherAlpha = None,
    risk: Risk = None,
    *,
    columns: Columns,
    skip_missing: SkipMissing = False,
    check: Annotated[
        bool, typer.Option("--check", help="Exit with 1 if the rows contradict the promise.", show_default=False)
    ] = False,
    json: Json = False,
) -> None:
    """Compare sets or intervals with the truth: does the promise hold, coverage and size, by site, class and size."""
    rule = load_predictor(predictor)
    about = rule.certificate
    if about.risk is not None:
        if alpha or cluster or groups or columns != NONE:
            raise InputError(f"{predictor}: limits a loss; give SCORES and TRUTH, and no more than --sites and --risk")
        above = print_risk(rule, probs, labels, sites=sites, risk=risk, json=json)
        raise typer.Exit(int(check and above))
    if risk is not None:
        raise InputError(f"{predictor}: does not limit a loss; leave out --risk")
    of_run = labels is None and columns.label_column is None  # which has no columns
    by = group_columns(groups, None if of_run else rule)
    columns = replace(columns.keeping(*by, column_in(sites), column_in(cluster)), skip_missing=skip_missing)
    rows, owners = read_test_rows(rule, probs, labels, columns, sites)
    if cluster is None:
        warn_of_repeated_ids(rows, "their rows depend on each other, so name their column with --cluster too")
    level = as_alpha(about.alpha if alpha is None else alpha)
    held = {name: values_of(rows, name, "groups") for name in by}
    made = make_answers(rule, rows, level, groups=held, sites=owners)
    clusters = None if cluster is None else values_of(rows, cluster, "clusters", columns)
    compare: Any = evaluate_intervals if about.intervals else evaluate_sets
    given: dict[str, Any] = {"certificate": about, "alpha": level, "sites": owners, "clusters": clusters}
    result = compare(made.values, rows.truth, groups=held, **given)
    below = result.verdict is not None and result.verdict.below
    if json:
        print_json({"alpha": float(level), "skipped": len(rows.skipped), **made.facts, **result.to_dict()})
    else:
        _print(result, made.remark)
        say(f"alpha {float(level):g}: {1 - float(level):.10g} is promised {about.statement.promise}.")
        say(about.statement.caveat)
    raise typer.Exit(int(check and below))


def _print(result: Any, remark: str) -> None:
    """Print the verdict, and the tables over all rows and by site, class, set size and group."""
    if result.verdict is not None:
        say(result.verdict.words, f"This holds if {result.verdict.assumes}.", "")
    table(("", *result.columns), [result.overall.cells])
    parts: dict[str, Any] = {"site": result.by_site}
    if isinstance(result, Evaluation):
        parts |= {"class": result.by_class, "set size": result.by_size}
    for title, found in (*parts.items(), *result.by_group.items()):
        if found:
            say("")
            table((title, *result.columns), [group.cells for group in found])
    say("", result.interval_words)
    if result.reweighted is not None:
        say(result.reweighted.sentence)
    if remark:
        say(f"{remark}.")


def read_test_rows(
    rule: Predictor, path: Path, labels: Path | None, columns: Columns, sites: str | None
) -> tuple[Predictions, Any]:
    """Read rows with their truth, and the site of each: from tables, or from a training run."""
    about = rule.certificate
    if labels is None and columns.label_column is None:
        if sites is not None or columns != NONE:
            raise InputError(f"{'--sites goes' if sites else 'columns go'} with LABELS; a training run has its own")
        run = read_run(path, "test", rule.score, about.provenance.temperature or 1.0)
        return run.rows(None if about.intervals else about.class_names), run.sites
    rows = columns.read_for(rule, path, labels)
    return rows, None if sites is None else values_of(rows, sites, "sites", columns)
