"""fedconformal report: one page about a predictor, or about a training run that is calibrated on the way."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from fedconformal._base.arrays import as_alpha
from fedconformal._base.files import write_bytes
from fedconformal._base.spec import build
from fedconformal.calibration.calibrate import calibrate
from fedconformal.calibration.membership import needed_groups, own_sites
from fedconformal.calibration.predictor import Predictor
from fedconformal.cli.answers import make_answers
from fedconformal.cli.console import print_result
from fedconformal.cli.evaluate import read_test_rows
from fedconformal.cli.losses import evaluate_risk
from fedconformal.cli.options import Json, ScoreOption, expand_options, load_predictor
from fedconformal.cli.outputs import Force, check_output
from fedconformal.cli.rows import NONE, Columns, Groups, Sites, column_in, file_in, group_columns, values_of
from fedconformal.cli.runs import default_score
from fedconformal.cli.summarize import Request, summarize_run
from fedconformal.errors import InputError
from fedconformal.evaluation import evaluate_intervals, evaluate_sets
from fedconformal.report import CheckedRows, Study, read_study, report_page
from fedconformal.scores import AnyScore


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
    study: Annotated[
        Path | None, typer.Option("--study", metavar="FILE", help="Title, purpose and people of the study (.toml).")
    ] = None,
    title: Annotated[str | None, typer.Option(help="The title of the page.")] = None,
    columns: Columns,
    force: Force = False,
    json: Json = False,
) -> None:
    """Write a page: what is promised, how the sets or intervals do, and what another alpha would give."""
    check_output(output, source, probs, labels, file_in(sites), study, ending=".html", force=force)
    if source.is_dir() or source.suffix == ".npz":
        if probs or labels or sites or groups or columns != NONE:
            raise InputError(f"{source}: is a run, which has its own rows and sites; leave the others out")
        probs = _file_of(source)
        check_output(output, probs)
        given = default_score(probs) if score is None else build(score, AnyScore)
        made = list(summarize_run(probs, Request(alpha=alpha or "0.1", score=given)).values())
        rule = calibrate(made, alpha=alpha or "0.1")
    else:
        if alpha or score:
            raise InputError("--alpha and --score are for a run; a predictor has its own")
        rule = load_predictor(source)
        if (probs is None) != (labels is None and columns.label_column is None):
            raise InputError("PROBS and LABELS go together; give both, or name the column with --labels, or neither")
        if probs is None and (columns != NONE or groups or sites):
            raise InputError("options that name columns go with PROBS; give the table of test rows")
    evaluation = rows = None
    if rule.certificate.risk is not None:
        if groups or columns != NONE:
            raise InputError(f"{source}: limits a loss; give SCORES and TRUTH, and --sites")
        evaluation = None if probs is None else evaluate_risk(rule, probs, labels, sites=sites)
    elif probs is not None:
        evaluation, rows = _checked(rule, probs, labels, columns, groups, sites)
    about = Study() if study is None else read_study(study)
    about = about if title is None else msgspec.structs.replace(about, title=title)
    data = report_page(rule, evaluation, rows=rows, study=about).encode()
    write_bytes(output, data)
    words = f"wrote {output}: {len(data) / 1000:.0f} kB, opens in a browser without a network"
    print_result({"output": str(output), "bytes": len(data)}, words, json=json)


def _checked(
    rule: Predictor, probs: Path, labels: Path | None, columns: Columns, groups: str | None, sites: str | None
) -> tuple[Any, CheckedRows]:
    """Compare the answers to test rows with the truth."""
    about = rule.certificate
    of_run = labels is None and columns.label_column is None  # which has no columns
    by = group_columns(groups, None if of_run else rule)
    found, owners = read_test_rows(rule, probs, labels, columns.keeping(*by, column_in(sites)), sites)
    held = {name: values_of(found, name, "groups") for name in by}
    made = make_answers(rule, found, as_alpha(about.alpha), groups=held, sites=owners)
    compare: Any = evaluate_intervals if about.intervals else evaluate_sets
    evaluation = compare(made.values, found.truth, sites=owners, groups=held, certificate=about)
    truth: Any = found.truth if about.intervals else found.labels
    own = {"groups": needed_groups(about, held), "sites": own_sites(about, owners)}
    return evaluation, CheckedRows(outputs=found.values, truth=truth, **own)


def _file_of(source: Path) -> Path:
    """Return the file with a run's outputs, or the file itself."""
    if not source.is_dir():
        return source
    numbers = source / "predictions.npz"
    return numbers if numbers.exists() else source / "logits.npz"
