"""Thirty mistakes with tables: each is refused or handled with one clear line, and none changes a number in silence."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fedconformal.calibration.predictor import load
from tests.cli.command import Command

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


def write(name: str, header: list[str], lines: Lines, separator: str = ",", encoding: str = "utf-8") -> None:
    text = "".join(separator.join(cells) + "\n" for cells in [header, *lines] if cells)
    Path(name).write_bytes(text.encode(encoding))


def columns(lines: Lines, *places: int) -> Lines:
    return [[row[place] for place in places] for row in lines]


@pytest.fixture
def tables(here: Path, command: Command) -> Path:
    """Two sites and test rows as tables, and a predictor with names."""
    for k in range(2):
        found = rows(k)
        write(f"probs-{k}.csv", ["patient", *NAMES], columns(found, 0, 2, 3))
        write(f"labels-{k}.csv", ["patient", "truth"], columns(found, 0, 4))
        command.ok("summarize", f"probs-{k}.csv", f"labels-{k}.csv", "--id", "patient", "-o", f"clinic-{k}.fcs")
    command.ok("calibrate", "clinic-0.fcs", "clinic-1.fcs", "-o", "predictor.json")
    found = rows(7)
    write("test.csv", ["patient", "sex", *NAMES, "truth", "site"], found)
    write("plain.csv", ["patient", *NAMES], columns(found, 0, 2, 3))
    write("truth.csv", ["patient", "truth"], columns(found, 0, 4))
    np.save("labels.npy", [NAMES.index(row[4]) for row in found])
    return here


def in_another_order(name: str) -> Callable[[], None]:
    def change() -> None:
        first, *rest = Path(name).read_text().splitlines()
        Path(name).write_text("\n".join([first, *reversed(rest)]) + "\n")

    return change


def changed(name: str, old: str, new: str, count: int = 1) -> Callable[[], None]:
    """Replace text in a file, which must be there."""

    def change() -> None:
        text = Path(name).read_text()
        assert old in text
        Path(name).write_text(text.replace(old, new, count))

    return change


def cells(name: str, change: Callable[[int, list[str]], list[str]]) -> Callable[[], None]:
    """Change each line of a table; line 0 is the header."""

    def rewrite() -> None:
        lines = [line.split(",") for line in Path(name).read_text().splitlines()]
        Path(name).write_text("".join(",".join(change(k, line)) + "\n" for k, line in enumerate(lines)))

    return rewrite


def swapped(_: int, line: list[str]) -> list[str]:
    return [line[0], line[2], line[1], *line[3:]]


def coded(k: int, line: list[str]) -> list[str]:
    return line if not k else [line[0], str(NAMES.index(line[1]))]


def nothing() -> None:
    return None


SUMMARIZE = ["summarize", "probs-1.csv", "labels-1.csv", "--id", "patient", "-o", "again.fcs", "--site", "clinic-1"]
PREDICT = ["predict", "predictor.json", "plain.csv", "--id", "patient", "-o", "sets.csv"]
EVALUATE = ["evaluate", "predictor.json", "plain.csv", "truth.csv", "--id", "patient"]
TABLE = ["evaluate", "predictor.json", "test.csv", "--id", "patient", "--labels", "truth"]

REFUSED: list[tuple[str, Callable[[], object], list[str], str]] = [
    ("a site codes its labels", cells("labels-1.csv", coded), SUMMARIZE, "and the classes have the names benign"),
    ("an id is not in the labels", changed("labels-1.csv", "p1-3,", "q1-3,"), SUMMARIZE, "line 5 has the id p1-3"),
    ("another class", changed("plain.csv", "malignant", "malign"), PREDICT, "no column for the class malignant"),
    ("numbers for names", nothing, ["evaluate", "predictor.json", "plain.csv", "labels.npy", "--id", "patient"],
     "the classes have the names benign, malignant; write these names"),
    ("not a distribution", cells("plain.csv", lambda k, line: [line[0], "0.9", "0.9"] if k == 4 else line), PREDICT,
     "plain.csv: line 5 sums to 1.8, not 1"),
    ("umlauts from Excel", lambda: write("plain.csv", ["Kürzel", *NAMES], columns(rows(7), 0, 2, 3), encoding="cp1252"),
     ["predict", "predictor.json", "plain.csv", "--id", "Kürzel", "-o", "sets.csv"], "(--encoding)"),
    ("a file of another kind", nothing, ["predict", "clinic-0.fcs", "plain.csv", "-o", "sets.csv"], "not a predictor"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "arguments", "expected"), [c[1:] for c in REFUSED], ids=[c[0] for c in REFUSED])
def test_refused(
    tables: Path, command: Command, change: Callable[[], object], arguments: list[str], expected: str
) -> None:
    change()
    command.refuses(expected, *arguments)


HANDLED: list[tuple[str, Callable[[], object], list[str], str]] = [
    ("columns swapped", cells("plain.csv", swapped), EVALUATE, "classes benign, malignant"),
    ("rows in another order", in_another_order("truth.csv"), EVALUATE, "joined by patient"),
    ("columns with a prefix", changed("plain.csv", "benign,malignant", "prob_benign,prob_malignant"), EVALUATE,
     "columns prob_* are the classes benign, malignant"),
    ("columns that are no class", nothing, [*TABLE, "--drop", "sex,site"], "labels from truth"),
    ("one column", cells("plain.csv", lambda _, line: [line[0], line[2]]), [*EVALUATE, "--positive", "malignant"],
     "is the probability of malignant, and 1 - p that of benign"),
    ("no names", lambda: np.save("plain.npy", np.array(columns(rows(7), 2, 3), dtype=float)),
     ["evaluate", "predictor.json", "plain.npy", "truth.csv", "--labels", "truth"],
     "columns without names are taken as benign, malignant"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "arguments", "expected"), [c[1:] for c in HANDLED], ids=[c[0] for c in HANDLED])
def test_handled(
    tables: Path, command: Command, change: Callable[[], object], arguments: list[str], expected: str
) -> None:
    right = command.ok(*EVALUATE, "--json").json
    change()
    done = command.ok(*arguments, "--json")
    assert done.json == right
    assert done.err.count("\n") == 1, done.err
    assert expected in done.err


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
    assert command.ok(*TABLE, "--json").json == right
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
    write("german.csv", ["patient", *NAMES], german, ";")
    command.ok(*predict, "german.csv")
    lines = list(csv.reader(Path("sets.csv").read_text().splitlines(), delimiter=";"))
    assert lines[0] == ["patient", "size", "labels"]
    assert [line[2].split(";") for line in lines[1:]] == plain
    command.ok("monitor", "start", "watch.db", "predictor.json")
    added = command.ok("monitor", "add", "watch.db", "sets.csv", "--id", "patient", "--json").json["added"]
    assert added["rows"] == ROWS
    command.refuses("are for a .csv file", "predict", "predictor.json", "test.csv", "--wide", "-o", "sets.npz")
