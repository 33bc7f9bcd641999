"""The README's examples run as they stand and print what it says."""

import contextlib
import io
import re
from pathlib import Path

import numpy as np
import pytest

import fedconformal as fc
from tests.contracts.tools import guarantee_examples
from tests.readme import README, blocks, run_readme, write_files


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


def test_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sklearn", reason="the first block uses scikit-learn")
    pytest.importorskip("pandas", reason="the second block uses pandas")
    monkeypatch.chdir(tmp_path)
    run_readme()
    assert fc.load("predictor.json").score == fc.LAC()
    assert len(np.load("sets.npz")["sets"]) == 30
    assert "<h2>What is promised</h2>" in Path("report.html").read_text("utf-8")


def test_the_example_with_pandas_matches_columns_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pandas", reason="the block uses pandas")
    monkeypatch.chdir(tmp_path)
    write_files()
    capsys.readouterr()
    (block,) = [block for block in blocks() if block.text.startswith("import pandas")]
    exec(compile(block.text, "README.md", "exec"), {})  # noqa: S102
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
