"""Intervals on real data: coverage over many splits, at four hospitals and on diabetes.

Half of a site's patients fit a linear model, a quarter calibrates and a quarter tests. Splits share patients, so this
cannot prove what the exact expectations do; it would notice if scores and intervals did not belong together.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.training.data import load
from fedconformal.training.data.sets.heart_disease import SCALES, SOMETIMES_MISSING

SPLITS, ALPHA = 40, 0.1
HEART = Path(os.environ.get("FEDCONFORMAL_DATA", "nowhere")) / "heart_disease.csv"
heart = pytest.mark.skipif(not HEART.exists(), reason="needs heart_disease.csv in FEDCONFORMAL_DATA")


def diabetes() -> tuple[Any, Any, Any]:
    datasets = pytest.importorskip("sklearn.datasets", reason="diabetes is inside scikit-learn")
    x, y = datasets.load_diabetes(return_X_y=True)
    return x, y, np.random.default_rng(0).integers(4, size=len(y))


def heart_rates() -> tuple[Any, Any, Any]:
    """Return the peak heart rates that were measured, and the other features."""
    parts = [load("heart_disease").rows(split) for split in ("train", "val", "test")]
    x = np.concatenate([part.x for part in parts]).astype(np.float64)
    rate, missing = list(SCALES).index("thalach"), len(SCALES) + SOMETIMES_MISSING.index("thalach")
    known = x[:, missing] == 0
    hospitals = np.concatenate([part.columns["hospital"] for part in parts])
    return np.delete(x, [rate, missing], axis=1)[known], x[known, rate], hospitals[known]


@pytest.mark.long
@pytest.mark.parametrize("name", [pytest.param("heart_rate", marks=heart), "diabetes"])
def test_coverage_holds_over_splits(name: str) -> None:
    x, y, sites = diabetes() if name == "diabetes" else heart_rates()
    x = np.column_stack([np.ones(len(x)), x])
    rng, found = np.random.default_rng(0), dict[str, list[float]]()
    for _ in range(SPLITS):
        turn = np.empty(len(y), dtype=np.int64)
        for site in np.unique(sites):
            rows = rng.permutation(np.flatnonzero(sites == site))
            turn[rows] = np.arange(len(rows)) * 4 // len(rows)
        f = x @ np.linalg.lstsq(x[turn < 2], y[turn < 2], rcond=1e-6)[0]
        for score in (fc.Residual(), fc.Signed()):
            given = [
                fc.summarize(f[mine], y[mine], score=score, site=str(site))
                for site in np.unique(sites)
                for mine in [(turn == 2) & (sites == site)]
            ]
            rule = fc.calibrate(given, alpha=ALPHA, exact=True)
            ends = rule.predict_interval(f)
            inside = (ends[:, 0] <= y) & (y <= ends[:, 1])
            weights = np.array([summary.n for summary in given])
            by_site = [inside[(turn == 3) & (sites == site)].mean() for site in np.unique(sites)]
            found.setdefault(score.name, []).append(float(weights @ by_site / weights.sum()))
    for hits in found.values():
        assert np.mean(hits) > 1 - ALPHA - 2 * np.std(hits) / SPLITS**0.5
        assert np.mean(hits) < 0.98  # not because intervals are endless
