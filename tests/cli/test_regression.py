"""Intervals by files: from predictions and true numbers to summaries, a predictor, intervals and a verdict."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedconformal as fc
from fedconformal._base.arrays import Floats
from tests.cli.command import Command, write_columns

SITES = ("north", "south")
SCORES: dict[str, Any] = {
    "residual": fc.Residual(),
    "normalized": fc.Normalized(),
    "cqr": fc.CQR(),
    "signed": fc.Signed(),
}


def rows_of(seed: int, rows: int = 80) -> dict[str, Floats]:
    """Draw what a regressor says of rows, and the true numbers."""
    rng = np.random.default_rng(seed)
    f, s = rng.normal(100, 20, rows), rng.uniform(5, 15, rows)
    return {"prediction": f, "scale": s, "lower": f - s, "upper": f + s, "y": f + s * rng.normal(size=rows)}


@pytest.fixture
def tables(here: Path) -> Path:
    for seed, site in enumerate(SITES):
        write_columns(Path(f"{site}.csv"), rows_of(seed))
    test = [rows_of(10 + seed) for seed in range(2)]
    columns: dict[str, Any] = {name: np.concatenate([one[name] for one in test]) for name in test[0]}
    sites = np.repeat(SITES, 80)
    sex = np.where(np.arange(160) % 3, "f", "m")
    write_columns(Path("test.csv"), {"id": [f"v{i}" for i in range(160)], "site": sites, "sex": sex, **columns})
    return here


def calibrated(command: Command, score: str) -> Path:
    for site in SITES:
        command.ok("summarize", f"{site}.csv", "--labels", "y", "--score", score, "-o", f"{site}.fcs")
    command.ok("calibrate", *[f"{site}.fcs" for site in SITES], "-o", "p.json", "--alpha", "0.2")
    return Path("p.json")


@pytest.mark.parametrize("score", SCORES)
def test_files_give_what_python_gives(score: str, tables: Path, command: Command) -> None:
    rule, function = fc.load(calibrated(command, score)), SCORES[score]

    def chosen(columns: dict[str, Floats]) -> Floats:
        return np.column_stack([columns[name] for name in function.columns])

    sites = [
        fc.summarize(chosen(rows_of(seed)), rows_of(seed)["y"], score=function, alpha=0.1, site=site)
        for seed, site in enumerate(SITES)
    ]
    expected = fc.calibrate(sites, alpha=0.2)
    assert rule.to_bytes() == expected.to_bytes()
    test = [rows_of(10 + seed) for seed in range(2)]
    values, y = np.concatenate([chosen(one) for one in test]), np.concatenate([one["y"] for one in test])
    command.ok("predict", "p.json", "test.csv", "--id", "id", "-o", "out.csv")
    with Path("out.csv").open() as file:
        header, *lines = csv.reader(file)
    assert header == ["id", "lower", "upper"]
    assert [line[0] for line in lines] == [f"v{i}" for i in range(160)]
    assert np.array_equal(np.array([line[1:] for line in lines], float), expected.predict_interval(values))
    done = command.ok(
        *("evaluate", "p.json", "test.csv", "--labels", "y", "--sites", "site", "--groups", "sex", "--json")
    )
    found = expected.evaluate(
        values, y, sites=np.repeat(SITES, 80), groups={"sex": np.where(np.arange(160) % 3, "f", "m")}
    )
    stated = found.to_dict()
    assert {key: done.json[key] for key in stated} == stated
    assert command.ok("verify", "p.json", "north.fcs", "south.fcs").out.endswith("confirmed from 2 summaries\n")


def test_what_is_printed(tables: Path, command: Command) -> None:
    calibrated(command, "signed")
    given = ("test.csv", "--labels", "y", "--sites", "site", "--groups", "sex")
    said = command.ok("evaluate", "p.json", *given).out
    assert all(word in said for word in ("the intervals miss", "mean width", "median", "north", "f ", "m "))
    assert "The intervals hold the true value with probability at least 0.8" in command.ok("show", "p.json").out
    command.ok("predict", "p.json", "test.csv", "-o", "out.npz")
    assert np.load("out.npz")["intervals"].shape == (160, 2)
    command.ok("report", "p.json", *given, "-o", "page.html")
    assert "Coverage by sex" in Path("page.html").read_text()


def test_other_names_decimal_commas_and_arrays(tables: Path, command: Command) -> None:
    rows = rows_of(0)
    german = {"q05": rows["lower"], "q95": rows["upper"], "wert": rows["y"]}
    write_columns(
        "excel.csv",
        {name: [f"{one!r}".replace(".", ",") for one in column.tolist()] for name, column in german.items()},
        ";",
    )
    np.save("ends.npy", np.column_stack([rows["lower"], rows["upper"]]))
    np.save("y.npy", rows["y"])
    summarize = ("summarize", "--score", "cqr", "--site", "north", "-o")
    command.ok(*summarize, "north.fcs", "north.csv", "--labels", "y")
    command.ok(*summarize, "excel.fcs", "excel.csv", "--predictions", "q05,q95", "--labels", "wert")
    command.ok(*summarize, "arrays.fcs", "ends.npy", "y.npy")
    for other in ("excel.fcs", "arrays.fcs"):
        assert Path(other).read_bytes() == Path("north.fcs").read_bytes()


def test_too_few_scores_are_said_with_what_would_help(tables: Path, command: Command) -> None:
    write_columns(Path("small.csv"), {name: values[:5] for name, values in rows_of(0).items()})
    command.ok("summarize", "small.csv", "--score", "residual", "--labels", "y", "-o", "small.fcs")
    said = command.ok("calibrate", "small.fcs", "-o", "p.json").err
    assert "so every interval is the whole line; calibration scores needed: 4 more in all" in said
    done = command.ok("predict", "p.json", "test.csv", "-o", "out.csv", "--json")
    assert (done.json["uninformative"], done.json["mean_size"], done.json["threshold"]) == (160, None, "inf")
    assert "160 of 160 intervals have an end at infinity: alpha=0.1 cannot be promised" in done.err
    assert Path("out.csv").read_text().splitlines()[1] == "0,-inf,inf"


def test_what_does_not_go_with_intervals(tables: Path, command: Command) -> None:
    calibrated(command, "residual")
    residual = ("summarize", "north.csv", "--labels", "y", "-o", "x.fcs", "--score", "residual")
    write_columns(Path("classes.csv"), {"a": [0.5, 0.5], "b": [0.5, 0.5], "y": ["a", "b"]})
    for given, expected in (
        ((*residual, "--classes", "a,b"), "--classes is for classes, and these are numbers"),
        ((*residual, "--from", "logits"), "--from logits is for classes"),
        (("summarize", "classes.csv", *residual[2:6], "--predictions", "a"), "--predictions is for a score of numbers"),
        (("predict", "p.json", "test.csv", "--groups", "sex", "-o", "out.csv"), "--groups goes with a predictor by"),
        (("predict", "p.json", "test.csv", "--wide", "-o", "out.csv"), "--wide has a column for each class"),
        (
            ("calibrate", "north.fcs", "--guarantee", "by-class", "-o", "q.json"),
            "by-class is for classes, and residual",
        ),
        (("evaluate", "p.json", "test.csv"), "name their column with --labels"),
        (("summarize", "run.npz", "--score", "residual", "-o", "x"), "run.npz: give LABELS as well"),
    ):
        command.refuses(expected, *given)
