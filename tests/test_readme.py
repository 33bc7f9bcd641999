"""The README's examples run as they stand and print what it says."""

import contextlib
import io
import re
from pathlib import Path

import numpy as np
import pytest

import fedconformal as fc
from tests.readme import README, run_readme


@pytest.mark.parametrize("page", ["README.md", "docs/groups.md", "docs/recalibration.md"])
def test_example_prints_what_the_page_says(page: str) -> None:
    text = (README.parent / page).read_text()
    found = re.search(r"```python\n(.*?)```\n\nprints\n\n```text\n(.*?)```", text, re.DOTALL)
    assert found
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(found[1], page, "exec"), {})  # noqa: S102
    assert printed.getvalue() == found[2]


def test_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sklearn", reason="the first block uses scikit-learn")
    monkeypatch.chdir(tmp_path)
    run_readme()
    assert fc.load("predictor.json").score == fc.LAC()
    assert len(np.load("sets.npz")["sets"]) == 30
    assert "<h2>What is promised</h2>" in Path("report.html").read_text("utf-8")
