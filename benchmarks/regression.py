"""Intervals: how fast a million rows are calibrated, and whether coverage holds at real hospitals.

    FEDCONFORMAL_DATA=DIRECTORY python benchmarks/regression.py [speed]

Speed: score, summarise and calibrate a million rows, beside one `np.sort` of their scores. Coverage: the peak heart
rate of patients at four hospitals, whose sites are real and differ, and scikit-learn's diabetes, which is from one
place and is parted at random. In each of 200 splits half of a site's patients train linear models, a quarter
calibrates and a quarter tests. Both tables go into docs/regression.md.
"""

# ruff: noqa: T201

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from common import HERE, best, interleaved, ratios
from sklearn.linear_model import QuantileRegressor, Ridge

import fedconformal as fc
from fedconformal._base.arrays import Floats
from fedconformal.training.data import load

ROWS, ROUNDS = 10**6, 30
SPLITS, ALPHA = 200, 0.1
PAGE = HERE.parent / "docs" / "regression.md"
SCORES = (fc.Residual(), fc.Normalized(), fc.CQR(), fc.Signed())
GUARANTEES = {"Mixture": fc.Mixture(), "EverySite": fc.EverySite()}


def columns_of(score: fc.RegressionScore, f: Floats, scale: Floats, low: Floats, high: Floats) -> Floats:
    """Choose what a score takes."""
    found = {"prediction": f, "scale": scale, "lower": np.minimum(low, high), "upper": np.maximum(low, high)}
    return np.stack([found[name] for name in score.columns], axis=1).squeeze()


def calibrated(score: fc.RegressionScore, predictions: Floats, y: Floats) -> object:
    """Do what a site does, and what the coordinator does."""
    return fc.calibrate([fc.summarize(predictions, y, score=score, alpha=ALPHA)], alpha=ALPHA, exact=True)


def speed() -> list[str]:
    """Time a million rows, score by score, side by side with a sort of the same scores."""
    rng = np.random.default_rng(0)
    f, scale = rng.normal(size=ROWS), rng.uniform(0.5, 2, ROWS)
    y = f + scale * rng.normal(size=ROWS)
    lines = ["| score | columns | np.sort, ms | all of it, ms | ratio |", "|---|---|---|---|---|"]
    for score in SCORES:
        predictions = columns_of(score, f, scale, f - scale, f + scale)
        scores = score.evaluate(predictions, y)
        contenders: dict[str, Callable[[], object]] = {
            "sort": partial(np.sort, scores),
            "ours": partial(calibrated, score, predictions, y),
        }
        taken = interleaved(contenders, ROUNDS)
        fast, ratio = best(taken), ratios(taken, "sort")["ours"]
        times = f"{1000 * fast['sort']:.1f} | {1000 * fast['ours']:.1f}"
        lines.append(f"| `{type(score).__name__}` | {len(score.columns)} | {times} | {ratio:.2f} |")
    return lines


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


def coverage(name: str) -> list[str]:
    """Calibrate over many splits; coverage of the mixture that is promised, of the worst site, and the width."""
    data = load(name)
    parts = [data.rows(one) for one in ("train", "val", "test")]
    x = np.concatenate([part.x for part in parts]).astype(np.float64)
    y = np.concatenate([part.y for part in parts])
    rng = np.random.default_rng(1)
    named = [part.columns.get("hospital") for part in parts]
    sites = (
        np.concatenate([one for one in named if one is not None])
        if named[0] is not None
        else rng.integers(4, size=len(y))
    )
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
    for (score_name, words), found in kept.items():
        table = np.array(found)
        error = 2 * table[:, 0].std() / SPLITS**0.5
        sites_text = f"{table[:, 2:].mean(axis=0).min():.3f}"
        width_text = f"{np.median(table[:, 1]):.4g}"
        lines.append(
            f"| {name.replace('_', ' ')} | `{score_name}` | `{words}` | {table[:, 0].mean():.3f} ± {error:.3f} | "
            f"{sites_text} | {width_text} |"
        )
    return lines


def put(name: str, lines: list[str]) -> None:
    """Print a table, and put it into the page."""
    print("\n".join(lines), flush=True)
    text, start, end = PAGE.read_text("utf-8"), f"<!-- {name} -->", f"<!-- /{name} -->"
    table = "\n".join(lines)
    PAGE.write_text(re.sub(f"{start}.*{end}", lambda _: f"{start}\n{table}\n{end}", text, flags=re.DOTALL), "utf-8")


def main() -> None:
    """Measure both, or speed alone."""
    put("speed", speed())
    if "speed" not in sys.argv[1:]:
        head = ["| data | score | guarantee | coverage | lowest site | median width |", "|---|---|---|---|---|---|"]
        put("coverage", head + coverage("heart_rate") + coverage("diabetes"))


if __name__ == "__main__":
    main()
