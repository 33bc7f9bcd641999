"""fedconformal report: one page about a predictor, or about a training run that is calibrated on the way."""

from __future__ import annotations

from collections.abc import Iterable
from json import loads as decode
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from numpy.typing import NDArray

from fedconformal._base import registry
from fedconformal._base.arrays import Probabilities, as_alpha
from fedconformal._base.files import read_array, read_bytes, write_bytes
from fedconformal._base.spec import build
from fedconformal.calibration.calibrate import calibrate
from fedconformal.calibration.membership import needed_groups, own_sites
from fedconformal.calibration.predictor import Predictor
from fedconformal.cli.console import logger, print_result
from fedconformal.cli.groups import columns_in, read_groups
from fedconformal.cli.inputs import Json, Source, load_any, load_predictor, read_run
from fedconformal.cli.options import ScoreOption, expand_options
from fedconformal.cli.outputs import Force, check_output
from fedconformal.cli.regression import default_score, make_intervals, read_rows
from fedconformal.cli.regression import is_run as is_numbers
from fedconformal.cli.regression import rows_of_run as numbers_of_run
from fedconformal.cli.risk import evaluated_rule, risk_predictor
from fedconformal.cli.rows import NONE, Columns, Groups, Sites, column_in, file_in, values_of
from fedconformal.cli.sets import rows_of_run
from fedconformal.cli.summarize import Request, summarize_run
from fedconformal.errors import InputError, prefix_errors
from fedconformal.evaluation import evaluate_intervals, evaluate_sets
from fedconformal.losses import SelectiveError
from fedconformal.report import LabelledRows, NumberRows, interval_page, report_page, risk_page
from fedconformal.scores import DEFAULT, AnyScore, RegressionScore, Score
from fedconformal.summaries import Summary
from fedconformal.summaries.summary import digest_of
from fedconformal.tables import Predictions
from fedconformal.training.data.sets.source import Source as Dataset


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
    images: Annotated[Path | None, typer.Option(help="An image a row (.npy .npz), for the examples.")] = None,
    summaries: Annotated[
        list[Path] | None, typer.Option("--summary", help="A .fcs file that was used, to show its bytes; repeatable.")
    ] = None,
    alpha: Annotated[
        str | None, typer.Option(help="For a run: how often the truth may be missed.", show_default="0.1")
    ] = None,
    score: ScoreOption = None,
    answers: Annotated[
        Path | None, typer.Option(metavar="RULE", help="What limits the errors of answers to easy rows (.json).")
    ] = None,
    columns: Columns,
    force: Force = False,
    json: Json = False,
) -> None:
    """Write a page: what is promised, how the sets or intervals do, and what another alpha would give."""
    read = (source, probs, labels, file_in(sites), images, answers, *(summaries or ()))
    check_output(output, *read, ending=".html", force=force)
    is_run = source.is_dir() or source.suffix == ".npz"
    others = bool(alpha or score)
    if not is_run and (rule := risk_predictor(source)) is not None:
        if others or groups or images or answers or columns != NONE:
            raise InputError(f"{source}: is from loss curves; give LOSSES, or SCORES and TRUTH, --sites, --summary")
        _write(output, _of_losses(rule, probs, labels, sites, summaries or ()), json=json)
        return
    named = columns.keeping(*columns_in(groups), column_in(sites))
    _refuse(source, probs, labels, named, others=others, run=is_run, own=bool(sites or summaries))
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
        images,
        answers,
        tuple(summaries or ()),
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
        raise InputError(f"{source}: is a run, which has its own rows, sites and summaries; leave the others out")
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
    images: Path | None
    answers: Path | None
    summaries: tuple[Path, ...]
    alpha: str
    score: str | None


