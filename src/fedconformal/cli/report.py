"""fedconformal report: one page about a predictor, or about a training run that is calibrated on the way."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from fedconformal._base.arrays import as_alpha
from fedconformal._base.files import write_bytes
from fedconformal._base.spec import build
from fedconformal.calibration.calibrate import calibrate
from fedconformal.calibration.membership import needed_groups, own_sites
from fedconformal.calibration.predictor import Predictor
from fedconformal.cli.console import print_result
from fedconformal.cli.groups import columns_in, read_groups
from fedconformal.cli.inputs import Json, load_any, load_predictor
from fedconformal.cli.options import ScoreOption, expand_options
from fedconformal.cli.outputs import Force, check_output
from fedconformal.cli.regression import default_score, make_intervals, read_rows
from fedconformal.cli.regression import is_run as is_numbers
from fedconformal.cli.regression import rows_of_run as numbers_of_run
from fedconformal.cli.risk import evaluated_rule, risk_predictor
from fedconformal.cli.rows import NONE, Columns, Groups, Sites, column_in, file_in, values_of
from fedconformal.cli.sets import rows_of_run
from fedconformal.cli.summarize import Request, summarize_run
from fedconformal.errors import InputError
from fedconformal.evaluation import evaluate_intervals, evaluate_sets
from fedconformal.report import CheckedRows, report_page
from fedconformal.scores import DEFAULT, AnyScore, RegressionScore, Score
from fedconformal.tables import Predictions


@expand_options
def report(
    source: Annotated[Path, typer.Argument(metavar="RUN|PREDICTOR", help="A run's directory, or a predictor (.json).")],
    probs: Annotated[
        Path | None, typer.Argument(help="Test rows' probabilities, or predictions; with a predictor.")
    ] = None,
    labels: Annotated[Path | None, typer.Argument(help="Their labels, or true numbers.")] = None,
    *,
    output: Annotated[Path, typer.Option("-o", "--output", help="Where to write the page (.html).")],
    sites: Sites = None,
    groups: Groups = None,
    alpha: Annotated[
        str | None, typer.Option(help="For a run: how often the truth may be missed.", show_default="0.1")
    ] = None,
    score: ScoreOption = None,
    columns: Columns,
    force: Force = False,
    json: Json = False,
) -> None:
    """Write a page: what is promised, how the sets or intervals do, and what another alpha would give."""
    read = (source, probs, labels, file_in(sites))
    check_output(output, *read, ending=".html", force=force)
    is_run = source.is_dir() or source.suffix == ".npz"
    others = bool(alpha or score)
    if not is_run and (rule := risk_predictor(source)) is not None:
        if others or groups or columns != NONE:
            raise InputError(f"{source}: is from loss curves; give LOSSES, or SCORES and TRUTH, --sites")
        _write(output, _of_losses(rule, probs, labels, sites), json=json)
        return
    named = columns.keeping(*columns_in(groups), column_in(sites))
    _refuse(source, probs, labels, named, others=others, run=is_run, own=bool(sites))
    path = _file_of(source)
    if is_run:
        check_output(output, path)
    asked = _Asked(
        path,
        is_run,
        probs,
        labels,
        columns,
        sites,
        groups,
        alpha or "0.1",
        score,
    )
    numbers = is_numbers(path) if is_run else load_any(source).certificate.intervals
    _write(output, _of_intervals(asked) if numbers else _of_sets(asked), json=json)


def _refuse(
    source: Path, probs: Path | None, labels: Path | None, named: Columns, *, others: bool, run: bool, own: bool
) -> None:
    """Refuse what does not go together."""
    if run and (probs or labels or own):
        raise InputError(f"{source}: is a run, which has its own rows and sites; leave the others out")
    if not run and others:
        raise InputError("--alpha and --score are for a run; a predictor has its own")
    if (probs is None) != (labels is None and named.label_column is None):
        raise InputError("PROBS and LABELS go together; give both, or name the column with --labels, or neither")
    if probs is None and named != NONE:
        raise InputError("options that name columns go with PROBS; give the table of test rows")


class _Asked(NamedTuple):
    """What a page is asked about: a run's file or a predictor, and rows to check it on."""

    path: Path
    is_run: bool
    probs: Path | None
    labels: Path | None
    columns: Columns
    sites: str | None
    groups: str | None
    alpha: str
    score: str | None


