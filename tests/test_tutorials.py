"""Tutorials and decision pages run as a reader runs them, each in a process of its own, and print what they say."""

import importlib.util
import os
import re
import subprocess
import sys
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
ON_NVFLARE = """
import sys
from pathlib import Path
import pytest
from tests.engines.nvflare.in_process import in_process
from tests.pages import run_page

with pytest.MonkeyPatch.context() as patch:
    in_process(patch, Path.cwd())
    run_page(Path(sys.argv[1]))
"""


def skip_without(page: Path) -> None:
    for module in NEEDS.get(page.stem, ()):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{page.name} needs {module}")


def start(*arguments: str | Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run Python with this repository's own packages."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("FEDCONFORMAL")}
    paths = os.pathsep.join(map(str, (ROOT, ROOT / "src")))
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=env | {"PYTHONPATH": paths, "NVFLARE_SIMULATOR_WORKSPACE_ROOT": str(folder)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_page_runs_and_prints_what_it_says(page: Path, tmp_path: Path) -> None:
    skip_without(page)
    how = ("-c", ON_NVFLARE) if page.stem == "nvflare-job" else ("-m", "tests.pages")
    done = start(*how, page, folder=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "Warning:" not in done.stderr


@pytest.mark.slow
@pytest.mark.engine
def test_the_nvflare_job_gives_the_same_on_the_simulator(tmp_path: Path) -> None:
    page = DOCS / "tutorials" / "nvflare-job.md"
    skip_without(page)
    blocks = blocks_of(page)
    (tmp_path / "digits.py").write_text("\n".join(one.text for one in blocks if one.language == "python"), "utf-8")
    done = start("digits.py", folder=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split()[-len(blocks[-1].text.split()) :] == blocks[-1].text.split()


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
