"""fig:quantile-compare: coverage with each way to find a quantile of scores that nobody holds together.

The paper's two baselines are written out here: the mean of the clients' own quantiles, and DDSketch read at the middle
of a bucket (Masson, Rim and Lee, "DDSketch", 2019), whose error is relative in *value*: one per cent of a score near
one is far in rank. It reads what the package that the paper uses reads (a test compares them). The paper draws
Fitzpatrick17k; CIFAR-100 with TCT stands in where its logits are absent.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from fedconformal._base.arrays import Floats
from fedconformal.report.charts import percent
from fedconformal.scores import LAC
from fedconformal_paper.figures.plot import Plot, figure
from fedconformal_paper.numbers import TITLES
from fedconformal_paper.setup import Setup
from fedconformal_paper.trials import RandomHalves

LEVELS = (*(round(0.5 + 0.05 * i, 2) for i in range(10)), 0.97, 0.99)
ACCURACY = 0.01
"""Relative accuracy of DDSketch in the package used by the paper."""

METHODS = {
    "exact": "exact",
    "tdigest": "t-digest",
    "ranks": "certified ranks",
    "ddsketch": "DDSketch, mid-bucket",
    "mean": "mean of quantiles",
}


def quantile_compare(setup: Setup) -> str:
    """Draw coverage, and its difference from the exact one, against the requested coverage."""
    dataset, found = coverage_of_each(setup)
    panel = partial(Plot, x=(LEVELS[0], 1.0), x_label="coverage asked for, 1 - alpha", x_text=percent)
    whole = panel(
        title=f"{TITLES[dataset]}: coverage with each way to find the quantile (TCT, LAC)",
        y=(0.4, 1.0),
        y_label="coverage",
        y_text=percent,
    )
    off = panel(
        title="Difference to the exact quantile's",
        y=(-0.11, 0.11),
        y_label="coverage less the exact one",
        y_text=percent,
    )
    whole.diagonal("asked for")
    for method, name in METHODS.items():
        whole.bands(LEVELS, found[method], name)
        off.bands(LEVELS, found[method] - found["exact"], name)
    return figure(whole, off, name="Quantiles across clients")


def coverage_of_each(setup: Setup) -> tuple[str, dict[str, Floats]]:
    """Return the coverage of each method in each trial at each level, with TCT and LAC and empty sets allowed."""
    answers = setup.read("fitz17k-disease", "tct") or setup.need("cifar100", "tct")
    alphas = [round(1 - level, 9) for level in LEVELS]
    found: dict[str, list[Floats]] = {name: [] for name in METHODS}
    for trial in setup.trials(answers):
        tested = np.sort(trial.test.scores(LAC()))
        thresholds = {kind: trial.thresholds(LAC(), alphas, kind=kind) for kind in ("exact", "tdigest", "ranks")}
        thresholds["ddsketch"] = [mid_bucket(trial, alpha) for alpha in alphas]
        thresholds["mean"] = [mean_of_quantiles(trial, alpha) for alpha in alphas]
        for name, limits in thresholds.items():
            found[name].append(np.searchsorted(tested, limits, side="right") / len(tested))
    return answers.dataset, {name: np.array(runs) for name, runs in found.items()}


def mean_of_quantiles(trial: RandomHalves, alpha: float) -> float:
    """Return the unweighted mean of the clients' own quantiles at ceil((1 - alpha)(n + 1))."""
    scores, owners = trial.calibration.scores(LAC()), trial.calibration.clients
    own = []
    for client in np.flatnonzero(np.bincount(owners)):
        mine = np.sort(scores[owners == client])
        own.append(mine[min(len(mine), math.ceil(round((1 - alpha) * (len(mine) + 1), 9))) - 1])
    return float(np.mean(own))


def mid_bucket(trial: RandomHalves, alpha: float) -> float:
    """Read the merged DDSketch at the paper's rank, at the middle of the bucket."""
    scores = np.sort(trial.calibration.scores(LAC()))
    clients = np.count_nonzero(np.bincount(trial.calibration.clients))
    rank = math.ceil(round((1 - alpha) * (len(scores) + clients), 9))
    growth = (1 + ACCURACY) / (1 - ACCURACY)
    value = scores[min(rank, len(scores)) - 1]
    if value <= 0:
        return 0.0
    bucket = math.ceil(math.log(value) / math.log(growth))
    return 2 * growth**bucket / (growth + 1)