def _of_sets(asked: _Asked) -> str:
    """Write the page about sets, on the rows of a run or of a table, or without rows."""
    path, is_run, probs, labels, columns, sites, groups, alpha, score = asked
    found: Predictions | None = None
    owners: Any = None
    held: dict[str, Any] = {}
    if is_run:
        predictor = _calibrated(path, alpha, build(score or DEFAULT, Score))
        found, owners = rows_of_run(
            path, predictor.certificate.provenance.temperature, predictor.certificate.class_names
        )
    else:
        predictor = load_predictor(path)
        if probs is not None:
            by = columns_in(groups, predictor)
            columns = columns.keeping(*by, column_in(sites))
            found = columns.read_for(predictor, probs, labels)
            held = read_groups(found, by)
            owners = None if sites is None else values_of(found, sites, "sites", columns)
    evaluation = rows = None
    if found is not None and found.labels is not None:
        own, known = needed_groups(predictor.certificate, held), own_sites(predictor.certificate, owners)
        with found.table.in_lines():
            sets = predictor.predict_set(found.values, groups=own, sites=known)
        evaluation = evaluate_sets(
            sets,
            found.truth,
            sites=owners,
            groups=held,
            certificate=predictor.certificate,
        )
        rows = CheckedRows(outputs=found.values, truth=found.labels, groups=own, sites=known)
    return report_page(predictor, evaluation, rows=rows)


def _write(output: Path, page: str, *, json: bool) -> None:
    data = page.encode()
    write_bytes(output, data)
    words = f"wrote {output}: {len(data) / 1000:.0f} kB, opens in a browser without a network"
    print_result({"output": str(output), "bytes": len(data)}, words, json=json)


def _file_of(source: Path) -> Path:
    """Return the file with a run's outputs, or the file itself."""
    if not source.is_dir():
        return source
    numbers = source / "predictions.npz"
    return numbers if numbers.exists() else source / "logits.npz"


def _of_intervals(asked: _Asked) -> str:
    """Write the page about intervals, on the rows of a run or of a table, or without rows."""
    path, columns, sites = asked.path, asked.columns, None
    rule: Any
    if asked.is_run:
        score = default_score(path) if asked.score is None else build(asked.score, RegressionScore)
        rule = _calibrated(path, asked.alpha, score)
        found, sites = numbers_of_run(path, rule.score)
    else:
        rule = load_any(path)
        if asked.probs is None:
            return report_page(rule)
        columns = columns.keeping(*columns_in(asked.groups), column_in(asked.sites))
        found = read_rows(rule, columns, asked.probs, asked.labels)
        sites = None if asked.sites is None else values_of(found, asked.sites, "sites", columns)
    known = own_sites(rule.certificate, sites)
    ends = make_intervals(rule, found, as_alpha(rule.certificate.alpha), known).intervals
    held = read_groups(found, columns_in(asked.groups))
    evaluation = evaluate_intervals(ends, found.truth, sites=sites, groups=held, certificate=rule.certificate)
    rows = CheckedRows(outputs=found.values, truth=found.truth, sites=known)
    return report_page(rule, evaluation, rows=rows)


def _of_losses(rule: Predictor, losses: Path | None, truth: Path | None, sites: str | None) -> str:
    """Write the page about a limit on losses, on test rows or without."""
    checked = None if losses is None else evaluated_rule(rule, losses, truth, sites=sites)
    return report_page(rule, checked)


def _calibrated(path: Path, alpha: str, score: AnyScore) -> Any:
    """Calibrate a run on its validation rows."""
    return calibrate(list(summarize_run(path, Request(alpha=alpha, score=score)).values()), alpha=alpha)
