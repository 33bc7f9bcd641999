"""The README's example runs as it stands and prints what it says."""

import contextlib
import io
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.cli.app import run

README = Path(__file__).parents[1] / "README.md"


@pytest.mark.parametrize(("page", "most"), [("README.md", 12), ("docs/from-mapie.md", 20)])
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
        np.save(f"{name}probs.npy", probs)
        np.save(f"{name}labels.npy", [rng.choice(3, p=row) for row in probs])

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
        "show",
        "plan",
    }
    for _, *words in commands:
        if words[0] == "summarize":  # at another site, which has rows of its own
            assert run([word.replace("clinic-a", "clinic-b") for word in words]) == 0
            write("")
        files = [sorted(map(str, Path().glob(word))) if "*" in word else [word] for word in words]
        assert run([word for some in files for word in some]) == 0
    assert fc.load("predictor.json").score == fc.LAC()
    assert len(np.load("sets.npz")["sets"]) == 30


def test_the_two_commands_come_first() -> None:
    lines = README.read_text().splitlines()
    assert [line.split()[:2] for line in lines[3:5]] == [["make", "demo"], ["make", "test"]]
