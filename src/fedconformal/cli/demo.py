"""fedconformal demo: the whole job on handwritten digits, four ways to train compared, at ten one-class sites.

It ends with four weeks of new images, drawn with replacement from a site's own test rows; one site has a scanner that
gets noisy, and a page shows when it was noticed.
"""

from __future__ import annotations

import contextlib
import csv
import importlib.util
import io
import shlex
from collections.abc import Container, Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from numpy.typing import NDArray

from fedconformal._base.arrays import Integers, as_alpha
from fedconformal._base.files import read_npz
from fedconformal.calibration.predictor import load
from fedconformal.cli.console import say, table
from fedconformal.cli.page import write_page
from fedconformal.cli.runs import read_run
from fedconformal.errors import InputError
from fedconformal.evaluation import Evaluation

SITES = 10
EPOCHS = ("--set", "epochs=3")
METHODS = {
    "central": EPOCHS,
    "fedavg": EPOCHS,
    "fedprox": (*EPOCHS, "--set", "mu=1.0"),
    "tct": (*EPOCHS, "--set", "linear_rounds=5", "--set", "coordinates=2000"),
}
SHOWN = "tct"
"""Every command is shown for this method, and the report is about it."""
FIRST = date(2026, 3, 2)
DAYS, A_DAY = 28, 10
"""Days that are watched, and images a day at each site."""
SEED = 1
"""Of all that is drawn here, so that every demo shows the same."""
NOISY, SITE, NOISE = 4, 3, 0.7
"""The first day with noise, the site, and how large it is next to the range of a pixel."""


class Files(NamedTuple):
    """What a site has: rows from before, to compare scores with; rows that were answered, and what came true."""

    before: Path
    answered: Path
    outcomes: Path


def demo(
    output: Annotated[Path, typer.Option("-o", "--output", help="Where to put everything.")] = Path(
        "fedconformal-demo"
    ),
    alpha: Annotated[str, typer.Option(help="How often the truth may be missed.")] = "0.1",
) -> None:
    """Train on digits at ten one-class sites in four ways, calibrate each by files, compare, and watch one drift."""
    if not all(importlib.util.find_spec(name) for name in ("torch", "sklearn")):
        raise InputError("the demo needs torch and scikit-learn: pip install 'fedconformal[demo]'")
    as_alpha(alpha)
    if output.exists() and not output.is_dir():
        raise InputError(f"{output}: is a file; name a directory with -o")
    say("Handwritten digits; site k holds only images of the digit k. Training, in four ways:", "")
    for method, more in METHODS.items():
        _run("train", "--dataset", "digits", "--method", method, *more, "--resume", "-o", str(output / method))
    say("Every site scores its own calibration rows and sends one small file:", "")
    found = {method: _calibrated(output, method, alpha) for method in METHODS}
    report = output / "report.html"
    _run("report", str(output / SHOWN), "--alpha", alpha, "-o", str(report))
    chance = f"{1 - float(alpha):g}"
    say(f"Sets that hold the true digit with probability {chance}, whichever way the model was trained:", "")
    table(
        ("training", "accuracy", "coverage", "labels a set"),
        [
            (method, f"{accuracy:.3f}", f"{result.overall.coverage:.3f}", f"{result.overall.mean_size:.2f}")
            for method, (accuracy, result) in found.items()
        ],
    )
    watched, page = _watched(output), output / "summarize.html"
    write_page(page)
    say(
        "",
        f"The report is {report}",
        f"The page that shows when the noisy scanner was noticed is {watched}",
        f"The page for a site that installs nothing is {page}",
    )


def _watched(output: Path) -> Path:
    """Watch four weeks of new images at every site, one of which drifts; return the page over all sites."""
    say(
        "",
        f"Four weeks of new images, {A_DAY} a day at each site; from day {NOISY} site-{SITE} has a noisy scanner:",
        "",
    )
    folder, run, rule = output / "watch", output / SHOWN, str(output / "predictor.json")
    logits, messages = ("--from", "logits"), []
    for site, files in enumerate(write_stream(run, folder, sites=SITES)):
        name, shown, watch = f"site-{site}", site == SITE, folder / f"site-{site}.db"
        for path in folder.glob(f"{watch.name}*"):  # of an earlier demo
            path.unlink()
        own = ("--site", name, "--summary", f"{run}/sites/{name}.fcs")
        rows = ("--calibration", str(files.before), "--labels", "label", *logits)
        _run("monitor", "start", str(watch), rule, *own, *rows, show=shown)
        _run("monitor", "add", str(watch), str(files.answered), str(files.outcomes), *logits, show=shown)
        if shown:
            _run("monitor", "status", str(watch), answers=(0, 1))
        messages.append(f"{folder}/{name}.fcw")
        _run("monitor", "send", str(watch), "-o", messages[-1], show=shown)
    page = output / "watch.html"
    _run("monitor", "combine", *messages, "-o", str(page), answers=(0, 1))
    return page


