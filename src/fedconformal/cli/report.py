"""fedconformal report: one page about a predictor, or about a training run that is calibrated on the way."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from fedconformal._base import registry
from fedconformal._base.arrays import Probabilities, as_labels
from fedconformal._base.files import naming, read_array, read_bytes, write_bytes
from fedconformal.calibration.calibrate import calibrate
from fedconformal.calibration.predictor import Predictor, load
from fedconformal.cli.console import logger, say
from fedconformal.cli.inputs import (
    From,
    Source,
    check_output,
    from_logits,
    read_clients,
    read_labels,
    read_probabilities,
    read_run,
    warn_of_use,
)
from fedconformal.cli.options import SCORES, taking
from fedconformal.cli.sets import named_sites
from fedconformal.cli.summarize import summarize_run
from fedconformal.data.sets.source import Source as Dataset
from fedconformal.errors import InputError
from fedconformal.evaluation import evaluate_sets
from fedconformal.report import Rows, report_page
from fedconformal.scores import DEFAULT, Score
from fedconformal.summaries import Summary


@taking(SCORES)
def report(
    source: Annotated[Path, typer.Argument(metavar="RUN|PREDICTOR", help="A run's directory, or a predictor (.json).")],
    probs: Annotated[Path | None, typer.Argument(help="Test rows' probabilities; with a predictor.")] = None,
    labels: Annotated[Path | None, typer.Argument(help="Their labels.")] = None,
    *,
    output: Annotated[Path, typer.Option("-o", "--output", help="Where to write the page (.html).")],
    clients: Annotated[Path | None, typer.Option(help="Which site each row is from.")] = None,
    images: Annotated[Path | None, typer.Option(help="An image a row (.npy .npz), for the examples.")] = None,
    summaries: Annotated[
        list[Path] | None, typer.Option("--summary", help="A .fcs file that was used, to show its bytes; repeatable.")
    ] = None,
    alpha: Annotated[str | None, typer.Option(help="A run: how often to miss.", show_default="0.1")] = None,
    score: Annotated[str | None, typer.Option(help="A run: how rows are scored:", show_default=DEFAULT.name)] = None,
    kept: From = Source.probs,
    **given: Any,
) -> None:
    """Write a page: what is promised, how the sets do, and what another alpha would give."""
    check_output(output, source, probs, labels, clients, images, *(summaries or ()), ending=".html")
    is_run = source.is_dir() or source.suffix == ".npz"
    if is_run and (probs or labels or clients or summaries):
        raise InputError(f"{source}: is a run, which has its own rows, sites and summaries; leave the others out")
    if not is_run and (alpha or score or SCORES.typed(given)):
        raise InputError("--alpha and --score are for a run; a predictor has its own")
    if (probs is None) != (labels is None):
        raise InputError("PROBS and LABELS go together; give both or neither")
    if is_run:
        path = source / "logits.npz" if source.is_dir() else source
        check_output(output, path)
        predictor, sent = _calibrated(path, alpha or "0.1", SCORES.chosen(score or DEFAULT.name, given))
        names, kept_images = _of_dataset(path)
        rows, ids = _test_rows(path, predictor, _given_images(images) if images else kept_images)
    else:
        predictor, rows, ids, names = load(source), None, None, ()
        sent = dict(_sent(path, predictor) for path in summaries or ())
        if probs is not None and labels is not None:
            warn_of_use(predictor, kept)
            rows = _given_rows(probs, labels, kept, predictor, _given_images(images))
            if clients is not None:
                ids = read_clients(clients, len(rows.labels))
    evaluation = None
    if rows is not None:
        if not len(rows.labels):
            raise InputError(f"{probs or source}: is empty; there is nothing to report")
        sets = predictor.predict_set(rows.probs)
        evaluation = evaluate_sets(sets, rows.labels, clients=ids, certificate=predictor.certificate)
    page = report_page(predictor, evaluation, rows=rows, sent=sent, names=names).encode()
    write_bytes(output, page)
    say(f"wrote {output}: {len(page) / 1000:.0f} kB, opens in a browser without a network")


def _calibrated(path: Path, alpha: str, score: Score) -> tuple[Predictor, dict[str, int]]:
    """Calibrate a run on its validation rows, and return the bytes of each site's summary."""
    made = list(summarize_run(path, None, {"alpha": alpha, "score": score}).values())
    return Predictor.of(calibrate(made, alpha=alpha)), {one.digest(): len(one.to_bytes()) for one in made}


def _sent(path: Path, predictor: Predictor) -> tuple[str, int]:
    """Return digest and bytes of a summary that the predictor was made from."""
    data = read_bytes(path)
    with naming(path):
        digest = Summary.from_bytes(data).digest()
        if digest not in {record.sha256 for record in predictor.certificate.summaries}:
            raise InputError("is not one of the summaries that this predictor was made from")
    return digest, len(data)


def _test_rows(path: Path, predictor: Predictor, images: NDArray[Any] | None) -> tuple[Rows, NDArray[Any]]:
    run = read_run(path, "test")
    found = from_logits(run[0], str(path), predictor.certificate.temperature)
    plain = from_logits(run[0], str(path), None)
    truth = as_labels(run[1], rows=len(found), classes=found.shape[1], name=f"{path}: test_labels")
    return Rows(probs=found, labels=truth, plain=plain, images=images), named_sites(run[2])


def _given_rows(probs: Path, labels: Path, source: Source, predictor: Predictor, images: NDArray[Any] | None) -> Rows:
    temperature = predictor.certificate.temperature
    found = read_probabilities(probs, source, temperature)
    plain: Probabilities | None = None
    if source is Source.logits and temperature not in (None, 1.0):
        plain = read_probabilities(probs, source, None)
    return Rows(probs=found, labels=read_labels(labels, found), plain=plain, images=images)


def _given_images(given: Path | None) -> NDArray[Any] | None:
    return None if given is None else read_array(given, "images", "test_images")


def _of_dataset(run: Path) -> tuple[tuple[str, ...], NDArray[Any] | None]:
    """Return what a run's classes are called and its test images, as far as its data set can be had without asking."""
    try:
        settings = dict(json.loads(read_bytes(run.parent / "config.json"))["config"])
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
