"""Distributions of set sizes: of rows that all models classify correctly, and with each score at several alphas."""

from __future__ import annotations

import numpy as np

from fedconformal._base.arrays import Floats
from fedconformal_paper.figures.histogram import draw_sizes, shares_of, size_plot
from fedconformal_paper.figures.plot import Plot, figure
from fedconformal_paper.numbers import METHODS, SCORE_COMPARE, TITLES
from fedconformal_paper.score_compare import all_right
from fedconformal_paper.score_functions import SCORED, scores_for
from fedconformal_paper.setup import Setup

ALPHAS = (0.1, 0.2, 0.3)
FEWER = 40


def same_subset(setup: Setup) -> str:
    """fig:compare-set-size-same-subset: CIFAR-100 rows that FedAvg, FedProx and TCT all classify correctly."""
    models = {METHODS[method]: setup.need("cifar100", method) for method in SCORE_COMPARE}
    title = "Set sizes of CIFAR-100 rows that all three models get right (LAC at alpha 0.1)"
    printed = {METHODS[method]: sizes[0] for method, sizes in SCORE_COMPARE.items()}
    return draw_sizes(setup, title, 60, models, printed, all_right(list(models.values())))


def score_dist(setup: Setup) -> str:
    """fig:cifar-score-dist: sizes with each score, with TCT, at several alphas."""
    setup.need("cifar100", "tct")
    plots = [plot for dataset in SCORED for plot in _score_dist(setup, dataset)]
    return figure(*plots, name="Set sizes with each score, with TCT")


def _score_dist(setup: Setup, dataset: str) -> list[Plot]:
    answers = setup.read(dataset, "tct")
    if answers is None:
        return []
    scores = scores_for(dataset)
    found: dict[tuple[str, float], list[Floats]] = {}
    for trial in setup.trials(answers):
        for name, score in scores.items():
            for alpha, threshold in zip(ALPHAS, trial.thresholds(score, ALPHAS), strict=True):
                found.setdefault((name, alpha), []).append(shares_of(trial.sets(score, threshold), FEWER))
    means = {key: np.mean(shares, axis=0) for key, shares in found.items()}
    highest = max(float(shares.max()) for shares in means.values())
    plots = []
    for alpha in ALPHAS:
        plot = size_plot(f"{TITLES[dataset]}, TCT: set sizes at alpha {alpha:g}", FEWER, highest)
        for name in scores:
            plot.line(list(enumerate(means[name, alpha].tolist())), name)
        plots.append(plot)
    return plots
