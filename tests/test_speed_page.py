"""The page about speed is written from what was measured, never by hand."""

from __future__ import annotations

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_page_is_what_the_results_give() -> None:
    spec = importlib.util.spec_from_file_location("page", ROOT / "benchmarks" / "page.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    advice = "run `python benchmarks/page.py`"
    assert (ROOT / "docs" / "speed.md").read_text() == made.page(), advice
