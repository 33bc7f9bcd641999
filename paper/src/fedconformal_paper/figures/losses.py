"""Reliability of TCT with cross-entropy and with squared loss, before and after temperature."""

from __future__ import annotations

import numpy as np

from fedconformal._base.arrays import Floats, Integers, Probabilities
from fedconformal.report.charts import percent
from fedconformal_paper.figures.plot import Plot, figure
from fedconformal_paper.numbers import TITLES
from fedconformal_paper.setup import Setup
from fedconformal_paper.table import Measured
from fedconformal_paper.temperature import probabilities, shifted

BINS = 15
LOSSES = {"cross-entropy": "tct", "squared loss": "tct-squared"}


def _losses(setup: Setup, dataset: str) -> str:
    """Draw each loss with available logits."""
    plots = []
    for name, method in LOSSES.items():
        answers = setup.read(dataset, method)
        if answers is None:
            continue
        found: dict[str, list[Floats]] = {"before": [], "after": []}
        temperatures = []
        for trial in setup.trials(answers):
            rows = trial.test.index
            plain = probabilities(shifted(answers.logits[rows]), 1.0)
            found["before"].append(_reliability(plain, answers.labels[rows]))
            found["after"].append(_reliability(trial.test.probs, trial.test.labels))
            temperatures.append(trial.temperature)
        plot = Plot(
            title=f"{TITLES[dataset]}, TCT with {name}: T = {np.mean(temperatures):.2f}",
            x=(0.0, 1.0),
            y=(0.0, 1.0),
            x_label="confidence in the top label",
            y_label="accuracy",
            x_text=percent,
            y_text=percent,
        )
        plot.diagonal("ideal")
        for when, measured in found.items():
            shares, sure, right = np.moveaxis(np.array(measured), 1, 0)
            gaps, held = np.abs(sure - right), (shares > 0).all(axis=0)
            ece, mce = Measured.of(np.nansum(gaps * shares, axis=1)), Measured.of(np.nanmax(gaps, axis=1))
            plot.bands(sure[:, held].mean(axis=0).tolist(), right[:, held], f"{when}: ECE {ece}, MCE {mce}")
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


def _reliability(probs: Probabilities, labels: Integers) -> Floats:
    """Return the share, mean confidence and accuracy (NaN without rows) of the rows in each bin of confidence."""
    confidence, hit = probs.max(axis=1).astype(np.float64), probs.argmax(axis=1) == labels
    bins = np.ceil(np.round(BINS * confidence, 9)).astype(np.int64)
    rows, sure, right = (np.bincount(bins, values, BINS + 1) for values in (None, confidence, hit))
    held = np.where(rows > 0, rows, np.nan)
    return np.array([rows / len(bins), sure / held, right / held])
