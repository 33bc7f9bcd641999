"""fedconformal demo: the whole job on handwritten digits, four ways to train compared, at ten one-class sites.

It ends with four weeks of new images, in which one site drifts, and a page that shows when it was noticed.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import shlex
from collections.abc import Container
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from fedconformal._base.arrays import as_alpha
from fedconformal._base.files import read_npz
from fedconformal.calibration.predictor import load
from fedconformal.cli.console import say, table
from fedconformal.cli.demo_stream import A_DAY, NOISY, SITE, write_stream
from fedconformal.cli.inputs import read_run
from fedconformal.cli.page import write_page
from fedconformal.errors import InputError
from fedconformal.evaluation import Evaluation

SITES = 10
METHODS = {"central": (), "fedavg": (), "fedprox": (), "tct": ("--set", "linear_rounds=5", "--set", "coordinates=2000")}
SHOWN = "tct"
"""Every command is shown for this method, and the report is about it."""


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
        _run("monitor", "summarize", str(watch), "--by", "day", "-o", messages[-1], show=shown)
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
    test = read_run(Path(logits), "test", rule.certificate.provenance.temperature)
    accuracy = float(np.mean(test.probs.argmax(axis=1) == test.labels))
    return accuracy, rule.evaluate(test.probs, test.labels, sites=test.clients)


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
