"""The synthetic problems of docs/scores.md: the page is what was measured."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from fedconformal.scores import DEFAULT

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
OWN = ("synthetic_scores", "default_score", "common")


@pytest.fixture(scope="module")
def evidence() -> Iterator[ModuleType]:
    """The script that measured, which also writes the page."""
    kept = {name: sys.modules.pop(name) for name in OWN if name in sys.modules}
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(BENCHMARKS)
        yield importlib.import_module("synthetic_scores")
    for name in OWN:
        sys.modules.pop(name, None)
    sys.modules.update(kept)


@pytest.fixture(scope="module")
def found(evidence: ModuleType) -> Any:
    return json.loads((evidence.RESULTS / f"{evidence.NAME}.json").read_bytes())["results"]


def test_the_page_is_what_the_results_give(evidence: ModuleType) -> None:
    assert evidence.PAGE.read_text("utf-8") == evidence.page(), "run `python benchmarks/synthetic_scores.py --page`"


def test_the_first_problems_give_the_same_numbers_again(evidence: ModuleType, found: Any) -> None:
    assert len(found["again"]) == evidence.AGAIN
    for seed, saved in enumerate(found["again"]):
        made = evidence.measure(evidence.draw(seed))
        assert made["classes"] == saved["classes"]
        assert made["size"] == pytest.approx(saved["size"], rel=0.01)  # another processor rounds in its own way


def test_the_default_is_the_smallest_most_often(evidence: ModuleType, found: Any) -> None:
    best = next(name for name, score in evidence.SCORES.items() if score == DEFAULT)
    for what, one in found["regimes"].items():
        assert one["smallest"][best] == max(one["smallest"].values()), what
        assert min(one["over_lac"].values()) == 1 or not what.endswith("classes"), what
