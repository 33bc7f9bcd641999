"""Missing values: all named in one run, left out on request, and no reason to refuse the other patients."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

import fedconformal as fc
from tests.cli.command import Command, write_table
from tests.cli.test_mistakes import NAMES, ROWS, rows, tables  # noqa: F401

LACKING = {3: 2, 9: 4, 20: 3}
"""Rows and the column that lacks a value: benign, truth, malignant."""
TABLE = ("--id", "patient", "--labels", "truth")


@pytest.fixture
def gaps(tables: Path) -> Path:  # noqa: F811
    """The rows of a site in one table, in which three rows lack a value; and the same rows without them."""
    found = rows(1)
    whole = [line for k, line in enumerate(found) if k not in LACKING]
    for row, column in LACKING.items():
        found[row][column] = "NA"
    header = ["patient", "sex", *NAMES, "truth", "site"]
    write_table("gaps.csv", header, found)
    write_table("whole.csv", header, whole)
    write_table("probs.csv", ["patient", *NAMES], [[line[0], *line[2:4]] for line in rows(1)])
    write_table("truth.csv", ["patient", "truth"], [[line[0], line[4]] for line in found])
    return tables


def test_all_are_named_in_one_run(gaps: Path, command: Command) -> None:
    summarize = ("summarize", "gaps.csv", *TABLE, "--drop", "sex,site", "-o", "a.fcs")
    done = command.refuses("line 5, column benign holds NA, a missing value; line 11, column truth", *summarize)
    assert "; 3 rows lack a value; " in done.err
    assert done.err.endswith("(--skip-missing)\n")


def test_rows_are_left_out_and_counted(gaps: Path, command: Command) -> None:
    summarize = ("summarize", *TABLE, "--drop", "sex,site", "--site", "a", "--skip-missing")
    done = command.ok(*summarize, "gaps.csv", "-o", "gaps.fcs")
    assert "WARNING: gaps.csv: 3 rows left out: line 5, column benign holds NA, a missing value; line 11" in done.err
    assert "left out" not in command.ok(*summarize, "whole.csv", "-o", "whole.fcs").err
    gaps_, whole = (fc.Summary.from_bytes(Path(name).read_bytes()) for name in ("gaps.fcs", "whole.fcs"))
    assert [gaps_.count_at_most(q / 20) for q in range(20)] == [whole.count_at_most(q / 20) for q in range(20)]
    assert gaps_.n == whole.n == ROWS - 3
    assert (gaps_.skipped, whole.skipped) == (3, 0)
    assert command.ok("show", "gaps.fcs", "--json").json["holds"]["rows left out"] == "3"
    two = ("summarize", "probs.csv", "truth.csv", "--id", "patient", "-o", "two.fcs")
    assert command(*two).code == 2
    assert "1 row left out: line 11, column truth" in command.ok(*two, "--skip-missing").err
    evaluate = ("evaluate", "predictor.json", *TABLE, "--skip-missing", "--json")
    missing, complete = (command.ok(*evaluate, name).json for name in ("gaps.csv", "whole.csv"))
    assert (missing.pop("skipped"), complete.pop("skipped")) == (3, 0)
    assert missing == complete


def test_one_cell_does_not_refuse_forty_patients(gaps: Path, command: Command) -> None:
    done = command.ok("predict", "predictor.json", "gaps.csv", "--id", "patient", "-o", "sets.csv", "--json")
    assert (done.json["rows"], len(done.json["skipped"])) == (ROWS - 2, 2)
    assert "gaps.csv: 2 rows left out: line 5, column benign holds NA" in done.err
    with Path("sets.csv").open() as file:
        found = {row["patient"]: row["labels"] for row in csv.DictReader(file)}
    assert set(found) == {f"p1-{k}" for k in range(ROWS)} - {"p1-3", "p1-20"}
    command.ok("predict", "predictor.json", "gaps.csv", "-o", "numbered.csv")
    with Path("numbered.csv").open() as file:  # rows keep their numbers
        assert [row["row"] for row in csv.DictReader(file)][2:4] == ["2", "4"]
    refused = command("predict", "predictor.json", "gaps.csv", "-o", "sets.npz")  # whose rows have no names
    assert (refused.code, "2 rows lack a value" in refused.err) == (2, True)


def test_a_class_called_none_is_not_missing(here: Path, command: Command) -> None:
    found = [[f"p{k}", 0.75, 0.25, "NA" if k == 40 else ("none", "some")[k % 2]] for k in range(41)]
    write_table("t.csv", ["id", "none", "some", "truth"], found)
    write_table("probs.csv", ["id", "none", "some"], [line[:3] for line in found])
    write_table("truth.csv", ["id", "truth"], [[line[0], line[3]] for line in found])
    rest = ("--id", "id", "--labels", "truth", "--skip-missing")
    assert "1 row left out: line 42" in command.ok("summarize", "probs.csv", "truth.csv", *rest, "-o", "a.fcs").err
    assert "1 row left out: line 42" in command.ok("summarize", "t.csv", *rest, "-o", "a.fcs").err
    command.ok("calibrate", "a.fcs", "-o", "predictor.json")
    assert command.ok("evaluate", "predictor.json", "t.csv", *rest, "--json").json["overall"]["rows"] == 40
    command.ok("monitor", "start", "watch.db", "predictor.json")
    assert "added 41 rows and 40 outcomes" in command.ok("monitor", "add", "watch.db", "t.csv", *rest[:4]).out
