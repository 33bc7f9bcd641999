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
