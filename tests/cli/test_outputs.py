"""Outputs: never onto a file that the command reads, and secrets only for their owner."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

import numpy as np
import pytest

import fedconformal as fc
from tests.cli.command import Command

SUMMARIES = ("site-0.fcs", "site-1.fcs", "site-2.fcs")
ONTO = "is also an input of this command; choose another place with -o"


@pytest.fixture
def files(calibrated: Path) -> Path:
    """Every kind of input, under names that an output may have."""
    shutil.copy("test-probs.npy", "t.npy")
    np.save("t-labels.npy", np.load("test-labels.npy"))
    np.savetxt("t.csv", np.load("test-probs.npy"), delimiter=",")
    Path("ledger.json").write_text('{"budget": 9}')
    exact = fc.Summary.of_scores([0.1, 0.5, 0.9], kind="exact", site="x", score=fc.LAC())
    Path("x.fcs").write_bytes(exact.to_bytes())
    Path("x.key").write_bytes(bytes(range(32)))
    Path("keys.json").write_text("{}")
    logits = {"val_logits": np.eye(2) * 3 - 1, "val_labels": [0, 1], "val_clients": ["a", "b"]}
    np.savez("run.npz", **logits)  # type: ignore[arg-type]
    return calibrated


CASES: list[tuple[str, list[str]]] = [
    ("t.csv", ["predict", "predictor.json", "t.csv", "-o", "t.csv"]),
    ("predictor.json", ["predict", "predictor.json", "t.npy", "-o", "link.npz"]),
    ("t-labels.npy", ["summarize", "t.npy", "t-labels.npy", "-o", "link.fcs"]),
    ("ledger.json", ["summarize", "t.npy", "t-labels.npy", "--epsilon", "1", "--ledger",
                     "ledger.json", "-o", "link.fcn"]),
    ("run.npz", ["summarize", "run.npz", "-o", "out"]),
    ("site-1.fcs", ["calibrate", *SUMMARIES, "-o", "link.json"]),
    ("keys.json", ["calibrate", *SUMMARIES, "--signed", "keys.json", "-o", "keys.json"]),
    ("ledger.json", ["calibrate", "x.fcs", "--epsilon", "1", "--ledger", "ledger.json", "-o",
                     "ledger.json"]),
    ("test-sites.csv", ["report", "predictor.json", "t.npy", "t-labels.npy", "--sites", "test-sites.csv", "-o",
                        "link.html"]),
    ("x.key", ["sign", "x.fcs", "--key", "x.fcs.sig"]),
]  # fmt: skip


def test_no_output_onto_an_input(files: Path, command: Command) -> None:
    shutil.copy("x.key", "x.fcs.sig")
    Path("out").mkdir()
    Path("out/b.fcs").symlink_to(Path("run.npz").resolve())
    for target, arguments in CASES:
        if "link" in arguments[-1]:
            Path(arguments[-1]).symlink_to(target)
        command.refuses(ONTO, *arguments)
        if "link" in arguments[-1]:
            Path(arguments[-1]).unlink()


def test_whatever_the_path(files: Path, command: Command) -> None:
    Path("folder").mkdir()
    os.link("t.csv", "hard.csv")
    Path("soft.csv").symlink_to("t.csv")
    for output in ("folder/../t.csv", str(Path("t.csv").resolve()), "hard.csv", "soft.csv"):
        command.refuses(ONTO, "predict", "predictor.json", "t.csv", "-o", output)
    command.refuses(ONTO, "predict", "predictor.json", "soft.csv", "-o", "t.csv")
    for _ in range(2):  # an output of before is no input
        command.ok("predict", "predictor.json", "t.csv", "-o", "sets.csv")


def test_training_onto_its_settings(here: Path, command: Command) -> None:
    pytest.importorskip("torch", reason="training needs torch")
    Path("run").mkdir()
    Path("run/result.json").write_text('dataset = "digits"\n')
    Path("run/model.pt").write_bytes(b"weights")
    command.refuses(ONTO, "train", "--config", "run/result.json", "-o", "run")
    command.refuses(ONTO, "train", "--dataset", "digits", "--set", "weights=run/model.pt", "-o", "run")


@pytest.mark.parametrize("options", [["--kind", "exact"], ["--kind", "exact", "--by-class"]])
def test_all_scores_are_their_owner_s(folder: Path, command: Command, options: list[str]) -> None:
    before = os.umask(0o022)
    try:
        command.ok("summarize", "probs-0.npy", "labels-0.npy", *options, "-o", "exact.fcs")
        command.ok("summarize", "probs-0.npy", "labels-0.npy", "-o", "ranks.fcs")
    finally:
        os.umask(before)
    assert stat.S_IMODE(Path("exact.fcs").stat().st_mode) == 0o600
    assert stat.S_IMODE(Path("ranks.fcs").stat().st_mode) == 0o644
