"""Rows keep their place: headers of numbers, blank lines, and lines that can be found in a spreadsheet."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import fedconformal as fc
from tests.cli.command import Command

ROWS = 199


@pytest.fixture
def patients(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command) -> list[str]:
    """Write 199 patients of two classes as pandas does by default, and a predictor; return the lines."""
    monkeypatch.chdir(tmp_path)
    first = np.random.default_rng(0).random(ROWS)
    np.save("probs.npy", np.column_stack([first, 1 - first]))
    np.save("labels.npy", (np.random.default_rng(1).random(ROWS) > first).astype(int))
    command.ok("summarize", "probs.npy", "labels.npy", "--score", "lac", "-o", "site.fcs")
    command.ok("calibrate", "site.fcs", "-o", "predictor.json")
    lines = ["0,1", *(f"{p!r},{1 - p!r}" for p in first.tolist())]
    write("t.csv", lines)
    write("labels.csv", ["0", *map(str, np.load("labels.npy").tolist())])
    write("sites.csv", ["0", *(f"site-{k % 3}" for k in range(ROWS))])
    return lines


def write(name: str, lines: list[str]) -> None:
    Path(name).write_text("".join(f"{line}\n" for line in lines))


def refused(command: Command, arguments: list[str], *problems: str) -> None:
    done = command(*arguments)
    assert (done.code, done.out) == (2, "")
    *_, error = done.err.splitlines()
    for problem in problems:
        assert error.startswith(f"error: {problem}")


def test_a_header_of_numbers_is_no_patient(patients: list[str], command: Command) -> None:
    done = command.ok("predict", "predictor.json", "t.csv", "-o", "sets.npz")
    assert f"{ROWS} sets of 2 labels" in done.out
    assert done.err == "t.csv: commas, column numbers 0,1 in line 1, header; 199 rows; 2 classes without names\n"
    command.ok("predict", "predictor.json", "probs.npy", "-o", "same.npz")
    assert np.array_equal(np.load("sets.npz")["sets"], np.load("same.npz")["sets"])
    write("indexed.csv", [f",{patients[0]}", *(f"{k},{line}" for k, line in enumerate(patients[1:]))])
    command.ok("predict", "predictor.json", "indexed.csv", "-o", "again.npz")
    assert np.array_equal(np.load("sets.npz")["sets"], np.load("again.npz")["sets"])


def test_labels_and_clients_with_the_header_that_pandas_writes(patients: list[str], command: Command) -> None:
    command.ok("summarize", "t.csv", "labels.csv", "--score", "lac", "--site", "site", "-o", "csv.fcs")
    plain = fc.Summary.from_bytes(Path("site.fcs").read_bytes())
    assert fc.Summary.from_bytes(Path("csv.fcs").read_bytes()).to_bytes() == plain.to_bytes()
    options = ["predictor.json", "t.csv", "labels.csv", "--sites", "sites.csv", "--json"]
    assert [group["rows"] for group in command.ok("evaluate", *options).json["by_site"]] == [67, 66, 66]
    write("labels.csv", Path("labels.csv").read_text().split()[1:])
    command.ok("summarize", "t.csv", "labels.csv", "--score", "lac", "--site", "site", "-o", "again.fcs")
    assert Path("again.fcs").read_bytes() == Path("csv.fcs").read_bytes()


def test_a_file_of_whole_numbers_is_refused(patients: list[str], command: Command) -> None:
    write("t.csv", ["0,1", "1,0", "0,1"])
    refused(command, ["predict", "predictor.json", "t.csv", "-o", "s.npz"], "t.csv: could be two columns of whole")


def test_a_blank_line_is_refused(patients: list[str], command: Command) -> None:
    write("t.csv", [*patients[:40], "", *patients[40:]])
    refused(command, ["predict", "predictor.json", "t.csv", "-o", "s.npz"], "t.csv: line 41 is blank")
    write("labels.csv", ["0", "1", "", "1"])
    refused(command, ["evaluate", "predictor.json", "probs.npy", "labels.csv"], "labels.csv: line 3 is blank")


def test_a_wrong_row_is_named_by_its_line(patients: list[str], command: Command) -> None:
    predict = ["predict", "predictor.json", "t.csv", "-o", "s.npz"]
    write("t.csv", [*patients[:40], "0.5,0.7", *patients[40:]])
    refused(command, predict, "t.csv: line 41 sums to 1.2, not 1")
    write("t.csv", [*patients[1:40], "0.5,nan"])
    refused(command, predict, "t.csv: line 40, column 2 holds nan, a missing value")
    write("t.csv", [*patients[:40], "0.5"])
    refused(command, predict, "t.csv: line 41 has 1 cell, and line 1 has 2")
    write("labels.csv", ["label", *["0"] * 100, "7", *["0"] * 98])
    refused(command, ["evaluate", "predictor.json", "probs.npy", "labels.csv"], "labels.csv: line 102 is 7, expected")
