"""Reliability of TCT with cross-entropy and with squared loss, before and after temperature."""

from __future__ import annotations

import numpy as np

from fedconformal._base.arrays import Floats, Integers, Probabilities
from fedconformal.report.charts import percent
from fedconformal_paper.figures.plot import Plot, figure
from fedconformal_paper.numbers import TITLES
from fedconformal_paper.setup import Setup
from fedconformal_paper.temperature import probabilities, shifted
from fedconformal_paper.trials import trials

LOSSES = {"cross-entropy": "tct", "squared loss": "tct-squared"}


def _losses(setup: Setup, dataset: str) -> str:
    """Draw each loss with available logits."""
    plots = []
    for name, method in LOSSES.items():
        answers = setup.read(dataset, method)
        if answers is None:
            continue
        (trial,) = trials(answers, count=1)
        rows = trial.test.index
        found = {
            "before": _reliability(probabilities(shifted(answers.logits[rows]), 1.0), answers.labels[rows]),
            "after": _reliability(trial.test.probs, trial.test.labels),
        }
        plot = Plot(
            title=f"{TITLES[dataset]}, TCT with {name}: T = {trial.temperature:.2f}",
            x=(0.0, 1.0),
            y=(0.0, 1.0),
            x_label="confidence in the top label",
            y_label="accuracy",
            x_text=percent,
            y_text=percent,
        )
        plot.diagonal("ideal")
        for when, (shares, sure, right) in found.items():
            gaps = np.abs(sure - right)
            label = f"{when}: ECE {gaps @ shares:.3f}, MCE {gaps.max():.3f}"
            plot.line(zip(sure.tolist(), right.tolist(), strict=True), label, markers=True)
        plots.append(plot)
    if not plots:
        setup.need(dataset, "tct")
    return figure(*plots, name=f"Reliability of TCT on {TITLES[dataset]}")


def cifar100(setup: Setup) -> str:
    """fig:loss-comparison-cifar100."""
    return _losses(setup, "cifar100")


def fitzpatrick(setup: Setup) -> str:
    """fig:loss-comparison-fitzpatrick."""
    return _losses(setup, "fitz17k-disease")


def _reliability(probs: Probabilities, labels: Integers) -> tuple[Floats, Floats, Floats]:
    """Return the share, mean confidence and accuracy of the rows in each non-empty bin of 15 bins of confidence."""
    confidence, hit = probs.max(axis=1).astype(np.float64), probs.argmax(axis=1) == labels
    bins = np.ceil(np.round(15 * confidence, 9)).astype(np.int64)
    rows = np.bincount(bins)
    held = rows > 0
    sums = [np.bincount(bins, values)[held] / rows[held] for values in (confidence, hit)]
    return rows[held] / len(bins), sums[0], sums[1]
