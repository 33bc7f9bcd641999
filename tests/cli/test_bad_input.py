"""Bad input: one line that names the file and the fix, exit code 2, nothing written."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedconformal.cli import app
from tests.cli.command import Command, site_rows

SUMMARIES = [f"site-{k}.fcs" for k in range(3)]
PROBS, LABELS = site_rows(0)
ROWS = ("summarize", "probs-0.npy", "labels-0.npy", "-o", "out.fcs")
SITES = ("calibrate", *SUMMARIES, "-o", "out.json")
SETS = ("test-probs.npy", "-o", "out.npz")
REFUSED: list[tuple[tuple[str, ...], str]] = [
    ((*ROWS, "labels-1.npy"), "3 files were given; expected PROBS LABELS"),
    (("summarize", "probs-0.npy", "--site", "a", "-o", "out.fcs"), "probs-0.npy: give LABELS as well"),
    (("summarize", "absent.npy", *ROWS[2:]), "absent.npy: cannot be read (No such file"),
    (("summarize", "logits.npy", *ROWS[2:]), "(--from logits)"),
    ((*ROWS[:2], "few.npy", *ROWS[3:]), "few.npy: has 9 rows, and probs-0.npy has 60"),
    ((*ROWS[:4], "out.txt"), "out.txt: expected a file that ends in .fcs"),
    ((*ROWS[:4], "absent/out.fcs"), "absent/out.fcs: cannot be written"),
    (("calibrate", "site-0.fcs", "./site-0.fcs", "-o", "out.json"), "site-0.fcs: is given twice"),
    (("calibrate", "probs-0.npy", "-o", "out.json"), "probs-0.npy: this is not a fedconformal summary"),
    (("calibrate", "site-0.fcs", "aps.fcs", "-o", "out.json"), "site-0.fcs and aps.fcs do not go together: score"),
    ((*SITES, "--guarantee", "best"), "no guarantee is called 'best'"),
    (("predict", "site-0.fcs", *SETS), "site-0.fcs: is not a predictor; give the .json file that calibrate wrote"),
    (("predict", "predictor.json", *SETS[:2], "out.txt"), "ends in .npz, .npy or .csv"),
    (("report", "predictor.json", "-o", "out.txt"), "out.txt: expected a file that ends in .html"),
    (("plan", "--sizes", "three"), "--sizes is 'three', expected whole numbers"),
]


def test_one_line_and_nothing_is_written(calibrated: Path, command: Command) -> None:
    command.ok("summarize", "probs-1.npy", "labels-1.npy", "-o", "aps.fcs", "--score", "aps")
    np.save("logits.npy", PROBS * 9 - 3)
    np.save("few.npy", LABELS[:9])
    for arguments, said in REFUSED:
        assert command.refuses(said, *arguments).err.count("\n") == 1


def test_runs_without_their_parts(here: Path, command: Command) -> None:
    run: dict[str, Any] = {"val_logits": PROBS * 9, "val_labels": LABELS}
    clients = {"val_clients": np.arange(60) % 2}
    for more, said in (
        ({}, "has no val_clients"),
        ({"val_clients": np.zeros(3)}, "val_clients has shape (3,)"),
        ({"val_clients": np.array(["../x"] * 60)}, "the site '../x' cannot be a file name"),
        ({**clients, "names": np.array(["a"])}, "names: expected a name for each site"),
        ({**clients, "temperature": np.array([1.0, 2.0])}, "temperature is array([1., 2.]), expected a positive"),
    ):
        np.savez("logits.npz", **{**run, **more})
        command.refuses(f"logits.npz: {said}", "summarize", "logits.npz", "-o", "run")
    np.savez("logits.npz", **{**run, **clients})
    command.refuses("logits.npz/run: Not a directory", "summarize", "logits.npz", "-o", "logits.npz/run")


def test_a_slip_names_the_help_to_read(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    assert command("summarise", "x.csv").err == (
        "error: No such command 'summarise'. Did you mean 'summarize'? (see fedconformal --help)\n"
    )
    assert command("calibrate", "a.fcs", "--alpa", "0.1").err.endswith("(see fedconformal calibrate --help)\n")
    assert "Did you mean 'add'?" in command("monitor", "ad").err
    done = command("policy")
    assert done.code == 2
    assert done.err == "error: Missing command. (see fedconformal policy --help)\n"
    monkeypatch.setattr(app, "_plugins", dict)
    assert "pip install ./paper" in command("paper", "list").err
