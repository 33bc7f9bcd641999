"""Every example runs as a stranger runs it, and its sets keep about what its certificate promises."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import fedconformal

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
NEEDS = {"scikit_learn": ["sklearn"], "on_flower": ["flwr"], "private_sums": ["cryptography"], "own_model": ["torch"]}
NEAR = 0.06
"""Some hundred calibration rows move coverage by about 0.015 from draw to draw, and sets of every label have 1."""


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_the_example_prints_its_promise_and_keeps_it(example: Path, tmp_path: Path) -> None:
    for module in NEEDS.get(example.stem, ()):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{example.name} needs {module}")
    source = str(Path(fedconformal.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, str(example)],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": source},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
    assert "The sets hold the true label with probability at least 0.9 for a test row" in done.stdout
    found = re.search(r"^coverage (\S+), (\S+) labels a set$", done.stdout, re.MULTILINE)
    assert found
    assert abs(float(found[1]) - 0.9) < NEAR
    assert list(tmp_path.iterdir()) == []


def test_the_examples_say_what_the_readme_says_of_them() -> None:
    texts = {path.stem: path.read_text() for path in EXAMPLES}
    assert set(texts) == {"arrays", "files", "on_flower", "own_model", "private_sums", "scikit_learn"}
    assert all(30 <= len(text.splitlines()) <= 60 for text in texts.values())
    linked = re.findall(r"\]\(examples/(\w+)\.py\)", (ROOT / "README.md").read_text())
    assert sorted(linked) == sorted(texts)
    for name, text in texts.items():
        assert f"python examples/{name}.py" in text
