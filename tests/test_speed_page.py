"""The page about speed, and the count of false alarms, are written from what was measured, never by hand."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]


def benchmark(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, ROOT / "benchmarks" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def test_the_count_of_false_alarms_is_what_was_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    found = json.loads((ROOT / "benchmarks" / "results" / "false_alarms.json").read_text())["results"]
    page = (ROOT / "docs" / "monitoring.md").read_text()
    assert benchmark("false_alarms").written(page, found) == page, "run `benchmarks/false_alarms.py`"


def test_the_page_is_what_the_results_give() -> None:
    made = benchmark("page")
    advice = "run `python benchmarks/page.py`"
    assert (ROOT / "docs" / "speed.md").read_text() == made.page(), advice
