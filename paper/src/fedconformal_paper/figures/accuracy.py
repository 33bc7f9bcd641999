"""Accuracy by set size: it falls with the size of the set, and rises if the largest sets are left out."""

from __future__ import annotations

import numpy as np

from fedconformal._base.arrays import Floats
from fedconformal.report.charts import percent
from fedconformal.scores import LAC
from fedconformal_paper.figures.plot import Plot, figure
from fedconformal_paper.logits import Answers
from fedconformal_paper.numbers import TITLES
from fedconformal_paper.score_functions import scores_for
from fedconformal_paper.setup import Setup
from fedconformal_paper.trials import trials

TRIALS = 100
FEWEST = 10
"""Minimum mean number of rows per trial for a set size to be shown."""
MOST = 100
DATASETS = ("cifar100", "fitz17k-disease", "tissuemnist", "dermamnist", "pathmnist", "fashionmnist")
MODELS = {"tct": "TCT", "central": "central, where TCT is absent"}
SELECTIVE = ("fitz17k-disease", "cifar100")
SELECTIVE_POINTS = ((1.0, 0.53), (0.5, 0.77), (0.3, 0.90), (0.2, 0.95))
"""Answered rows and accuracy on them, from the paper's caption for Fitzpatrick17k."""


def accuracy_vs_size(setup: Setup) -> str:
    """fig:accuracy-vs-set-size: the median over 100 trials of the mean accuracy at each set size; a panel a method."""
    plots = {
        method: Plot(
            title=f"Top-1 accuracy at each set size, {name}",
            x=(1, MOST),
            y=(0.0, 1.0),
            x_label="labels in the set (LAC, alpha 0.1)",
            y_label="accuracy, median of 100 trials",
            y_text=percent,
            log_x=True,
        )
        for method, name in MODELS.items()
    }
    drawn: list[Plot] = []
    for dataset in setup.track(DATASETS):
        method = next((one for one in MODELS if setup.read(dataset, one)), None)
        if method is not None:
            plots[method].line(_medians(setup.need(dataset, method)), TITLES[dataset])
            drawn.append(plots[method])
    if not drawn:
        setup.need(DATASETS[0], "tct")
    return figure(*(plot for plot in plots.values() if plot in drawn), name="Top-1 accuracy at each set size")


def _medians(answers: Answers) -> list[tuple[float, float]]:
    right = answers.logits.argmax(axis=1) == answers.labels
    found, count = [], np.zeros(MOST + 1)
    for trial in trials(answers, count=TRIALS):
        (threshold,) = trial.thresholds(LAC(), [0.1])
        sizes = np.count_nonzero(trial.sets(LAC(), threshold), axis=1)
        rows = np.bincount(sizes, minlength=MOST + 1)[: MOST + 1].astype(float)
        count += rows
        hits = np.bincount(sizes, right[trial.test.index], MOST + 1)[: MOST + 1]
        found.append(np.divide(hits, rows, out=np.full(MOST + 1, np.nan), where=rows > 0))
    there = np.flatnonzero(count >= FEWEST * TRIALS)
    return [(size, float(np.nanmedian(np.array(found)[:, size]))) for size in there.tolist() if size >= 1]


def selective(setup: Setup) -> str:
    """fig:selective-classification: accuracy against the rows answered, with TCT and RAPS; a panel a data set."""
    plots = []
    for dataset in SELECTIVE:
        plot = Plot(
            title=f"{TITLES[dataset]}: accuracy when the largest sets are left out (TCT, RAPS at alpha 0.1)",
            x=(0.0, 1.05),
            y=(0.4, 1.0),
            x_label="rows answered (those with the smallest sets)",
            y_label="top-1 accuracy on them",
            x_text=percent,
            y_text=percent,
        )
        answers = setup.read(dataset, "tct")
        if answers is not None:
            plot.bands(*_selected(setup, answers), "ours")
        if dataset == SELECTIVE[0]:
            plot.dots(SELECTIVE_POINTS, "the paper")
        elif answers is None:
            continue
        plots.append(plot)
    return figure(*plots, name="Accuracy when the largest sets are left out")


def _selected(setup: Setup, answers: Answers) -> tuple[list[float], Floats]:
    """Return shares of rows and, in each trial, the accuracy on that share with the smallest sets."""
    score, grid = scores_for(answers.dataset)["RAPS"], np.linspace(0.05, 1, 20)
    found, first = [], 0.0
    for trial in setup.trials(answers):
        (threshold,) = trial.thresholds(score, [0.1])
        sizes = np.count_nonzero(trial.sets(score, threshold), axis=1)
        right = trial.test.probs.argmax(axis=1) == trial.test.labels
        limits = np.unique(sizes)
        rows, hits = (np.cumsum(np.bincount(sizes, weights))[limits] for weights in (None, right))
        found.append(np.interp(grid, rows / len(sizes), hits / rows))
        first = max(first, rows[0] / len(sizes))
    return grid[grid >= first].tolist(), np.array(found)[:, grid >= first]
