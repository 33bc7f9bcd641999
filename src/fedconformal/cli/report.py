"""fedconformal report: one page about a predictor, or about a training run that is calibrated on the way."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from fedconformal._base import registry
from fedconformal._base.arrays import Probabilities
from fedconformal._base.files import naming, read_array, read_bytes, write_bytes
from fedconformal.calibration.calibrate import calibrate
from fedconformal.calibration.membership import needed_of
from fedconformal.calibration.predictor import Predictor
from fedconformal.cli.console import logger, say
from fedconformal.cli.groups import columns_in, read_groups
from fedconformal.cli.inputs import Source, load_predictor, read_run
from fedconformal.cli.options import SCORES, taking
from fedconformal.cli.outputs import Force, check_output
from fedconformal.cli.rows import NONE, Clients, Columns, Groups, column_in, file_in, values_of
from fedconformal.cli.sets import rows_of_run
from fedconformal.cli.summarize import summarize_run
from fedconformal.data.sets.source import Source as Dataset
from fedconformal.errors import InputError
from fedconformal.evaluation import evaluate_sets
from fedconformal.report import Rows, report_page
from fedconformal.scores import DEFAULT, Score
from fedconformal.summaries import Summary
from fedconformal.tables import Predictions


@taking(SCORES)
def report(
    source: Annotated[Path, typer.Argument(metavar="RUN|PREDICTOR", help="A run's directory, or a predictor (.json).")],
    probs: Annotated[Path | None, typer.Argument(help="Test rows' probabilities; with a predictor.")] = None,
    labels: Annotated[Path | None, typer.Argument(help="Their labels.")] = None,
    *,
    output: Annotated[Path, typer.Option("-o", "--output", help="Where to write the page (.html).")],
    clients: Clients = None,
    groups: Groups = None,
    images: Annotated[Path | None, typer.Option(help="An image a row (.npy .npz), for the examples.")] = None,
    summaries: Annotated[
        list[Path] | None, typer.Option("--summary", help="A .fcs file that was used, to show its bytes; repeatable.")
    ] = None,
    alpha: Annotated[str | None, typer.Option(help="A run: how often to miss.", show_default="0.1")] = None,
    score: Annotated[str | None, typer.Option(help="A run: how rows are scored:", show_default=DEFAULT.name)] = None,
    columns: Columns,
    force: Force = False,
    **given: Any,
) -> None:
    """Write a page: what is promised, how the sets do, and what another alpha would give."""
    check_output(
        output, source, probs, labels, file_in(clients), images, *(summaries or ()), ending=".html", force=force
    )
    is_run = source.is_dir() or source.suffix == ".npz"
    if is_run and (probs or labels or clients or summaries):
        raise InputError(f"{source}: is a run, which has its own rows, sites and summaries; leave the others out")
    if not is_run and (alpha or score or SCORES.typed(given)):
        raise InputError("--alpha and --score are for a run; a predictor has its own")
    if (probs is None) != (labels is None and columns.label_column is None):
        raise InputError("PROBS and LABELS go together; give both or neither")
    if probs is None and columns.keeping(*columns_in(groups), column_in(clients)) != NONE:
        raise InputError("options that name columns go with PROBS; give the table of test rows")
    found: Predictions | None = None
    sites: Any = None
    held: dict[str, Any] = {}
    images_of_run: NDArray[Any] | None = None
    path = source / "logits.npz" if source.is_dir() else source
    if is_run:
        check_output(output, path)
        predictor, sent = _calibrated(path, alpha or "0.1", SCORES.chosen(score or DEFAULT.name, given))
        names, images_of_run = _of_dataset(path)
        found, sites = rows_of_run(path, predictor.certificate.temperature, predictor.certificate.labels)
    else:
        predictor = load_predictor(source)
        labelled = predictor.certificate.labels
        names = tuple(labelled) if isinstance(labelled, list) else ()
        sent = dict(_sent(path, predictor) for path in summaries or ())
        if probs is not None:
            by = columns_in(groups, predictor)
            columns = columns.keeping(*by, column_in(clients))
            found = columns.read_for(predictor, probs, labels)
            held = read_groups(found, by)
            sites = None if clients is None else values_of(found, clients, "clients", columns)
    evaluation = rows = None
    if found is not None and found.labels is not None:
        own = needed_of(predictor.certificate, held)
        with found.table.in_lines():
            sets = predictor.predict_set(found.values, groups=own)
        evaluation = evaluate_sets(
            sets,
            found.truth,
            clients=sites,
            groups=held,
            certificate=predictor.certificate,
        )
        shown_images = images_of_run if images is None else read_array(images, "images", "test_images")
        plain: Probabilities | None = None
        if is_run:
            plain = rows_of_run(path, None, None)[0].values
        elif probs and columns.content is Source.logits and predictor.certificate.temperature not in (None, 1.0):
            plain = columns.read(probs, labels, wanted=predictor.certificate.labels, again=True).values
        rows = Rows(probs=found.values, labels=found.labels, plain=plain, images=shown_images, groups=own)
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
