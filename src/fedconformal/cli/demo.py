"""fedconformal demo: handwritten digits at ten one-class sites, from training to a report, by commands."""

from __future__ import annotations

import importlib.util
import shlex
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from fedconformal._base.files import read_npz
from fedconformal.cli.console import print_result, say
from fedconformal.cli.options import Json
from fedconformal.errors import InputError

SETTINGS = ("epochs=3", "linear_rounds=5", "coordinates=2000")


def demo(
    output: Annotated[Path, typer.Option("-o", "--output", help="Where to put everything.")] = Path(
        "fedconformal-demo"
    ),
    json: Json = False,
) -> None:
    """Train on digits at ten sites, calibrate and write a report."""
    if not all(importlib.util.find_spec(name) for name in ("torch", "sklearn")):
        raise InputError("the demo needs torch and scikit-learn: pip install 'fedconformal[demo]'")
    if output.exists() and not output.is_dir():
        raise InputError(f"{output}: is a file; name a directory with -o")
    run, predictor, report = f"{output}/run", f"{output}/predictor.json", f"{output}/report.html"
    logits, summaries, page = f"{run}/logits.npz", f"{output}/sites/site-*.fcs", f"{output}/summarize.html"
    with redirect_stdout(sys.stderr if json else sys.stdout):
        say("Handwritten digits; site k holds only images of the digit k. Training:", "")
        settings = [word for setting in SETTINGS for word in ("--set", setting)]
        _run("train", "--dataset", "digits", "--method", "tct", *settings, "--resume", "-o", run)
        say("Every site scores its own calibration rows and sends one small file:", "")
        _run("summarize", logits, "-o", f"{output}/sites")
        _run("calibrate", summaries, "-o", predictor)
        _run("verify", predictor, summaries)
        np.save(output / "test_logits.npy", read_npz(Path(logits))["test_logits"])
        _run("predict", predictor, f"{output}/test_logits.npy", "--from", "logits", "-o", f"{output}/sets.csv")
        _run("evaluate", predictor, logits)
        _run("report", predictor, logits, "-o", report)
        _run("page", "-o", page)
    lines = [f"The report is {report}", f"The page for a site that installs nothing is {page}"]
    print_result({"report": report, "page": page}, *lines, json=json)


def _run(*arguments: str) -> None:
    from fedconformal.cli.app import run

    say(f"$ fedconformal {' '.join(word if '*' in word else shlex.quote(word) for word in arguments)}")
    if code := run(arguments):
        raise typer.Exit(code)  # the command has printed the reason
    say("")
