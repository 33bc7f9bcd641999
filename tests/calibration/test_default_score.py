"""The score that is used when none is named: one for every way in, and the one that the results choose."""

from __future__ import annotations

import importlib
import json
import tomllib
from pathlib import Path

import pytest

import fedconformal as fc
from fedconformal._base import registry
from fedconformal.scores import DEFAULT, Score

ROOT = Path(__file__).parents[2]
ROWS = [[0.75, 0.25]] * 20, [0] * 20


def test_every_way_in_takes_the_default() -> None:
    """And tests/evaluation/test_full_sets.py shows that it says something where sums of probabilities do not."""
    assert fc.summarize(*ROWS).provenance.score == DEFAULT
    assert fc.FederatedConformalClassifier().calibrate(*ROWS).predictor.score == DEFAULT
    text = (ROOT / "src" / "fedconformal" / "engines" / "flower" / "template" / "app.toml").read_text("utf-8")
    assert registry.find(tomllib.loads(text)["tool"]["flwr"]["app"]["config"]["score"], Score)() == DEFAULT


def test_the_default_is_what_the_results_choose(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    evidence = importlib.import_module("benchmarks.default_score")
    results = json.loads((evidence.RESULTS / f"{evidence.NAME}.json").read_bytes())["results"]
    assert evidence.SCORES[evidence.choice(results)] == DEFAULT
