"""docs/results.md is written by the program: it has every table and figure, and comes out the same every time."""

import re
from pathlib import Path

import pytest
from fedconformal_paper.catalogue import FIGURES, TABLES
from fedconformal_paper.figures import accuracy
from fedconformal_paper.logits import LogitsFolder
from fedconformal_paper.results import write_results
from fedconformal_paper.setup import Setup

from paper.tests.conftest import write_logits

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_is_complete_and_repeatable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accuracy, "TRIALS", 2)
    logits = tmp_path / "logits"
    logits.mkdir()
    write_logits(logits, "dermamnist_central")
    setup = Setup(logits=LogitsFolder(directory=logits), count=2)
    pages = []
    for name in ("one", "two"):
        absent = write_results(setup, tmp_path / name / "results.md")
        pages.append((tmp_path / name / "results.md").read_bytes())
        assert "fig1" not in absent
        assert "quantile-compare" in absent
    assert pages[0] == pages[1]
    text = pages[0].decode()
    assert str(tmp_path) not in text
    assert "-o LOGITS/" in text
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == [*TABLES, *FIGURES]


def test_the_page_in_the_docs_is_up_to_date() -> None:
    text = (DOCS / "results.md").read_text()
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == [*TABLES, *FIGURES]
    linked = re.findall(r"\]\((images/results/.*?\.svg)\)", text)
    assert {DOCS / path for path in linked} == set((DOCS / "images" / "results").glob("*.svg"))
