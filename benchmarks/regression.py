"""Coverage and width of intervals at real hospitals.

    FEDCONFORMAL_DATA=DIRECTORY python benchmarks/regression.py

The peak heart rate of patients at four hospitals, whose sites are real and differ, and scikit-learn's diabetes, which
is from one place and is parted at random. In each of 200 splits half of a site's patients train linear models, a
quarter calibrates and a quarter tests. The table goes into docs/regression.md.
"""

# ruff: noqa: T201

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np
from common import HERE
from sklearn.datasets import load_diabetes
from sklearn.linear_model import QuantileRegressor, Ridge

import fedconformal as fc
from fedconformal._base.arrays import Floats
from fedconformal.training.data import load
from fedconformal.training.data.sets.heart_disease import SCALES, SOMETIMES_MISSING

SPLITS, ALPHA = 200, 0.1
PAGE = HERE.parent / "docs" / "regression.md"
SCORES = (fc.Residual(), fc.Normalized(), fc.CQR(), fc.Signed())
GUARANTEES = {"Mixture": fc.Mixture(), "EverySite": fc.EverySite()}


def columns_of(score: fc.RegressionScore, f: Floats, scale: Floats, low: Floats, high: Floats) -> Floats:
    """Choose what a score takes."""
    found = {"prediction": f, "scale": scale, "lower": np.minimum(low, high), "upper": np.maximum(low, high)}
    return np.stack([found[name] for name in score.columns], axis=1).squeeze()


def split(sites: np.ndarray[Any, Any], rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """Let half of each site's rows train (0), a quarter calibrate (1) and a quarter test (2)."""
    part = np.empty(len(sites), dtype=np.int64)
    for site in np.unique(sites):
        rows = rng.permutation(np.flatnonzero(sites == site))
        part[rows] = np.searchsorted([len(rows) // 2, 3 * len(rows) // 4], np.arange(len(rows)), side="right")
    return part


def fitted(x: Floats, y: Floats, train: Any) -> tuple[Floats, ...]:
    """Predict a mean, a scale, and a lower and an upper quantile, with linear models of the training rows."""
    mean = Ridge(1.0).fit(x[train], y[train]).predict(x)
    errors = np.abs(y - mean)[train]
    scale = np.maximum(Ridge(1.0).fit(x[train], errors).predict(x), np.quantile(errors, 0.1))
    ends = [QuantileRegressor(quantile=level, alpha=0.01).fit(x[train], y[train]).predict(x) for level in (0.05, 0.95)]
    return mean, scale, *ends


def diabetes(rng: np.random.Generator) -> tuple[Any, Any, Any]:
    """Return scikit-learn's patients, with columns of deviation 1, at random sites."""
    x, y = load_diabetes(return_X_y=True)
    return x * len(y) ** 0.5, y, rng.integers(4, size=len(y))


def heart_rates() -> tuple[Any, Any, Any]:
    """Return features, measured peak heart rates in beats a minute, and hospitals."""
    parts = [load("heart_disease").rows(split) for split in ("train", "val", "test")]
    x = np.concatenate([part.x for part in parts]).astype(np.float64)
    rate, missing = list(SCALES).index("thalach"), len(SCALES) + SOMETIMES_MISSING.index("thalach")
    known, (usual, deviation) = x[:, missing] == 0, SCALES["thalach"]
    hospitals = np.concatenate([part.columns["hospital"] for part in parts])
    return np.delete(x, [rate, missing], axis=1)[known], usual + deviation * x[known, rate], hospitals[known]


def coverage(name: str) -> list[str]:
    """Calibrate over many splits; coverage of the mixture that is promised, of the worst site, and the width."""
    rng = np.random.default_rng(1)
    x, y, sites = diabetes(rng) if name == "diabetes" else heart_rates()
    called, kept = np.unique(sites), {}
    for _ in range(SPLITS):
        part = split(sites, rng)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            models = fitted(x, y, part == 0)
        for score in SCORES:
            predictions = columns_of(score, *models)
            given = [(part == 1) & (sites == site) for site in called]
            summaries = [
                fc.summarize(predictions[rows], y[rows], score=score, site=str(site))
                for rows, site in zip(given, called, strict=True)
            ]
            for words, guarantee in GUARANTEES.items():
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # that sites are small is what this shows
                    predictor = fc.calibrate(summaries, alpha=ALPHA, guarantee=guarantee, exact=True)
                    ends = predictor.predict_interval(predictions)
                inside = (ends[:, 0] <= y) & (y <= ends[:, 1])
                by_site = [inside[(part == 2) & (sites == site)].mean() for site in called]
                weights = np.array([summary.n for summary in summaries], dtype=np.float64)
                hit = float(weights @ by_site / weights.sum())
                width = float(np.median(ends[part == 2, 1] - ends[part == 2, 0]))
                kept.setdefault((type(score).__name__, words), []).append((hit, width, *by_site))
    lines = []
    for score in SCORES:
        cells = [name.replace("_", " "), f"`{type(score).__name__}`"]
        for words in GUARANTEES:
            table = np.array(kept[type(score).__name__, words])
            error = 2 * table[:, 0].std() / SPLITS**0.5
            lowest, width = table[:, 2:].mean(axis=0).min(), np.median(table[:, 1])
            cells += [f"{table[:, 0].mean():.3f} ± {error:.3f}, {lowest:.3f}, {width:.4g}"]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def main() -> None:
    """Measure, print, and put the table into the page."""
    head = ["| data | score | `Mixture()` | `EverySite()` |", "|---|---|---|---|"]
    table = "\n".join(head + coverage("heart_rate") + coverage("diabetes"))
    print(table)
    text, start, end = PAGE.read_text("utf-8"), "<!-- coverage -->", "<!-- /coverage -->"
    PAGE.write_text(re.sub(f"{start}.*{end}", lambda _: f"{start}\n{table}\n{end}", text, flags=re.DOTALL), "utf-8")


if __name__ == "__main__":
    main()
