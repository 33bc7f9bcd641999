"""Score functions side by side: coverage by set size, and coverage and size at every level."""

from __future__ import annotations

import numpy as np

from fedconformal.paper.numbers import SIZE_CONDITIONAL
from fedconformal.paper.score_functions import SCORES
from fedconformal.paper.setup import Setup
from fedconformal.paper.size_conditional import QUARTERS, quarters
from fedconformal.report.plot import Plot, beside, percent

LEVELS = (0.7, 0.75, 0.8, 0.85, 0.9, 0.95)
DATASET = "cifar100"


def by_size(setup: Setup) -> str:
    """fig:conformal-score-compare: coverage in each quarter of set sizes, ours as lines and the paper's as squares."""
    plots = []
    for name in setup.track(list(SCORES)):
        plot = Plot(
            title=f"Coverage by set size, {name}",
            x=(-0.3, 3.3),
            y=(0.75, 1.0),
            x_label="rows by set size, per cent",
            y_label="coverage",
            x_names=QUARTERS,
            y_text=percent,
            width=320,
        )
        plot.target(0.9, "asked for")
        found = quarters(setup, DATASET, name)[:, :, 0]
        plot.line(list(enumerate(found.mean(axis=0).tolist())), "ours", markers=True)
        printed = SIZE_CONDITIONAL[DATASET].get(name.lower().removesuffix("*"))
        plot.dots([(i, cell.coverage) for i, cell in enumerate(printed or ())], "paper")
        plots.append(plot)
    return beside(plots, list(SCORES), "Coverage by set size, CIFAR-100 with TCT")


def by_level(setup: Setup) -> str:
    """fig:cifar-conformal-score-compare: coverage and size of each score against the coverage asked for."""
    answers = setup.need(DATASET, "tct")
    alphas = [round(1 - level, 9) for level in LEVELS]
    found = {name: np.empty((setup.count, len(LEVELS), 2)) for name in SCORES}
    for t, trial in enumerate(setup.trials(answers)):
        for name, score in SCORES.items():
            for i, threshold in enumerate(trial.thresholds(score, alphas)):
                sets = trial.sets(score, threshold)
                found[name][t, i] = trial.covered(sets).mean(), np.count_nonzero(sets) / len(sets)
    largest = max(float(values[..., 1].mean(axis=0).max()) for values in found.values())
    x = (LEVELS[0], LEVELS[-1])
    asked = "coverage asked for, 1 - alpha"
    coverage = Plot(
        title="Coverage", x=x, y=(0.65, 1.0), x_label=asked, y_label="coverage", x_text=percent, y_text=percent
    )
    size = Plot(title="Size", x=x, y=(0.0, largest * 1.05), x_label=asked, y_label="labels a set", x_text=percent)
    coverage.diagonal("asked for")
    for name, values in found.items():
        for plot, column in ((coverage, 0), (size, 1)):
            plot.line(list(zip(LEVELS, values[..., column].mean(axis=0).tolist(), strict=True)), name, markers=True)
    size.dots([(0.9, 6.5), (0.9, 18.0), (0.9, 8.3)], "paper: LAC, APS, RAPS")
    return beside([coverage, size], ["Coverage", "Labels a set"], "Score functions on CIFAR-100 with TCT")
