"""Documents: examples run as they stand, measured tables are those of the results, and named tests exist."""

from __future__ import annotations

import importlib
import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

import fedconformal as fc
from tests.cli.command import Command
from tests.contracts.tools import guarantee_examples
from tests.monitoring.watches import CLASSES, predictor, rows_of
from tests.pages import blocks_of, run_blocks
from tests.readme import run_readme

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"


@pytest.mark.parametrize("name", ["groups.md", "recalibration.md"])
def test_example_prints_what_the_page_says(name: str) -> None:
    blocks = blocks_of(DOCS / name)
    place = next(i for i, block in enumerate(blocks) if block.shown)
    run_blocks(DOCS / name, blocks[place - 1 : place + 1])


def test_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sklearn", reason="the first block uses scikit-learn")
    monkeypatch.chdir(tmp_path)
    run_readme()
    assert fc.load("predictor.json").score == fc.LAC()
    assert len(np.load("sets.npz")["sets"]) == 30
    assert "<h2>What is promised</h2>" in Path("report.html").read_text("utf-8")


def test_commands_of_the_docs_run_in_powershell_too() -> None:
    """PowerShell has no line continuation by a backslash, no `<` and no `export`, and parts an argument at a comma."""
    blocks = [
        (path.name, block)
        for path in (ROOT / "README.md", *DOCS.rglob("*.md"))
        for block in re.findall(r"```(?:sh|console)\n(.*?)```", path.read_text("utf-8"), re.DOTALL)
    ]
    lines = [(name, re.sub(r"\"[^\"]*\"|(^|\s)#.*", "", line)) for name, block in blocks for line in block.splitlines()]
    assert lines
    assert [found for found in lines if re.search(r"\\$|,|'|&&|<|^export ", found[1])] == []


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(capsys)


def test_the_commands_of_monitoring_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command) -> None:
    monkeypatch.chdir(tmp_path)
    rule: fc.Predictor = predictor()
    rule.save("predictor.json")
    probs, labels = rows_of(9, 40)
    lines = [",".join([f"p{k}", *(f"{p:.6f}" for p in row)]) for k, row in enumerate(probs)]
    Path("predictions.csv").write_text("\n".join([",".join(["id", *CLASSES]), *lines]) + "\n")
    lines = [f"p{k},{CLASSES[label]}" for k, label in enumerate(labels[:30])]
    Path("outcomes.csv").write_text("\n".join(["id,label", *lines]) + "\n")
    found = re.search(r"```sh\n(.*?)```", (DOCS / "monitoring.md").read_text(), re.DOTALL)
    assert found
    commands = [shlex.split(line, comments=True) for line in found[1].splitlines()]
    said = [command.ok(*words).out for _, *words in commands]
    assert "30 outcomes" in said[2]
    assert np.isclose(len(Path("clinic-a.fcw").read_bytes()), 100, atol=30)


def test_the_count_of_false_alarms_is_what_was_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    found = json.loads((ROOT / "benchmarks" / "results" / "false_alarms.json").read_text())["results"]
    page = (DOCS / "monitoring.md").read_text()
    made = importlib.import_module("benchmarks.false_alarms")
    assert made.written(page, found) == page, "run `benchmarks/false_alarms.py`"


def test_the_page_of_speed_is_what_the_results_give() -> None:
    made = importlib.import_module("benchmarks.page")
    assert (DOCS / "speed.md").read_text() == made.page(), "run `python benchmarks/page.py`"


def test_every_guarantee_has_a_proof() -> None:
    proved = re.findall(r"^## (\w+)$", (DOCS / "proofs.md").read_text("utf-8"), re.MULTILINE)
    guarantees = guarantee_examples() + guarantee_examples(by_class=True)
    assert set(proved) >= {type(one).__name__ for one in guarantees} | {"LearnThenTest"}


def test_every_test_that_is_named_exists() -> None:
    text = "\n".join(page.read_text("utf-8") for page in DOCS.rglob("*.md"))
    code = "\n".join(path.read_text("utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    named = set(re.findall(r"`(test_\w+)`", text)) - {"test_size"}  # a parameter
    assert [name for name in sorted(named) if f"def {name}(" not in code] == []
    files = set(re.findall(r"`(tests/[\w/]+\.py)`", text))
    assert [name for name in sorted(files) if not (ROOT / name).is_file()] == []
