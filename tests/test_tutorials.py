"""Tutorials and decision pages run as a reader runs them, and print what they say."""

import importlib.util
import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from tests.pages import blocks_of, run_page

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
TUTORIALS = [DOCS / "start.md", *sorted((DOCS / "tutorials").glob("*.md"))]
PAGES = [*TUTORIALS, DOCS / "which-guarantee.md", DOCS / "which-privacy.md"]
NEEDS = {
    "flower-app": ["flwr"],
    "nvflare-job": ["nvflare", "sklearn"],
    "own-model": ["torch"],
    "privacy-officer": ["cryptography", "opendp"],
    "scikit-learn": ["sklearn"],
    "which-privacy": ["cryptography", "opendp"],
}


PLUGIN = "new-score"
"""Its class would stay in the registry of this process."""


def start(*arguments: str | Path, folder: Path) -> str:
    """Run Python with this repository's own packages, and return its output."""
    paths = {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}", "NVFLARE_SIMULATOR_WORKSPACE_ROOT": str(folder)}
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=os.environ | paths,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def skip_without(page: Path) -> None:
    for module in NEEDS.get(page.stem, ()):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{page.name} needs {module}")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_page_runs_and_prints_what_it_says(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    skip_without(page)
    monkeypatch.chdir(tmp_path)
    for variable in [name for name in os.environ if name.startswith("FEDCONFORMAL")]:
        monkeypatch.delenv(variable)
    if page.stem == "nvflare-job":
        from tests.engines.nvflare.in_process import in_process

        in_process(monkeypatch, tmp_path)
    if page.stem == PLUGIN:
        start("-W", "error", "-m", "tests.pages", page, folder=tmp_path)
        return
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run_page(page)


@pytest.mark.slow
@pytest.mark.engine
def test_the_nvflare_job_gives_the_same_on_the_simulator(tmp_path: Path) -> None:
    page = DOCS / "tutorials" / "nvflare-job.md"
    skip_without(page)
    blocks = blocks_of(page)
    (tmp_path / "digits.py").write_text("\n".join(one.text for one in blocks if one.language == "python"), "utf-8")
    printed = start("digits.py", folder=tmp_path).split()
    assert printed[-len(blocks[-1].text.split()) :] == blocks[-1].text.split()


def test_a_page_that_is_wrong_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```python\nprint(1)\nprint(2)\n```\n\nprints\n\n```text\n1\n...\n```\n")
    run_page(page)
    page.write_text(page.read_text().replace("1\n...", "1\n3"))
    with pytest.raises(AssertionError, match=re.escape("page.md, line 9: the page says")):
        run_page(page)
    page.write_text("```sh\nrm -r x\n```\n")
    with pytest.raises(AssertionError, match="a page runs fedconformal only"):
        run_page(page)
    page.write_text("```sh\nfedconformal show page.md\n```\n")
    with pytest.raises(AssertionError, match="ends with 2"):
        run_page(page)
