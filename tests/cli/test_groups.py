"""Groups on the command line: from columns of a table to sets, verdicts and a page."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from tests.cli.command import Command

HEADER = "patient,benign,malignant,label,sex,age"


def table(seed: int, count: int = 120, sexes: str = "FM") -> str:
    """Return rows in which every tenth has no sex, and every fifth no age."""
    rng = np.random.default_rng(seed)
    lines = [HEADER]
    for k in range(count):
        p = rng.beta(2, 2)
        label = "malignant" if rng.random() < p else "benign"
        sex = "" if k % 10 == 0 else rng.choice(list(sexes))
        age = "" if k % 5 == 0 else rng.choice(["40-59", "60+"])
        lines.append(f"p{seed}-{k},{1 - p:.6f},{p:.6f},{label},{sex},{age}")
    return "\n".join(lines) + "\n"


COLUMNS = ("--id", "patient", "--labels", "label")
SUMMARIZE = ("summarize", *COLUMNS, "--groups", "sex,age")


@pytest.fixture
def folder(here: Path, command: Command) -> Path:
    for k in range(3):
        Path(f"{k}.csv").write_text(table(k))
        done = command.ok(*SUMMARIZE, f"{k}.csv", "--site", f"s{k}", "-o", f"{k}.fcs")
    assert "ranks by group summary of 120 scores" in done.out
    assert "how many calibration rows of each group" in " ".join(done.err.split())
    Path("test.csv").write_text(table(9, 300))
    return here


SENT = ("0.fcs", "1.fcs", "2.fcs")


def test_the_walk(folder: Path, command: Command) -> None:
    start = ("calibrate", *SENT, "--alpha", "0.2", "-o", "p.json", "--guarantee", "by-group")
    done = command.ok(*start, "--json").json["certificate"]
    groups = ["all rows", "age=40-59", "age=60+", "sex=F", "sex=M", "none of the others"]
    assert [one["group"] for one in done["promises"]] == groups
    assert done["guarantee"] == {"name": "by-group", "guarantee": {"name": "mixture", "weights": "rows"}}
    assert "by group, certified from 360 scores of 3 sites" in " ".join(command.ok(*start).out.split())
    assert command.ok("verify", "p.json", *SENT, "--json").json["confirmed"] is True
    predict = ("predict", "p.json", "test.csv", "--id", "patient")
    assert len(command.ok(*predict, "-o", "sets.npz", "--json").json["threshold"]) == len(groups)
    command.ok(*predict, "--groups", "age,sex", "-o", "again.npz")
    assert np.array_equal(np.load("sets.npz")["sets"], np.load("again.npz")["sets"])
    found = command.ok("evaluate", "p.json", "test.csv", *COLUMNS, "--json").json
    assert set(found["by_group"]) == {"age", "sex", "promised group"}
    assert {part["name"] for part in found["verdict"]["parts"]} >= {"all groups", "sex=F", "age=60+"}
    command.ok("report", "p.json", "test.csv", *COLUMNS, "-o", "r.html")
    assert "<h2>Coverage by promised group</h2>" in Path("r.html").read_text("utf-8")
    held = command.ok("show", "0.fcs", "--json").json["holds"]
    assert "all rows: 120, " in held["rows of each"]
    shown = command.ok("show", "p.json", "--json").json["holds"]
    assert all(f"{name}: " in shown["threshold of each group"] for name in ("all rows", "sex=F", "none of the others"))


def test_slips_are_one_clear_line(folder: Path, command: Command) -> None:
    command.ok("calibrate", *SENT, "--alpha", "0.2", "--guarantee", "by-group", "-o", "p.json")
    rows = Path("test.csv").read_text().splitlines()
    odd = rows[2].split(",")
    Path("odd.csv").write_text("\n".join([rows[0], rows[1], ",".join([*odd[:4], "X", odd[5]])]) + "\n")
    command.ok("summarize", "0.csv", *COLUMNS, "--drop", "sex,age", "--site", "s0", "-o", "plain.fcs")
    summarize = ("summarize", "0.csv", *COLUMNS, "-o", "x.fcs", "--groups")
    for words, problem in {
        ("predict", "p.json", "odd.csv", "--id", "patient", "-o", "s.npz"): "odd.csv: line 3 is in sex=X, as no",
        (*summarize, ","): "--groups names no column",
        ("calibrate", "plain.fcs", "1.fcs", "--guarantee", "by-group", "-o", "m.json"): "(summarize --groups)",
    }.items():
        command.refuses(problem, *words)


def test_the_commands_of_the_page(here: Path, command: Command) -> None:
    page = Path(__file__).parents[2] / "docs" / "groups.md"
    (block,) = re.findall(r"```sh\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    plain = [line.partition(",")[2].replace("label", "diagnosis") for line in table(0, 400).splitlines()]
    for name in ("rows.csv", "test.csv", "new.csv"):
        Path(name).write_text("\n".join(plain))
    for line in block.splitlines():
        command.ok(*shlex.split(line)[1:])
    assert len(np.load("sets.npz")["sets"]) == 400
    assert "Thresholds by group" in Path("report.html").read_text("utf-8")
