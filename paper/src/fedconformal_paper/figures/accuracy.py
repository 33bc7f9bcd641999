"""Small sets mean easy rows: accuracy falls with the size of the set, and rises if the largest are left out."""

from __future__ import annotations

import numpy as np

from fedconformal.evaluation import selective_classification
from fedconformal.report.plot import percent
from fedconformal.scores import LAC
from fedconformal_paper.figures.plot import Plot, figure
from fedconformal_paper.score_functions import scores_for
from fedconformal_paper.setup import Setup
from fedconformal_paper.trials import trials

TRIALS = 100
FEWEST = 10
"""Set sizes that fewer rows of a trial have, on average, are left out."""
MOST = 100
DATASETS = ("cifar100", "fitz17k-disease", "tissuemnist", "dermamnist", "pathmnist", "fashionmnist")
MODELS = ("tct", "central")
"""The first of these that is there; the central model stands in for TCT."""
SELECTIVE_POINTS = ((1.0, 0.53), (0.5, 0.77), (0.3, 0.90), (0.2, 0.95))
"""Rows answered and accuracy on them, as the paper's caption gives them for Fitzpatrick17k."""


def accuracy_vs_size(setup: Setup) -> str:
    """fig:accuracy-vs-set-size: the median over 100 trials of the mean accuracy at each set size."""
    plot = Plot(
        title="Top-1 accuracy at each set size, median of 100 trials",
        x=(1, MOST),
        y=(0.0, 1.0),
        x_label="labels in the set (LAC, alpha 0.1)",
        y_label="top-1 accuracy",
        y_text=percent,
        log_x=True,
    )
    for dataset in setup.track(DATASETS):
        answers = next(filter(None, (setup.read(dataset, method) for method in MODELS)), None)
        if answers is None:
            continue
        right = answers.logits.argmax(axis=1) == answers.labels
        found, count = [], np.zeros(MOST + 1)
        for trial in trials(answers, count=TRIALS):
            (threshold,) = trial.thresholds(LAC(), [0.1])
            sizes = np.count_nonzero(trial.sets(LAC(), threshold), axis=1)
            rows = np.bincount(sizes, minlength=MOST + 1)[: MOST + 1].astype(float)
            count += rows
            hits = np.bincount(sizes, right[trial.test.index], MOST + 1)[: MOST + 1]
            found.append(np.divide(hits, rows, out=np.full(MOST + 1, np.nan), where=rows > 0))
        there = count >= FEWEST * TRIALS
        medians = [(size, float(np.nanmedian(np.array(found)[:, size]))) for size in np.flatnonzero(there).tolist()]
        plot.line(
            [point for point in medians if point[0] >= 1], f"{dataset}, {'central' if answers.central else 'TCT'}"
        )
    return figure(plot)


def selective(setup: Setup) -> str:
    """fig:selective-classification: accuracy against the rows answered, with TCT and RAPS; CIFAR-100 stands in."""
    plot = Plot(
        title="Accuracy when the largest sets are left out (TCT, RAPS at alpha 0.1)",
        x=(0.0, 1.0),
        y=(0.4, 1.0),
        x_label="rows answered (those with the smallest sets)",
        y_label="top-1 accuracy on them",
        x_text=percent,
        y_text=percent,
    )
    for name, dataset in {"Fitzpatrick17k, TCT": "fitz17k-disease", "CIFAR-100, TCT (stands in)": "cifar100"}.items():
        answers = setup.read(dataset, "tct")
        if answers is None:
            continue
        score = scores_for(dataset)["RAPS"]
        grid = np.linspace(0.05, 1, 39)
        found, first = [], 0.0
        for trial in setup.trials(answers):
            (threshold,) = trial.thresholds(score, [0.1])
            limits = selective_classification(trial.sets(score, threshold), trial.test.probs, trial.test.labels).limits
            found.append(np.interp(grid, [one.kept for one in limits], [one.accuracy for one in limits]))
            first = max(first, limits[0].kept)
        points = zip(grid.tolist(), np.mean(found, axis=0).tolist(), strict=True)
        plot.line([point for point in points if point[0] >= first], name)
    plot.dots(SELECTIVE_POINTS, "the paper, Fitzpatrick17k")
    return figure(plot)
