"""fedconformal demo: handwritten digits, four ways to train compared, at ten one-class sites."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import shlex
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from fedconformal._base.arrays import as_alpha
from fedconformal._base.files import read_npz
from fedconformal.calibration.predictor import load
from fedconformal.cli.arrays import read_run
from fedconformal.cli.console import say, table
from fedconformal.cli.site import write_page
from fedconformal.errors import InputError
from fedconformal.evaluation import Evaluation

EPOCHS = ("--set", "epochs=3")
METHODS = {
    "central": EPOCHS,
    "fedavg": EPOCHS,
    "fedprox": (*EPOCHS, "--set", "mu=1.0"),
    "tct": (*EPOCHS, "--set", "linear_rounds=5", "--set", "coordinates=2000"),
}
SHOWN = "tct"
"""Every command is shown for this method, and the report is about it."""


def demo(
    output: Annotated[Path, typer.Option("-o", "--output", help="Where to put everything.")] = Path(
        "fedconformal-demo"
    ),
    alpha: Annotated[str, typer.Option(help="How often the truth may be missed.")] = "0.1",
) -> None:
    """Train on digits at ten one-class sites in four ways, calibrate each by files, and compare."""
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
    _run("report", str(output / "predictor.json"), str(output / SHOWN / "logits.npz"), "-o", str(report))
    chance = f"{1 - float(alpha):g}"
    say(f"Sets that hold the true digit with probability {chance}, whichever way the model was trained:", "")
    table(
        ("training", "accuracy", "coverage", "labels a set"),
        [
            (method, f"{accuracy:.3f}", f"{result.overall.coverage:.3f}", f"{result.overall.mean_size:.2f}")
            for method, (accuracy, result) in found.items()
        ],
    )
    write_page(output / "summarize.html")
    say("", f"The report is {report}", f"The page for a site that installs nothing is {output / 'summarize.html'}")


def _calibrated(output: Path, method: str, alpha: str) -> tuple[float, Evaluation]:
    """Calibrate what a method has trained; return accuracy and how the sets do."""
    run, shown = output / method, method == SHOWN
    logits, sites, predictor = f"{run}/logits.npz", run / "sites", f"{output if shown else run}/predictor.json"
    _run("summarize", logits, "--alpha", alpha, "-o", str(sites), show=shown)
    summaries = str(sites / "site-*.fcs")
    _run("calibrate", summaries, "--alpha", alpha, "-o", predictor, show=shown)
    if shown:
        np.save(output / "test_logits.npy", read_npz(Path(logits))["test_logits"])
        _run("verify", predictor, summaries)
        _run("predict", predictor, f"{output}/test_logits.npy", "--from", "logits", "-o", f"{output}/sets.csv")
        _run("evaluate", predictor, logits)
    rule = load(predictor)
    test = read_run(Path(logits), "test", rule.score, rule.certificate.provenance.temperature)
    accuracy = float(np.mean(test.outputs.argmax(axis=1) == test.truth))
    return accuracy, rule.evaluate(test.outputs, test.truth, sites=test.sites)


def _run(*arguments: str, show: bool = True) -> None:
    from fedconformal.cli.app import run

    words = [word if "*" in word else shlex.quote(word) for word in arguments]
    with contextlib.nullcontext() if show else contextlib.redirect_stdout(io.StringIO()):
        say(f"$ fedconformal {' '.join(words)}")
        if code := run(arguments if show else ("--quiet", *arguments)):
            raise typer.Exit(code)  # it has said why
        say("")
