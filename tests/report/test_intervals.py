"""The page about intervals: what a board reads, what is drawn, and that nothing hides what went wrong."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import fedconformal as fc
from fedconformal._base.arrays import Floats
from fedconformal.report import report_page

SITES = ("north", "south")


def made(score: Any, rows: int = 400, alpha: float = 0.1, **about: Any) -> fc.FederatedConformalRegressor:
    rng = np.random.default_rng(0)
    sites = {name: (f, f + rng.normal(size=rows)) for name in SITES for f in [rng.normal(size=rows)]}
    return fc.FederatedConformalRegressor(score=score, alpha=alpha, **about).calibrate(sites)


def page(regressor: fc.FederatedConformalRegressor, spread: float = 1.0, rows: int = 300, **about: Any) -> str:
    """Write a page about test rows whose errors are this large."""
    rng = np.random.default_rng(1)
    f: Floats = rng.normal(size=rows)
    y = f + spread * rng.normal(size=rows)
    evaluation = regressor.evaluate(f, y, sites=np.where(np.arange(rows) % 2, *SITES), **about)
    return report_page(regressor.predictor, evaluation)


def text(html: str) -> str:
    seen = re.sub("<style>.*?</style>", "", html, flags=re.DOTALL)
    return " ".join(re.sub("<.*?>", " ", seen).split())


def test_a_promise_that_holds() -> None:
    regressor = made(fc.Residual())
    without_rows = text(report_page(regressor.predictor))
    assert "Not checked" in without_rows
    assert "Coverage by" not in without_rows
    found = page(regressor, groups={"sex": np.where(np.arange(300) % 3, "f", "m")})
    said = text(found)
    assert "Prediction intervals across 2 sites" in said
    assert "The intervals hold the true value in at least 90% of" in said
    assert "certified; no contradiction" in said
    assert "Use the intervals." in said
    for title in ("Coverage by site", "Coverage by sex"):
        assert f"<h2>{title}</h2>" in found
    assert "set" not in re.findall(r"[a-z]+", said.lower().partition("the fine print")[0])
    assert "http" not in re.sub(r"http-equiv", "", found)


def test_a_promise_that_is_broken_is_said_first() -> None:
    said = text(page(made(fc.Residual()), spread=3.0))
    assert "below the promise" in said
    assert "That is less than promised, and chance does not explain it." in said
    assert "Do not rely on the intervals until the cause is found" in said
    assert "Use the intervals." not in said


def test_a_missing_end_is_said() -> None:
    with pytest.warns(fc.InfeasibleWarning):
        lopsided = made(fc.Signed(lower=0.01), rows=200)
    with pytest.warns(fc.InfeasibleWarning):
        said = text(page(lopsided))
    assert "300 of 300 intervals have an end at infinity" in said
    assert "no interval has a lower end" in said
    assert "Nothing is promised for the end lower" in said
    assert "infinite" in said
    assert "certified; no contradiction" not in said


def test_the_whole_line_promises_nothing() -> None:
    with pytest.warns(fc.InfeasibleWarning):
        few = made(fc.Residual(), rows=4)
    with pytest.warns(fc.InfeasibleWarning):
        said = text(page(few))
    assert "so every interval is the whole line" in said
    assert "Such intervals are always right and say nothing." in said
    assert "Use the intervals." not in said
