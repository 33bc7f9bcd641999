"""Intervals on real data: coverage over many splits, at four hospitals and on diabetes.

Half of a site's patients fit a linear model, a quarter calibrates and a quarter tests. Splits share patients, so this
cannot prove what the exact expectations do; it would notice if scores and intervals did not belong together.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.training.data import load

SPLITS, ALPHA = 40, 0.1
HEART = Path(os.environ.get("FEDCONFORMAL_DATA", "nowhere")) / "heart_disease.csv"
heart = pytest.mark.skipif(not HEART.exists(), reason="needs heart_disease.csv in FEDCONFORMAL_DATA")


@pytest.mark.long
@pytest.mark.parametrize("name", [pytest.param("heart_rate", marks=heart), "diabetes"])
def test_coverage_holds_over_splits(name: str) -> None:
    if name == "diabetes":
        pytest.importorskip("sklearn", reason="diabetes is inside scikit-learn")
    parts = [load(name).rows(split) for split in ("train", "val", "test")]
    x = np.concatenate([part.x for part in parts]).astype(np.float64)
    x, y = np.column_stack([np.ones(len(x)), x]), np.concatenate([part.y for part in parts])
    rng, found = np.random.default_rng(0), dict[str, list[float]]()
    hospitals = [part.columns["hospital"] for part in parts] if name == "heart_rate" else [rng.integers(4, size=len(y))]
    sites = np.concatenate(hospitals)
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