def _calibrated(output: Path, method: str, alpha: str) -> tuple[float, Evaluation]:
    """Calibrate what a method has trained; return accuracy and how the sets do."""
    run, shown = output / method, method == SHOWN
    logits, sites, predictor = f"{run}/logits.npz", run / "sites", f"{output if shown else run}/predictor.json"
    _run("summarize", logits, "--alpha", alpha, "-o", str(sites), show=shown)
    summaries = [str(sites / f"site-{k}.fcs") for k in range(SITES)]
    _run("calibrate", *summaries, "--alpha", alpha, "-o", predictor, show=shown)
    if shown:
        np.save(output / "test_logits.npy", read_npz(Path(logits))["test_logits"])
        _run("verify", predictor, *summaries)
        _run("predict", predictor, f"{output}/test_logits.npy", "--from", "logits", "-o", f"{output}/sets.csv")
        _run("evaluate", predictor, logits)
    rule = load(predictor)
    test = read_run(Path(logits), "test", rule.score, rule.certificate.provenance.temperature)
    accuracy = float(np.mean(test.outputs.argmax(axis=1) == test.truth))
    return accuracy, rule.evaluate(test.outputs, test.truth, sites=test.sites)


def _run(*arguments: str, show: bool = True, answers: Container[int] = (0,)) -> None:
    from fedconformal.cli.app import run

    shown = " ".join(_shortened(arguments))
    with contextlib.nullcontext() if show else contextlib.redirect_stdout(io.StringIO()):
        say(f"$ fedconformal {shown}")
        if (code := run(arguments if show else ("--quiet", *arguments))) not in answers:
            raise typer.Exit(code)  # it has said why
        say("")


def _shortened(arguments: tuple[str, ...]) -> list[str]:
    files = [a for a in arguments if a.endswith((".fcs", ".fcw"))]
    if len(files) < SITES:
        return [shlex.quote(a) for a in arguments]
    at, pattern = arguments.index(files[0]), f"{Path(files[0]).parent}/site-*{Path(files[0]).suffix}"
    return [*map(shlex.quote, arguments[:at]), pattern, *map(shlex.quote, arguments[at + len(files) :])]


def write_stream(run: Path, folder: Path, sites: int) -> list[Files]:
    """Write the files of every site; the same at every call."""
    from fedconformal.training.data import Rows
    from fedconformal.training.outputs import answer
    from fedconformal.training.run import reload

    arrays = read_npz(run / "logits.npz")
    days = np.repeat(np.arange(DAYS), A_DAY)
    folder.mkdir(exist_ok=True)
    found = []
    for site in range(sites):
        rng = np.random.default_rng([SEED, site])
        mine = np.flatnonzero(arrays["test_clients"] == site)
        drawn = rng.choice(mine, len(days))
        logits, labels = arrays["test_logits"][drawn], arrays["test_labels"][drawn]
        if site == SITE:
            model, dataset, _, preprocess = reload(run)
            late = days + 1 >= NOISY
            images = dataset.test.x[drawn[late]]
            scanned = np.clip(images + 255 * NOISE * rng.normal(size=images.shape), 0, 255).astype(np.uint8)
            rows = Rows(x=scanned, y=labels[late])
            logits[late] = answer(model, rows, np.full(len(rows), site), preprocess).logits
        files = Files(*(folder / f"site-{site}-{name}.csv" for name in Files._fields))
        ids = [f"{site}-{k}" for k in range(len(days))]
        times = [(FIRST + timedelta(days=int(day))).isoformat() for day in days]
        _write(files.before, arrays["test_logits"][mine], label=arrays["test_labels"][mine])
        _write(files.answered, logits, id=ids, time=times)
        _write(files.outcomes, np.empty((len(ids), 0)), id=ids, time=times, label=labels)
        found.append(files)
    return found


def _write(path: Path, logits: NDArray[Any], **columns: Sequence[str] | Integers) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*columns, *range(logits.shape[1])])
        writer.writerows([*about, *row] for *about, row in zip(*columns.values(), logits.tolist(), strict=True))
