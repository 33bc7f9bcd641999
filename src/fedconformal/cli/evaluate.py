"""fedconformal evaluate and report: sets, intervals or decisions compared with the truth, as text or as a page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from fedconformal import tables
from fedconformal._base.arrays import as_alpha
from fedconformal._base.files import write_bytes
from fedconformal._base.groups import as_sites
from fedconformal.calibration.predictor import Predictor
from fedconformal.certificates.certificate import threshold_json
from fedconformal.cli.arrays import read_run, read_scores_and_truth
from fedconformal.cli.console import print_json, print_result, say, table
from fedconformal.cli.options import (
    Json,
    OtherAlpha,
    Page,
    PredictorFile,
    check_output,
    expand_options,
    load_predictor,
    warn_of_expiry,
)
from fedconformal.cli.predict import Answers, make_answers
from fedconformal.cli.rows import Columns, PredictorRows, Sites, file_in, warn_of_repeated_ids
from fedconformal.errors import InputError, prefix_errors
from fedconformal.evaluation import Evaluation, evaluate_intervals, evaluate_sets
from fedconformal.evaluation.losses import LossEvaluation
from fedconformal.guarantees import PAC
from fedconformal.report import Study, read_study, report_page

Truth = Annotated[Path | None, typer.Argument(help="Labels, or true numbers.")]


@expand_options
def evaluate(
    predictor: PredictorFile,
    probs: Annotated[Path, typer.Argument(help="Probabilities, predictions or scores; or the .npz of a training run.")],
    truth: Truth = None,
    sites: Sites = None,
    cluster: Annotated[
        str | None, typer.Option(metavar="COLUMN|FILE", help="The cluster of each row, such as its patient.")
    ] = None,
    alpha: OtherAlpha = None,
    *,
    columns: Columns,
    check: Annotated[bool, typer.Option("--check", help="Exit with 1 if the rows contradict the promise.")] = False,
    json: Json = False,
) -> None:
    """Compare sets or intervals with the truth of test rows."""
    rule = load_predictor(predictor)
    about = rule.certificate
    if about.risk is not None:
        if alpha or cluster or columns.given:
            raise InputError(f"{predictor}: limits a loss; leave out --alpha, --cluster and options for columns")
        warn_of_expiry(rule)
        losses = _evaluate_risk(rule, probs, truth, sites)
        # Other guarantees are on average over calibration draws: one calibration may exceed the limit by chance.
        above = isinstance(about.terms()[0], PAC) and losses.judged.low > about.risk.limit
        _print_risk(rule, losses, above=above, json=json)
        raise typer.Exit(int(check and above))
    level = as_alpha(about.alpha if alpha is None else alpha)
    rows = _read(rule, probs, truth, columns, sites, cluster)
    if cluster is None:
        warn_of_repeated_ids(rows.table, "their rows depend on each other, so name their column with --cluster too")
    made = make_answers(rule, rows, level)
    clusters = None if cluster is None else columns.values_of(rows.table, cluster, "clusters")
    result = _compare(rule, made, rows, alpha=level, clusters=clusters)
    if json:
        stated = {"alpha": float(level), "skipped": len(rows.table.skipped), "threshold": made.threshold}
        print_json({**stated, "why_uninformative": made.why, **result.to_dict()})
    else:
        _print(result, made.remark)
        say(f"alpha {float(level):g}: {1 - float(level):.10g} is promised {about.statement.promise}.")
        say(about.statement.caveat)
    raise typer.Exit(int(check and result.verdict is not None and result.verdict.below))


@expand_options
def report(
    predictor: PredictorFile,
    probs: Annotated[
        Path | None, typer.Argument(help="Test rows: probabilities, predictions or scores; or the .npz of a run.")
    ] = None,
    truth: Truth = None,
    *,
    output: Page,
    sites: Sites = None,
    study: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Title, purpose and people of the study (.toml).")
    ] = None,
    columns: Columns,
    json: Json = False,
) -> None:
    """Write a page with the promise and its test on labelled rows."""
    check_output(output, predictor, probs, truth, file_in(sites), study, ending=".html")
    rule = load_predictor(predictor)
    about = rule.certificate
    if probs is None and (columns.given or sites):
        raise InputError("options that name columns go with PROBS; give the table of test rows")
    evaluation = None
    if probs is not None and about.risk is not None:
        if columns.given:
            raise InputError(f"{predictor}: limits a loss; leave out options for columns")
        evaluation = _evaluate_risk(rule, probs, truth, sites)
    elif probs is not None:
        rows = _read(rule, probs, truth, columns, sites)
        evaluation = _compare(rule, make_answers(rule, rows, as_alpha(about.alpha)), rows)
    described = Study() if study is None else read_study(study)
    data = report_page(rule, evaluation, study=described).encode()
    write_bytes(output, data)
    words = f"wrote {output}: {len(data) / 1000:.0f} kB, opens in a browser without a network"
    print_result({"output": output, "bytes": len(data)}, words, json=json)


def _read(
    rule: Predictor, path: Path, labels: Path | None, columns: Columns, sites: str | None, cluster: str | None = None
) -> PredictorRows:
    """Read rows with their truth: from tables, or from a training run, which has its own sites and no columns."""
    if labels is not None or columns.labels is not None:
        return columns.read_for(rule, path, labels, sites=sites, beside=[cluster])
    about = rule.certificate
    if sites is not None or columns.given:
        raise InputError("give LABELS as well, or name their column with --labels; a run has its own sites", where=path)
    run = read_run(path, "test", rule.score, about.provenance.temperature or 1.0)
    return PredictorRows(run.rows(None if about.intervals else about.class_names), sites=run.sites)


def _compare(rule: Predictor, made: Answers, rows: PredictorRows, **more: Any) -> Any:
    about = rule.certificate
    compare: Any = evaluate_intervals if about.intervals else evaluate_sets
    return compare(made.values, rows.table.truth, certificate=about, sites=rows.sites, groups=rows.groups, **more)


def _print(result: Any, remark: str) -> None:
    """Print the verdict, and the tables over all rows and by site, class, set size and group."""
    if result.verdict is not None:
        say(result.verdict.words, f"This holds if {result.verdict.assumes}.", "")
    _print_tables(result, [result.overall])
    say("", result.interval_words)
    if result.reweighted is not None:
        say(result.reweighted.sentence)
    if remark:
        say(f"{remark}.")


def _print_tables(result: Any, rows: Sequence[Any]) -> None:
    """Print a table of these rows, and one of the groups of each kind that there are."""
    table(("", *result.columns), [row.cells for row in rows])
    kinds = {"site": result.by_site}
    if isinstance(result, Evaluation):
        kinds |= {"class": result.by_class, "set size": result.by_size}
    for title, groups in (*kinds.items(), *getattr(result, "by_group", {}).items()):
        if groups:
            say("")
            table((title, *result.columns), [group.cells for group in groups])


def _evaluate_risk(rule: Predictor, scores: Path, truth: Path | None, sites: str | None) -> LossEvaluation:
    """Return the mean loss of new rows at the threshold, over all and by site."""
    found, labels = read_scores_and_truth(scores, truth)
    names = None
    if sites is not None:
        file = file_in(sites) or Path(sites)
        read, named = tables.read_table(file, arrays=("sites",)), file != Path(sites)
        read = read.with_header() if named or read.rows > len(found) else read
        column = sites.rpartition(":")[2] if named else read.columns[0]
        names = as_sites(np.array(read.texts(column)), rows=len(found), name=sites)
    with prefix_errors(f"{scores}, {truth}"):
        result: LossEvaluation = rule.evaluate(found, labels, sites=names)
    return result


def _print_risk(rule: Predictor, found: LossEvaluation, *, above: bool, json: bool) -> None:
    """Print the mean loss of new rows, and whether they contradict the promise."""
    about = rule.certificate
    if json:
        terms = {"risk": rule.risk.limit, "threshold": threshold_json(rule.threshold), "contradicts": above}
        print_json({**terms, **found.to_dict()})
        return
    _print_tables(found, [found.overall, *([] if found.mixture is None else [found.mixture])])
    say("", "low, high: 95% confidence interval of the mean loss, if rows are independent.")
    say(*filter(None, [found.note]), f"threshold {rule.threshold:.6g}. {rule.sentence()}")
    say(*["These rows contradict the promise: the low end is above the limit."] * above, about.statement.caveat)