def _of_sets(asked: _Asked) -> str:
    """Write the page about sets, on the rows of a run or of a table, or without rows."""
    path, is_run, probs, labels, columns, sites, groups, images, answers, summaries, alpha, score = asked
    found: Predictions | None = None
    owners: Any = None
    held: dict[str, Any] = {}
    images_of_run: NDArray[Any] | None = None
    if is_run:
        predictor, sent = _calibrated(path, alpha, build(score or DEFAULT, Score))
        names, images_of_run = _of_dataset(path)
        found, owners = rows_of_run(
            path, predictor.certificate.provenance.temperature, predictor.certificate.class_names
        )
    else:
        predictor = load_predictor(path)
        labelled = predictor.certificate.class_names
        names = tuple(labelled) if isinstance(labelled, list) else ()
        sent = dict(_sent(one, predictor) for one in summaries)
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
        shown_images = images_of_run if images is None else read_array(images, "images", "test_images")
        plain: Probabilities | None = None
        if is_run:
            plain = rows_of_run(path, None, None)[0].values
        elif (
            probs
            and columns.content is Source.logits
            and predictor.certificate.provenance.temperature not in (None, 1.0)
        ):
            plain = columns.read(probs, labels, wanted=predictor.certificate.class_names, again=True).values
        about = {"plain": plain, "images": shown_images, "groups": own, "sites": known}
        rows = LabelledRows(probs=found.values, labels=found.labels, **about)
    promised = None if answers is None else _of_answers(answers)
    return report_page(predictor, evaluation, rows=rows, sent=sent, names=names, answers=promised)


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
    if asked.images is not None or asked.answers is not None:
        option = "--images" if asked.images is not None else "--answers"
        raise InputError(f"{option} is for classes, and this is about numbers; leave it out")
    path, columns, sites = asked.path, asked.columns, None
    rule: Any
    if asked.is_run:
        score = default_score(path) if asked.score is None else build(asked.score, RegressionScore)
        rule, sent = _calibrated(path, asked.alpha, score)
        found, sites = numbers_of_run(path, rule.score)
    else:
        rule = load_any(path)
        sent = dict(_sent(one, rule) for one in asked.summaries)
        if asked.probs is None:
            return interval_page(rule, sent=sent)
        columns = columns.keeping(*columns_in(asked.groups), column_in(asked.sites))
        found = read_rows(rule, columns, asked.probs, asked.labels)
        sites = None if asked.sites is None else values_of(found, asked.sites, "sites", columns)
    known = own_sites(rule.certificate, sites)
    ends = make_intervals(rule, found, as_alpha(rule.certificate.alpha), known).intervals
    held = read_groups(found, columns_in(asked.groups))
    evaluation = evaluate_intervals(ends, found.truth, sites=sites, groups=held, certificate=rule.certificate)
    return interval_page(
        rule, evaluation, rows=NumberRows(predictions=found.values, y=found.truth, sites=known), sent=sent
    )


def _of_losses(
    rule: Predictor, losses: Path | None, truth: Path | None, sites: str | None, summaries: Iterable[Path]
) -> str:
    """Write the page about a limit on losses, on test rows or without."""
    checked = None if losses is None else evaluated_rule(rule, losses, truth, sites=sites)
    return risk_page(rule, checked, sent=dict(_sent(path, rule) for path in summaries))


def _of_answers(path: Path) -> Predictor:
    rule = risk_predictor(path)
    if rule is None or not isinstance(rule.loss, SelectiveError):
        raise InputError(f"{path}: --answers takes a predictor that limits a selective error")
    return rule


def _calibrated(path: Path, alpha: str, score: AnyScore) -> tuple[Any, dict[str, int]]:
    """Calibrate a run on its validation rows, and return the bytes of each site's summary."""
    made = list(summarize_run(path, Request(alpha=alpha, score=score)).values())
    return calibrate(made, alpha=alpha), {digest_of(one): len(one.to_bytes()) for one in made}


def _sent(path: Path, predictor: Predictor) -> tuple[str, int]:
    """Return digest and bytes of a summary that the predictor was made from."""
    data = read_bytes(path)
    with prefix_errors(path):
        digest = digest_of(Summary.from_bytes(data))
        if digest not in {record.sha256 for record in predictor.certificate.summaries}:
            raise InputError("is not one of the summaries that this predictor was made from")
    return digest, len(data)


def _of_dataset(run: Path) -> tuple[tuple[str, ...], NDArray[Any] | None]:
    """Return what a run's classes are called and its test images, as far as its data set can be had without asking."""
    try:
        settings = dict(decode(read_bytes(run.parent / "config.json"))["config"])
        source = registry.find(str(settings["dataset"]), Dataset)
    except (InputError, ValueError, KeyError, TypeError, RecursionError):
        return (), None
    labels = read_run(run, "test").labels
    try:
        data = source().load(download=False, progress=None)
        test = data.having(settings["column"]).test if settings.get("column") else data.test
    except InputError as error:
        logger.info("no images are shown: %s", error)
        return source.classes, None
    same = np.array_equal(test.y, labels)
    return data.classes, test.x if same and test.x.ndim == 4 else None
