"""Estimators with pandas: sets by name and as frames."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression

import fedconformal as fc
from tests.contracts.tools import refused

RNG = np.random.default_rng(0)
KINDS = RNG.integers(0, 3, 300)
X = pd.DataFrame(RNG.normal(size=(300, 2)) + KINDS[:, None], columns=["width", "height"], index=range(7, 307))
Y = pd.Series(np.array(["ash", "elm", "oak"])[KINDS], index=X.index)
SITES = pd.Series(RNG.choice(["north", "south"], 300), index=X.index)


def classifier(**given: Any) -> Any:
    made = fc.FederatedConformalClassifier(LogisticRegression(), alpha=0.2, random_state=0, **given)
    return made.fit(X, Y, sites=SITES)


def test_sets_by_name_and_as_a_frame() -> None:
    made = classifier(guarantee="every-site", score="aps")
    sets = made.predict_set(X, sites=SITES)
    names = [list(made.classes_[row]) for row in sets]
    assert made.predict_set(X, sites=SITES, output="labels") == names
    frame = made.predict_set(X, sites=SITES, output="frame")
    assert frame.index.equals(X.index)
    assert frame.columns.tolist() == ["ash", "elm", "oak"]
    assert np.array_equal(frame.to_numpy(), sets)
    probs = pd.DataFrame(made.predict_proba(X), columns=made.classes_, index=X.index)
    assert made.predictor.predict_set(probs, sites=SITES, output="labels") == names
    assert made.predictor.predict_set(probs, sites=SITES, output="frame").equals(frame)
    with refused(param="output"):
        made.predict_set(X, output="list")


def test_classes_without_names_are_numbers() -> None:
    made = fc.FederatedConformalClassifier(alpha=0.2).calibrate([([[0.75, 0.25]] * 20, [0] * 20)])
    assert made.predictor.predict_set([[0.75, 0.25]], output="labels") == [[0]]
    assert made.predict_set([[0.75, 0.25]], output="frame").columns.tolist() == [0, 1]
