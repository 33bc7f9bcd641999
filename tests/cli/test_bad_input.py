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


def refused(command: Command, *arguments: str, said: str) -> None:
    before = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
    done = command(*arguments)
    assert (done.code, done.out) == (2, ""), done
    assert done.err.startswith("error: ")
    assert done.err.count("\n") == 1, done.err
    assert said in done.err
    assert {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()} == before


FILES: dict[str, tuple[object, str]] = {
    "logits.npy": (PROBS * 9 - 3, "(--from logits)"),
    "text.npy": ("hello", "text.npy: cannot be read"),
    "empty.csv": ("", "empty.csv: is empty"),
    "other.dat": ("", "other.dat: expected a file that ends in .csv, .tsv, .txt, .parquet, .npy"),
}


def test_files(folder: Path, command: Command) -> None:
    for name, (content, said) in FILES.items():
        Path(name).write_text(content) if isinstance(content, str) else np.save(name, np.asarray(content))
        refused(command, "summarize", name, "labels-0.npy", "-o", "out.fcs", said=said)
    np.save("few.npy", LABELS[:9])
    refused(command, *ROWS[:2], "few.npy", *ROWS[3:], said="few.npy: has 9 rows, and probs-0.npy has 60")


OPTIONS: list[tuple[tuple[str, ...], str]] = [
    ((*ROWS, "labels-1.npy"), "3 files were given; expected PROBS LABELS, or many files with --chunks"),
    (("summarize", "probs-0.npy", "-o", "out.fcs"), "probs-0.npy: give LABELS as well"),
    (("summarize", "absent.npy", *ROWS[2:]), "absent.npy: cannot be read (No such file"),
    ((*ROWS, "--chunks", "--kind", "exact"), "kind ranks only"),
    ((*ROWS, "--score", "best"), "aps, cqr, lac, margin, normalized, raps, residual, saps, signed, topk"),
    ((*ROWS, "--alpha", "1"), "alpha is 1, expected a number between 0 and 1"),
    ((*ROWS, "--site", ""), "site is ''"),
    ((*ROWS, "--bogus"), "--bogus"),
    ((*ROWS[:4], "out.txt"), "out.txt: expected a file that ends in .fcs"),
    ((*ROWS[:4], "absent/out.fcs"), "absent/out.fcs: cannot be written"),
    (("calibrate", "site-0.fcs", "./site-0.fcs", "-o", "out.json"), "site-0.fcs: is given twice"),
    (("calibrate", "probs-0.npy", "-o", "out.json"), "probs-0.npy: this is not a fedconformal summary"),
    ((*SITES, "--guarantee", "best"), "every-site, fcp, learn-then-test, mixture, new-site"),
    (("predict", "other.json", "test-probs.npy", "-o", "out.npz"), "it is JSON of another kind"),
    (("predict", "predictor.json", "test-probs.npy", "-o", "out.txt"), "ends in .npz, .npy or .csv"),
    (("report", "predictor.json", "-o", "out.txt"), "out.txt: expected a file that ends in .html"),
    (("sign", "probs-0.npy", "--key", "new.key", "--new-key"), "probs-0.npy: this is not a fedconformal summary"),
    (("plan", "--sizes", "3,-1"), "sizes"),
]


def test_options(calibrated: Path, command: Command) -> None:
    Path("other.json").write_text("{}")
    for arguments, said in OPTIONS:
        refused(command, *arguments, said=said)


OTHER_SITES = {
    ("--score", "aps"): "site-0.fcs and other.fcs do not go together: score",
    ("--model", "f00"): "model None against f00",
    ("--temperature", "2"): "temperature None against 2.0",
    ("--site", "site-0"): "site 'site-0' is there twice",
}


def test_summaries_that_do_not_go_together(calibrated: Path, command: Command) -> None:
    for options, said in OTHER_SITES.items():
        command.ok("summarize", "probs-1.npy", "labels-1.npy", "-o", "other.fcs", *options)
        refused(command, "calibrate", "site-0.fcs", "other.fcs", "-o", "out.json", said=said)


def test_truncated_and_altered_files(calibrated: Path, command: Command) -> None:
    data, text = Path("site-1.fcs").read_bytes(), Path("predictor.json").read_text()
    for content in (b"", data[:5], data[:100], data + b"x", data[:50] + b"?" + data[51:], b"FCS9" + data[4:]):
        Path("site-1.fcs").write_bytes(content)
        refused(command, *SITES, said="site-1.fcs: ")
    for words in ("", "{}", "[]", text[:-20], text.replace("0.1", "0.2", 1), "NaN"):
        Path("bad.json").write_text(words)
        refused(command, "predict", "bad.json", "test-probs.npy", "-o", "out.npz", said="bad.json: ")


def test_runs_without_their_parts(folder: Path, command: Command) -> None:
    run: dict[str, Any] = {"val_logits": PROBS * 9, "val_labels": LABELS}
    for sites, said in (
        (None, "has no val_clients"),
        (np.zeros(3), "val_clients has shape (3,)"),
        (["../x"] * 60, "'../x'"),
    ):
        given = run if sites is None else {**run, "val_clients": np.array(sites)}
        np.savez("logits.npz", **given)
        refused(command, "summarize", "logits.npz", "-o", "run", said=said)


def test_a_slip_names_the_help_to_read(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    assert command("summarise", "x.csv").err == (
        "error: No such command 'summarise'. Did you mean 'summarize'? (fedconformal --help shows what there is)\n"
    )
    assert command("zebra").err == "error: No such command 'zebra'. (fedconformal --help shows what there is)\n"
    assert command("calibrate", "a.fcs", "--alpa", "0.1").err.endswith(
        "(fedconformal calibrate --help shows what there is)\n"
    )
    assert "Did you mean 'add'?" in command("monitor", "ad").err
    for group in ("policy", "flower"):
        done = command(group)
        assert done.code == 2
        assert done.err == f"error: Name one of these commands. (fedconformal {group} --help shows what there is)\n"
    monkeypatch.setattr(app, "_plugins", dict)
    assert "pip install ./paper" in command("paper", "list").err
