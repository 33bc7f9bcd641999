"""Score functions side by side: coverage by set size, and coverage and size at every level."""

from __future__ import annotations

import numpy as np

from fedconformal.report.charts import percent
from fedconformal_paper.figures.levels import LEVELS, coverage_and_size
from fedconformal_paper.figures.plot import Plot, figure
from fedconformal_paper.numbers import COMPARE_LOSS, SIZE_CONDITIONAL, TITLES
from fedconformal_paper.score_functions import SCORED, SCORES, scores_for
from fedconformal_paper.setup import Setup
from fedconformal_paper.size_conditional import QUARTERS, quarters

DATASET = "cifar100"


def by_size(setup: Setup) -> str:
    """fig:conformal-score-compare: coverage in each quarter of set sizes, ours as lines, the paper's as rings."""
    plots = []
    for name in setup.track(list(SCORES)):
        plot = Plot(
            title=f"{name}: coverage by set size",
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
        plot.bands(range(len(QUARTERS)), found, "ours")
        printed = SIZE_CONDITIONAL[DATASET][name.lower()]
        plot.rings([(i, cell.coverage) for i, cell in enumerate(printed)], "paper", like="ours")
        plots.append(plot)
    return figure(*plots, name="Coverage by set size, CIFAR-100 with TCT")


def by_level(setup: Setup) -> str:
    """fig:cifar-conformal-score-compare: coverage and size of each score against the requested coverage."""
    setup.need(DATASET, "tct")
    plots = [plot for dataset in SCORED for plot in _by_level(setup, dataset)]
    return figure(*plots, name="Score functions with TCT, against the coverage asked for")


def _by_level(setup: Setup, dataset: str) -> list[Plot]:
    answers = setup.read(dataset, "tct")
    if answers is None:
        return []
    alphas = [round(1 - level, 9) for level in LEVELS]
    scores = scores_for(dataset)
    found = {name: np.empty((setup.count, len(LEVELS), 2)) for name in scores}
    for t, trial in enumerate(setup.trials(answers)):
        for name, score in scores.items():
            for i, threshold in enumerate(trial.thresholds(score, alphas)):
                sets = trial.sets(score, threshold)
                found[name][t, i] = trial.covered(sets).mean(), np.count_nonzero(sets) / len(sets)
    titles = f"{TITLES[dataset]}, TCT: coverage", f"{TITLES[dataset]}, TCT: labels a set"
    measured = {name: (values[..., 0], values[..., 1]) for name, values in found.items()}
    coverage, size = coverage_and_size(measured, titles, lowest=0.65)
    if dataset == DATASET:  # the paper prints sizes at 0.9 only, in tab:tct-compare-loss
        for name, printed in zip(SCORES, COMPARE_LOSS["cross-entropy"][1:], strict=True):
            size.rings([(0.9, printed)], f"{name}, paper", like=name)
    return [coverage, size]
