"""The README's examples run as they stand and print what it says."""

import contextlib
import csv
import importlib.util
import io
import re
import shlex
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.cli.app import run
from tests.contracts.frames import Column, Frame
from tests.contracts.tools import guarantee_examples

README = Path(__file__).parents[1] / "README.md"


@pytest.mark.parametrize(
    ("page", "most"),
    [("README.md", 14), ("docs/from-mapie.md", 20), ("docs/groups.md", 20), ("docs/recalibration.md", 14)],
)
def test_example_prints_what_the_page_says(page: str, most: int) -> None:
    text = (README.parent / page).read_text()
    found = re.search(r"```python\n(.*?)```\n\nprints\n\n```text\n(.*?)```", text, re.DOTALL)
    assert found
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(found[1], page, "exec"), {})  # noqa: S102
    assert printed.getvalue() == found[2]
    assert len([line for line in found[1].splitlines() if line.strip()]) <= most


def test_the_opening_says_what_is_promised_and_to_whom() -> None:
    opening = " ".join(README.read_text().partition("\n## ")[0].split())
    certificate = fc.calibrate([fc.summarize(range(9))], alpha=0.1).certificate
    assert f"coverage 1 - alpha {certificate.promise}" in opening
    assert "It is not a promise to each single site" in opening


def test_the_commands_by_files_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = re.search(r"## By files.*?```sh\n(.*?)```", README.read_text(), re.DOTALL)
    assert found
    commands = [shlex.split(line, comments=True) for line in found[1].splitlines()]
    rng = np.random.default_rng(0)

    def write(name: str) -> None:
        probs = rng.dirichlet([1, 1, 1], size=30)
        np.savetxt(f"{name}probs.csv", probs, delimiter=",")
        np.savetxt(f"{name}labels.csv", [rng.choice(3, p=row) for row in probs], fmt="%d")

    for name in ("", "new_", "test_"):
        write(name)
    Path("test_sites.csv").write_text("clinic-a\nclinic-b\n" * 15)
    Path("rows.csv").write_text("patient\n" + "".join(f"{row // 2}\n" for row in range(30)))
    assert {words[1] for words in commands} == {
        "summarize",
        "calibrate",
        "predict",
        "evaluate",
        "verify",
        "recalibrate",
        "show",
        "plan",
        "report",
    }
    for _, *words in commands:
        if words[0] == "summarize":  # at another site, which has rows of its own
            assert run([word.replace("clinic-a", "clinic-b") for word in words]) == 0
            write("")
        files = [sorted(map(str, Path().glob(word))) if "*" in word else [word] for word in words]
        assert run([word for some in files for word in some]) == 0
    assert fc.load("predictor.json").score == fc.LAC()
    assert len(np.load("sets.npz")["sets"]) == 30
    assert "<h2>What is promised</h2>" in Path("report.html").read_text("utf-8")


class Table(dict[str, Any]):
    """As much of a table of pandas as the example needs, where pandas is not installed."""

    def __getitem__(self, names: Any) -> Any:
        """Return a column, or a table of columns."""
        if isinstance(names, str):
            return Column(super().__getitem__(names))
        return Frame(names, np.array([super(Table, self).__getitem__(name) for name in names], dtype=float).T)


def read_csv(path: str) -> Table:
    """Read a table as pandas does."""
    with Path(path).open(newline="") as file:
        header, *rows = csv.reader(file)
    return Table(zip(header, map(list, zip(*rows, strict=True)), strict=True))


def test_the_example_with_pandas_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    if importlib.util.find_spec("pandas") is None:
        monkeypatch.setitem(sys.modules, "pandas", SimpleNamespace(read_csv=read_csv))
    (code,) = re.findall(r"```python\n(import pandas.*?)```", README.read_text(), re.DOTALL)
    lines = [f"{p},{1 - p},{'benign' if p > 0.3 else 'malignant'},clinic-{k % 2}" for k in range(60) for p in [k / 64]]
    Path("scans.csv").write_text("\n".join(["benign,malignant,diagnosis,clinic", *lines]))
    Path("new.csv").write_text("patient,benign,malignant\n1,0.9375,0.0625\n2,0.4375,0.5625\n3,0.0625,0.9375\n")
    exec(compile(code, "README.md", "exec"), {})  # noqa: S102
    assert capsys.readouterr().out == "benign benign;malignant malignant\n"
    assert fc.load("predictor.json").certificate.labels == ["benign", "malignant"]


def test_the_readme_is_short() -> None:
    text = README.read_text()
    assert len(text) < 11_000
    opening = text.partition("\n## ")[0]
    assert len(re.findall("^- You ", opening, re.MULTILINE)) == 3  # who it is for
    assert opening.count("```python") == 2


def test_every_guarantee_is_in_the_decision() -> None:
    (table,) = re.findall(r"## Which promise.*?\n\n(.*?)\n\n", README.read_text(), re.DOTALL)
    names = {one.__class__.__name__ for one in guarantee_examples() + guarantee_examples(by_class=True)}
    assert names <= set(re.findall(r"\w+", table))


def test_the_two_commands_come_first() -> None:
    lines = README.read_text().splitlines()
    assert [line.split()[:2] for line in lines[3:5]] == [["make", "demo"], ["make", "test"]]
