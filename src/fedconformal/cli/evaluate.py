"""fedconformal evaluate: coverage and size of sets or intervals on rows with known labels or numbers."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import typer

from fedconformal._base.arrays import as_alpha
from fedconformal.calibration.membership import needed_groups, own_sites
from fedconformal.calibration.predictor import Predictor
from fedconformal.certificates.certificate import threshold_json
from fedconformal.certificates.text import full_set_count
from fedconformal.cli.console import print_json, say, table
from fedconformal.cli.groups import columns_in, read_groups
from fedconformal.cli.inputs import AllowEmpty, Json, load_any
from fedconformal.cli.options import expand_options
from fedconformal.cli.regression import make_intervals, read_rows, threshold_of
from fedconformal.cli.regression import rows_of_run as numbers_of_run
from fedconformal.cli.risk import Risk, evaluate_losses_of
from fedconformal.cli.rows import NONE, Columns, Groups, Sites, column_in, values_of, warn_of_repeated_ids
from fedconformal.cli.sets import Cluster, make_sets, rows_of_run
from fedconformal.errors import InputError
from fedconformal.evaluation import Evaluation, IntervalEvaluation, evaluate_intervals, evaluate_sets
from fedconformal.evaluation.regression import infinite_words
from fedconformal.tables import Predictions


@expand_options
def evaluate(
    predictor: Annotated[Path, typer.Argument(help="The predictor (.json).")],
    probs: Annotated[
        Path,
        typer.Argument(
            help="Probabilities, or predictions (.csv .tsv .txt .parquet .npy .npz); or the logits.npz or "
            "predictions.npz of a training run."
        ),
    ],
    labels: Annotated[
        Path | None, typer.Argument(help="Labels, or true numbers; not with --labels or a training run.")
    ] = None,
    sites: Sites = None,
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
    """Compare sets or intervals with the truth: does the promise hold, coverage and size, by site, class and size."""
    plain = alpha is None and not (cluster or groups or allow_empty)
    evaluate_losses_of(predictor, probs, labels, sites=sites, risk=risk, plain=plain, check=check, json=json)
    rule = load_any(predictor)
    about = rule.certificate
    of_run = labels is None and columns.label_column is None  # which has no columns
    by = columns_in(groups, None if of_run else rule)
    columns = columns.keeping(*by, column_in(sites), column_in(cluster))
    rows, owners = _rows(rule, probs, labels, columns, sites)
    if cluster is None:
        warn_of_repeated_ids(rows, "their rows depend on each other, so name their column with --cluster too")
    wanted = as_alpha(about.alpha if alpha is None else alpha)
    result, stated, words = _evaluated(
        rule,
        rows,
        wanted,
        allow_empty=allow_empty,
        sites=owners,
        clusters=None if cluster is None else values_of(rows, cluster, "clusters", columns),
        groups=read_groups(rows, by),
    )
    below = result.verdict is not None and result.verdict.below
    if json:
        print_json({"alpha": float(wanted), **stated})
        raise typer.Exit(int(check and below))
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
    say("")
    say(result.interval_words)
    if result.reweighted is not None:
        say(result.reweighted.sentence)
    say(*words)
    say(f"alpha {float(wanted):g}: {1 - float(wanted):.10g} is promised {about.statement.promise}.")
    say(about.statement.caveat)
    raise typer.Exit(int(check and below))


def _rows(
    rule: Predictor, path: Path, labels: Path | None, columns: Columns, sites: str | None
) -> tuple[Predictions, Any]:
    """Read the rows, and the site of each: from tables, or from a training run."""
    numbers = rule if rule.certificate.intervals else None
    if labels is None and columns.label_column is None:
        if sites is not None or columns != NONE:
            raise InputError(f"{'--sites goes' if sites else 'columns go'} with LABELS; a training run has its own")
        if numbers is not None:
            return numbers_of_run(path, numbers.score)
        return rows_of_run(path, rule.certificate.provenance.temperature, rule.certificate.class_names)
    rows = read_rows(rule, columns, path, labels)
    return rows, None if sites is None else values_of(rows, sites, "sites", columns)


def _evaluated(
    rule: Predictor, rows: Predictions, alpha: Fraction, *, allow_empty: bool, **about: Any
) -> tuple[Evaluation | IntervalEvaluation, dict[str, Any], list[str]]:
    """Return the evaluation, all of it for JSON, and what is to be said of sets and intervals that say nothing."""
    about |= {"certificate": rule.certificate, "alpha": alpha}
    if rule.certificate.intervals:
        if allow_empty:
            raise InputError("--allow-empty is for sets, and this predictor gives intervals; leave it out")
        ends = make_intervals(rule, rows, alpha, own_sites(rule.certificate, about["sites"]))
        found = evaluate_intervals(ends.intervals, rows.truth, **about)
        stated = {**threshold_of(rule, alpha), **found.to_dict(), "why_infinite": ends.why}
        return found, stated, [f"{infinite_words(ends.infinite, len(ends.intervals))}."] * bool(ends.infinite)
    groups, sites = needed_groups(rule.certificate, about["groups"]), own_sites(rule.certificate, about["sites"])
    made = make_sets(rule, rows, alpha, allow_empty=allow_empty, groups=groups, sites=sites)
    result = evaluate_sets(made.sets, rows.truth, **about)
    stated = {"threshold": threshold_json(made.threshold), **result.to_dict(), "why_full": made.why}
    return result, stated, [f"{full_set_count(made.full, len(made.sets))}."] * bool(made.full)
