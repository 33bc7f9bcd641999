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
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command) -> Path:
    monkeypatch.chdir(tmp_path)
    for k in range(3):
        Path(f"{k}.csv").write_text(table(k))
        done = command.ok(*SUMMARIZE, f"{k}.csv", "--site", f"s{k}", "-o", f"{k}.fcs")
    assert "ranks by group summary of 120 scores" in done.out
    assert "how many calibration rows of each group" in " ".join(done.err.split())
    Path("test.csv").write_text(table(9, 300))
    return tmp_path


SENT = ("0.fcs", "1.fcs", "2.fcs")


def test_the_walk(folder: Path, command: Command) -> None:
    start = ("calibrate", *SENT, "--alpha", "0.2", "-o", "p.json")
    done = command.ok(*start, "--guarantee", "by-group", "--json").json["certificate"]
    groups = ["all rows", "age=40-59", "age=60+", "sex=F", "sex=M", "none of the others"]
    assert [one["group"] for one in done["promises"]] == groups
    assert done["guarantee"] == {"name": "by-group", "guarantee": {"name": "mixture", "weights": "rows"}}
    said = command.ok("calibrate", *SENT, "--alpha", "0.2", "-o", "q.json", "--guarantee", "by-group:mixture").out
    assert "given any group that the row is in" in " ".join(said.split())
    assert "by group, certified from 360 scores of 3 sites" in " ".join(said.split())
    assert Path("p.json").read_bytes() == Path("q.json").read_bytes()
    assert command.ok("verify", "p.json", *SENT, "--json").json["confirmed"] is True
    made = command.ok("predict", "p.json", "test.csv", "--id", "patient", "--drop", "label", "-o", "sets.npz", "--json")
    assert len(made.json["threshold"]) == len(groups)
    named = ("predict", "p.json", "test.csv", "--id", "patient", "--drop", "label", "--groups", "age,sex")
    command.ok(*named, "-o", "again.npz")
    assert np.array_equal(np.load("sets.npz")["sets"], np.load("again.npz")["sets"])
    found = command.ok("evaluate", "p.json", "test.csv", *COLUMNS, "--json").json
    assert set(found["by_group"]) == {"age", "sex", "promised group"}
    assert {part["name"] for part in found["verdict"]["parts"]} >= {"all groups", "sex=F", "age=60+"}


def test_what_files_hold_is_shown(folder: Path, command: Command) -> None:
    said = command.ok("show", "0.fcs", "--json").json
    assert "all rows: 120, " in said["holds"]["rows of each group"]
    assert "how many calibration rows of each group" in " ".join(said["learns"])
    command.ok("calibrate", *SENT, "--alpha", "0.2", "--guarantee", "by-group", "-o", "p.json")
    shown = command.ok("show", "p.json", "--json").json["holds"]
    assert shown["guarantee"] == "mixture by group"
    assert all(f"{name}: " in shown["threshold of each group"] for name in ("all rows", "sex=F", "none of the others"))


def test_few_scores_are_said_with_the_group(folder: Path, command: Command) -> None:
    done = command.ok("calibrate", *SENT, "--alpha", "0.02", "--guarantee", "by-group", "-o", "p.json")
    said = " ".join(done.err.split())
    assert "cannot be promised to none of the others, where every label is in every set" in said
    assert "none of the others: calibration scores needed:" in said


def test_slips_are_one_clear_line(folder: Path, command: Command) -> None:
    command.ok("calibrate", *SENT, "--alpha", "0.2", "--guarantee", "by-group", "-o", "p.json")
    rows = Path("test.csv").read_text().splitlines()
    odd = rows[2].split(",")
    Path("odd.csv").write_text("\n".join([rows[0], rows[1], ",".join([*odd[:4], "X", odd[5]])]) + "\n")
    Path("bare.csv").write_text("benign,malignant\n0.5,0.5\n")
    predict = ("predict", "p.json", "-o", "s.npz")
    problems = {
        (*predict, "odd.csv", "--id", "patient", "--drop", "label"): "odd.csv: line 3 is in sex=X, as no",
        (*predict, "bare.csv"): "has no column age",
        ("evaluate", "p.json", "odd.csv", *COLUMNS): "leave such rows out",
        ("summarize", "0.csv", *COLUMNS, "--groups", "sex,size", "-o", "x.fcs"): "has no column size",
        ("summarize", "0.csv", *COLUMNS, "--groups", ",", "-o", "x.fcs"): "--groups names no column",
        (
            "summarize",
            "0.csv",
            *COLUMNS,
            "--groups",
            "sex",
            "--chunks",
            "-o",
            "x.fcs",
        ): "does not go with --chunks",
        ("summarize", "0.csv", *COLUMNS, "--groups", "label", "-o", "x.fcs"): "label has two uses",
    }
    for words, problem in problems.items():
        done = command(*words)
        assert done.code == 2, words
        assert done.out == ""
        assert problem in " ".join(done.err.split()), done.err
        assert not Path("x.fcs").exists()
        assert not Path("s.npz").exists()
    command.ok("summarize", "0.csv", *COLUMNS, "--drop", "sex,age", "--site", "s0", "-o", "plain.fcs")
    mixed = command("calibrate", "plain.fcs", "1.fcs", "--guarantee", "by-group", "-o", "m.json")
    assert mixed.code == 2
    assert "site 's0' was not summarised by group; summarise with groups= (summarize --groups)" in " ".join(
        mixed.err.split()
    )


def test_the_page(folder: Path, command: Command) -> None:
    command.ok("calibrate", *SENT, "--alpha", "0.2", "--guarantee", "by-group", "-o", "p.json")
    command.ok("report", "p.json", "test.csv", *COLUMNS, "-o", "r.html")
    page = Path("r.html").read_text("utf-8")
    assert "<h2>Coverage by sex</h2>" in page
    assert "<h2>Coverage by promised group</h2>" in page
    assert "<h2>Every group by itself</h2>" in page
    command.ok("report", "p.json", "-o", "bare.html")
    assert "<h2>Every group by itself</h2>" in Path("bare.html").read_text("utf-8")


def test_the_commands_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command) -> None:
    monkeypatch.chdir(tmp_path)
    page = Path(__file__).parents[2] / "docs" / "groups.md"
    (block,) = re.findall(r"```sh\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    plain = [line.partition(",")[2].replace("label", "diagnosis") for line in table(0, 400).splitlines()]
    Path("rows.csv").write_text("\n".join(plain))
    Path("test.csv").write_text("\n".join(plain))
    Path("new.csv").write_text("\n".join(",".join(line.split(",")[:2] + line.split(",")[3:]) for line in plain))
    for line in block.splitlines():
        _, *words = shlex.split(line)
        command.ok(*[one for word in words for one in (sorted(Path().glob(word)) if "*" in word else [word])])
    assert len(np.load("sets.npz")["sets"]) == 400
    assert "Every group by itself" in Path("report.html").read_text("utf-8")
