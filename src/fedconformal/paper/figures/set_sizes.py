"""How set sizes are distributed: of rows that all models get right, and with each score at several alphas."""

from __future__ import annotations

import numpy as np

from fedconformal.paper.figures.histogram import shares_of, size_plot
from fedconformal.paper.numbers import METHODS, SCORE_COMPARE
from fedconformal.paper.score_compare import all_right
from fedconformal.paper.score_functions import SCORES
from fedconformal.paper.setup import Setup
from fedconformal.report.plot import beside
from fedconformal.scores import LAC

MOST = 60
ALPHAS = (0.1, 0.2, 0.3)
FEWER = 40


def same_subset(setup: Setup) -> str:
    """fig:compare-set-size-same-subset: CIFAR-100 rows that FedAvg, FedProx and TCT all classify correctly."""
    models = {method: setup.need("cifar100", method) for method in SCORE_COMPARE}
    right = all_right(list(models.values()))
    drawn = {}
    for method, answers in models.items():
        found = []
        for trial in setup.trials(answers):
            (threshold,) = trial.thresholds(LAC(), [0.1])
            found.append(shares_of(trial.sets(LAC(), threshold)[right[trial.test.index]], MOST))
        drawn[method] = np.mean(found, axis=0)
    highest = max(float(shares.max()) for shares in drawn.values())
    plot = size_plot("Set sizes of rows that all three models get right, LAC at alpha 0.1", MOST, highest)
    for method, shares in drawn.items():
        plot.line(list(enumerate(shares.tolist())), METHODS[method])
    return plot.svg(alone=True)


def score_dist(setup: Setup) -> str:
    """fig:cifar-score-dist: sizes with each score on CIFAR-100 with TCT, at several alphas."""
    answers = setup.need("cifar100", "tct")
    found: dict[tuple[str, float], list[np.ndarray[tuple[int], np.dtype[np.float64]]]] = {}
    for trial in setup.trials(answers):
        for name, score in SCORES.items():
            for alpha, threshold in zip(ALPHAS, trial.thresholds(score, ALPHAS), strict=True):
                found.setdefault((name, alpha), []).append(shares_of(trial.sets(score, threshold), FEWER))
    means = {key: np.mean(shares, axis=0) for key, shares in found.items()}
    highest = max(float(shares.max()) for shares in means.values())
    plots = []
    for alpha in ALPHAS:
        plot = size_plot(f"Set sizes at alpha {alpha:g}", FEWER, highest)
        for name in SCORES:
            plot.line(list(enumerate(means[name, alpha].tolist())), name)
        plots.append(plot)
    return beside(plots, [f"alpha = {alpha:g}" for alpha in ALPHAS], "Set sizes with each score, CIFAR-100 with TCT")
