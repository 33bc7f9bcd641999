"""fedconformal demo: the whole file workflow on handwritten digits, ten sites with one class each."""

from __future__ import annotations

import contextlib
import io
import shlex
from pathlib import Path
from typing import Annotated

import typer

from fedconformal.cli.console import say
from fedconformal.errors import InputError
from fedconformal.files import read_array, write_bytes
from fedconformal.predictor import Predictor, load
from fedconformal.report import report_page

SITES = 10
SEED = 0
TRAIN = 200
"""Few rows to train on, so that the model is unsure and the sets have something to say."""


def demo(
    output: Annotated[Path, typer.Option("-o", "--output", help="Where to put everything.")] = Path(
        "fedconformal-demo"
    ),
    alpha: Annotated[str, typer.Option(help="How often the truth may be missed.")] = "0.1",
) -> None:
    """Train a plain model on digits, calibrate it across ten one-class sites by files, and write a report."""
    say("Handwritten digits; site k holds only images of the digit k, and sends one small file.")
    _write_site_data(output)
    say(f"Each site has its probabilities and labels in {output}/site-*/. The commands that follow:\n")
    summaries = []
    for k in range(SITES):
        site = output / f"site-{k}"
        summaries.append(str(site) + ".fcs")
        files = [f"{site}/val_probs.npy", f"{site}/val_labels.npy"]
        _run("summarize", *files, "--score", "lac", "--alpha", alpha, "-o", summaries[-1], show=k in (0, SITES - 1))
    predictor = f"{output}/predictor.json"
    probs, labels, sites = (f"{output}/test_{name}" for name in ("probs.npy", "labels.npy", "sites.csv"))
    _run("calibrate", *summaries, "--alpha", alpha, "-o", predictor)
    _run("verify", predictor, *summaries)
    _run("predict", predictor, probs, "-o", f"{output}/sets.csv")
    _run("evaluate", predictor, probs, labels, "--clients", sites)
    report = output / "report.html"
    write_bytes(report, _report(load(predictor), Path(probs), Path(labels), Path(sites)).encode())
    say(f"The report lies in {report}")


def _report(predictor: Predictor, probs: Path, labels: Path, sites: Path) -> str:
    clients = read_array(sites, text=True)
    return report_page(predictor, predictor.evaluate(read_array(probs), read_array(labels), clients=clients))


def _run(*arguments: str, show: bool = True) -> None:
    from fedconformal.cli.app import run

    shown = " ".join(_shortened(arguments))
    with contextlib.nullcontext() if show else contextlib.redirect_stdout(io.StringIO()):
        say(f"$ fedconformal {shown}")
        if run(arguments):
            raise InputError(f"fedconformal {shown} failed")
        say("")


def _shortened(arguments: tuple[str, ...]) -> list[str]:
    files = [a for a in arguments if a.endswith(".fcs")]
    if len(files) < SITES:
        return [shlex.quote(a) for a in arguments]
    pattern = f"{Path(files[0]).parent}/site-*.fcs"
    words = [shlex.quote(a) for a in arguments if a not in files]
    return [*words[: 2 if words[0] == "verify" else 1], pattern, *words[2 if words[0] == "verify" else 1 :]]


def _write_site_data(output: Path) -> None:
    try:
        import numpy as np
        from sklearn.datasets import load_digits
        from sklearn.linear_model import LogisticRegression
    except ImportError:
        raise InputError("the demo needs scikit-learn: pip install 'fedconformal[demo]'") from None
    images, digits = load_digits(return_X_y=True)
    train, rest = np.split(np.random.default_rng(SEED).permutation(len(digits)), [TRAIN])
    rest = rest[np.argsort(digits[rest], kind="stable")]
    val, test = rest[::2], rest[1::2]  # every digit in halves: the test rows come from the mixture that is promised
    model = LogisticRegression(C=0.05, max_iter=2000).fit(images[train] / 16, digits[train])
    for k in range(SITES):
        site = output / f"site-{k}"
        site.mkdir(parents=True, exist_ok=True)
        rows = val[digits[val] == k]
        np.save(site / "val_probs.npy", model.predict_proba(images[rows] / 16))
        np.save(site / "val_labels.npy", digits[rows])
    np.save(output / "test_probs.npy", model.predict_proba(images[test] / 16))
    np.save(output / "test_labels.npy", digits[test])
    (output / "test_sites.csv").write_text("".join(f"site-{k}\n" for k in digits[test]))
