"""The score that is used when none is named: one for every way in, and one whose sets say something."""

from __future__ import annotations

import importlib.util
import json
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import fedconformal as fc
from fedconformal._base import registry
from fedconformal._base.arrays import Floats, Integers
from fedconformal.scores import DEFAULT, Score

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "fedconformal"
ALPHA = 0.1

Rows = tuple[Floats, Integers]


def two_classes() -> tuple[list[Rows], Rows]:
    """Tell malignant from benign by three features; return four sites, dealt at random, and test rows."""
    pytest.importorskip("sklearn", reason="the data are inside scikit-learn")
    from sklearn.datasets import load_breast_cancer
    from sklearn.linear_model import LogisticRegression

    x, y = load_breast_cancer(return_X_y=True)
    x = (x[:, :3] - x[:, :3].mean(axis=0)) / x[:, :3].std(axis=0)
    fit, calibrate, test = np.array_split(np.random.default_rng(5).permutation(len(y)), 3)
    model = LogisticRegression().fit(x[fit], y[fit])
    assert np.mean(model.predict(x[calibrate]) != y[calibrate]) > ALPHA
    sites = [(model.predict_proba(x[rows]), y[rows]) for rows in np.array_split(calibrate, 4)]
    return sites, (model.predict_proba(x[test]), y[test])


def test_two_classes_with_more_errors_than_alpha() -> None:
    sites, test = two_classes()
    found = fc.FederatedConformalClassifier(alpha=ALPHA).calibrate(sites).evaluate(*test)
    assert found.mean_size < 1.2
    assert found.coverage >= 1 - ALPHA
    for score in (fc.APS(), fc.RAPS()):  # as docs/scores.md says; in float64, where every sum is one
        summaries = [fc.Summary.of_scores(score.evaluate(*site), kind="exact", score=score) for site in sites]
        predictor = fc.calibrate(summaries, alpha=ALPHA)
        assert predictor.evaluate(*test).mean_size == 2


def test_the_flower_template_names_the_default() -> None:
    text = (SOURCE / "engines" / "flower" / "template" / "app.toml").read_text("utf-8")
    assert registry.find(tomllib.loads(text)["tool"]["flwr"]["app"]["config"]["score"], Score)() == DEFAULT


@pytest.fixture(scope="module")
def evidence() -> ModuleType:
    """The script that measured, which also writes the page."""
    folder = ROOT / "benchmarks"
    spec = importlib.util.spec_from_file_location("default_score", folder / "default_score.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        patch.setitem(sys.modules, spec.name, made)  # dataclasses look their module up
        spec.loader.exec_module(made)
    return made


@pytest.fixture(scope="module")
def results(evidence: ModuleType) -> Any:
    return json.loads((evidence.RESULTS / f"{evidence.NAME}.json").read_bytes())["results"]


def test_the_default_is_what_the_results_choose(evidence: ModuleType, results: Any) -> None:
    assert evidence.SCORES[evidence.choice(results)] == DEFAULT
