"""Every example runs, and its sets keep about what its certificate promises."""

import importlib.util
import re
import runpy
import warnings
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
NEEDS = {"scikit_learn": ["sklearn"], "on_flower": ["flwr"], "private_sums": ["cryptography"], "own_model": ["torch"]}
NEAR = 0.06
"""Some hundred calibration rows move coverage by about 0.015 from draw to draw, and sets of every label have 1."""


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_the_example_prints_its_promise_and_keeps_it(
    example: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for module in NEEDS.get(example.stem, ()):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{example.name} needs {module}")
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        runpy.run_path(str(example), run_name="__main__")
    printed = capsys.readouterr().out
    assert "The sets hold the true label with probability at least 0.9 for a test row" in printed
    found = re.search(r"^coverage (\S+), (\S+) labels per set$", printed, re.MULTILINE)
    assert found
    assert abs(float(found[1]) - 0.9) < NEAR
    assert list(tmp_path.iterdir()) == []
