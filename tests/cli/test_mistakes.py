"""Tables by hand: names and ids decide, whatever the order of rows and columns, and none of it changes a number.

What is wrong with a table, and how it is said, is in tests/vectors/intake.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fedconformal.calibration.predictor import load
from tests.cli.command import Command, write_table

ROWS = 80
NAMES = ("benign", "malignant")

Lines = list[list[str]]


def rows(seed: int) -> Lines:
    """Draw patients: id, sex, two probabilities that differ much, the truth, the site."""
    rng = np.random.default_rng(seed)
    found: Lines = []
    for row in range(ROWS):
        p = round(float(rng.beta(0.4, 1.6)), 6)
        truth = NAMES[int(rng.random() < p)]
        found.append([f"p{seed}-{row}", "fm"[row % 2], f"{1 - p:.6f}", f"{p:.6f}", truth, f"clinic-{row % 2}"])
    return found


def columns(lines: Lines, *places: int) -> Lines:
    return [[row[place] for place in places] for row in lines]


@pytest.fixture
def tables(here: Path, command: Command) -> Path:
    """Two sites and test rows as tables, and a predictor with names."""
    for k in range(2):
        found = rows(k)
        write_table(f"probs-{k}.csv", ["patient", *NAMES], columns(found, 0, 2, 3))
        write_table(f"labels-{k}.csv", ["patient", "truth"], columns(found, 0, 4))
        command.ok("summarize", f"probs-{k}.csv", f"labels-{k}.csv", "--id", "patient", "-o", f"clinic-{k}.fcs")
    command.ok("calibrate", "clinic-0.fcs", "clinic-1.fcs", "-o", "predictor.json")
    found = rows(7)
    write_table("test.csv", ["patient", "sex", *NAMES, "truth", "site"], found)
    write_table("plain.csv", ["patient", *NAMES], columns(found, 0, 2, 3))
    write_table("truth.csv", ["patient", "truth"], columns(found, 0, 4))
    np.save("labels.npy", [NAMES.index(row[4]) for row in found])
    return here


def cells(name: str, change: Callable[[int, list[str]], list[str]]) -> Callable[[], None]:
    """Change each line of a table; line 0 is the header."""

    def rewrite() -> None:
        lines = [line.split(",") for line in Path(name).read_text().splitlines()]
        Path(name).write_text("".join(",".join(change(k, line)) + "\n" for k, line in enumerate(lines)))

    return rewrite


def swapped(_: int, line: list[str]) -> list[str]:
    return [line[0], line[2], line[1], *line[3:]]


SUMMARIZE = ["summarize", "probs-1.csv", "labels-1.csv", "--id", "patient", "-o", "again.fcs", "--site", "clinic-1"]
PREDICT = ["predict", "predictor.json", "plain.csv", "--id", "patient", "-o", "sets.csv"]
EVALUATE = ["evaluate", "predictor.json", "plain.csv", "truth.csv", "--id", "patient"]
TABLE = ["evaluate", "predictor.json", "test.csv", "--id", "patient", "--labels", "truth"]


def test_sets_by_name_and_patient(tables: Path, command: Command) -> None:
    command.ok(*PREDICT)
    cells("plain.csv", swapped)()
    command.ok(*PREDICT[:-1], "swapped.csv")
    assert Path("sets.csv").read_text() == Path("swapped.csv").read_text()
    with Path("sets.csv").open() as file:
        found = list(csv.DictReader(file))
    assert [row["patient"] for row in found] == [f"p7-{k}" for k in range(ROWS)]
    assert {row["labels"] for row in found} <= {"benign", "malignant", "benign;malignant"}
    sets = load("predictor.json").predict_set(np.array(columns(rows(7), 2, 3), dtype=float))
    named = [";".join(NAMES[label] for label in np.flatnonzero(members)) for members in sets]
    assert [row["labels"] for row in found] == named


def test_classes_are_compared_at_calibration(tables: Path, command: Command) -> None:
    cells("probs-1.csv", swapped)()
    command.ok(*SUMMARIZE)
    command.refuses("or give the probabilities before the labels", SUMMARIZE[0], *SUMMARIZE[2:0:-1], *SUMMARIZE[3:])
    expected = "clinic-0.fcs and again.fcs do not go together: classes benign, malignant against malignant, benign"
    command.refuses(expected, "calibrate", "clinic-0.fcs", "again.fcs", "-o", "other.json")
    np.save("probs.npy", np.array(columns(rows(1), 2, 3), dtype=float))
    command.ok("summarize", "probs.npy", "labels.npy", "-o", "clinic-2.fcs")
    done = command.ok("calibrate", "clinic-0.fcs", "clinic-2.fcs", "-o", "other.json")
    assert "clinic-2.fcs: gives its 2 classes no names; they are taken as benign, malignant" in done.err


def test_a_small_site_is_told_what_it_shows(tables: Path, command: Command) -> None:
    for count, shows in ((5, True), (500, False)):
        np.save("p.npy", np.full((count, 2), 0.5))
        np.save("y.npy", np.zeros(count, dtype=int))
        done = command.ok("summarize", "p.npy", "y.npy", "-o", "small.fcs")
        assert ("shows all its scores" in done.out) is shows
        assert ("use sums over Flower, or --epsilon" in done.out) is shows
        facts = command.ok("summarize", "p.npy", "y.npy", "-o", "small.fcs", "--json").json["summaries"]
        assert [fact["all_scores"] for fact in facts] == [shows]


def test_a_predictor_knows_its_classes(tables: Path, command: Command) -> None:
    """Ids, truth, sex and site in one table: columns of the classes are found by name, and all others left alone."""
    command.ok(*PREDICT)
    done = command.ok("predict", "predictor.json", "test.csv", "--id", "patient", "-o", "again.csv")
    assert Path("again.csv").read_text() == Path("sets.csv").read_text()
    assert "not used: sex, truth, site" in done.err
    right = command.ok(*EVALUATE, "--json").json
    probs, truth = np.array(columns(rows(7), 2, 3), dtype=float), [row[4] for row in rows(7)]
    assert right["overall"]["coverage"] == load("predictor.json").evaluate(probs, truth).coverage
    assert command.ok(*TABLE, "--json").json == right
    np.save("plain.npy", probs)
    nameless = command.ok("evaluate", "predictor.json", "plain.npy", "truth.csv", "--labels", "truth", "--json")
    assert nameless.json == right
    assert "columns without names are taken as benign, malignant" in nameless.err
    cells("plain.csv", lambda _, line: [line[0], line[2]])()  # of two classes, one column is enough
    assert command.ok(*EVALUATE, "--json").json == right
    command.ok("report", "predictor.json", "test.csv", "--labels", "truth", "-o", "page.html")


def test_sets_that_people_can_use(tables: Path, command: Command) -> None:
    """Chosen columns beside the id, a column a class, and the semicolons of the table that was read."""
    predict = ("predict", "predictor.json", "--id", "patient", "-o", "sets.csv")
    command.ok(*PREDICT)
    plain = [row["labels"].split(";") for row in csv.DictReader(Path("sets.csv").read_text().splitlines())]
    command.ok(*predict, "test.csv", "--keep", "sex,site", "--wide")
    with Path("sets.csv").open() as file:
        found = list(csv.DictReader(file))
    assert list(found[0]) == ["patient", "sex", "site", "size", *NAMES]
    assert [[name for name in NAMES if row[name] == "yes"] for row in found] == plain
    assert [row["sex"] for row in found] == [row[1] for row in rows(7)]
    german = [[cell.replace(".", ",") for cell in line] for line in columns(rows(7), 0, 2, 3)]
    write_table("german.csv", ["patient", *NAMES], german, ";")
    command.ok(*predict, "german.csv")
    lines = list(csv.reader(Path("sets.csv").read_text().splitlines(), delimiter=";"))
    assert lines[0] == ["patient", "size", "labels"]
    assert [line[2].split(";") for line in lines[1:]] == plain
    command.ok("monitor", "start", "watch.db", "predictor.json")
    added = command.ok("monitor", "add", "watch.db", "sets.csv", "--id", "patient", "--json").json["added"]
    assert added["rows"] == ROWS
    command.refuses("are for a .csv file", "predict", "predictor.json", "test.csv", "--wide", "-o", "sets.npz")
