"""Reliability of TCT with cross-entropy and with squared loss, before and after temperature, on like clients."""

from __future__ import annotations

from fedconformal.evaluation import reliability
from fedconformal.report.plot import Plot, figure, percent
from fedconformal_paper.setup import Setup
from fedconformal_paper.temperature import probabilities, shifted
from fedconformal_paper.trials import trials

LOSSES = {"cross-entropy": "tct", "squared loss": "tct-squared"}


def _losses(setup: Setup, dataset: str) -> str:
    """Draw each loss whose logits are there."""
    plots = []
    for name, method in LOSSES.items():
        answers = setup.read(dataset, method, variant="iid")
        if answers is None:
            continue
        (trial,) = trials(answers, count=1)
        rows = trial.test.index
        plain = reliability(probabilities(shifted(answers.logits[rows]), 1.0), answers.labels[rows])
        scaled = reliability(trial.test.probs, trial.test.labels)
        plot = Plot(
            title=f"{dataset}, TCT with {name}, like clients: T = {trial.temperature:.2f}",
            x=(0.0, 1.0),
            y=(0.0, 1.0),
            x_label="confidence in the top label",
            y_label="accuracy",
            x_text=percent,
            y_text=percent,
        )
        plot.diagonal("ideal")
        for when, found in (("before", plain), ("after", scaled)):
            label = f"{when}: ECE {found.ece:.3f}, MCE {found.mce:.3f}"
            plot.line([(one.confidence, one.accuracy) for one in found.bins], label, markers=True)
        plots.append(plot)
    if not plots:
        setup.need(dataset, "tct", variant="iid")
    return figure(*plots, name=f"Reliability of TCT on {dataset}, clients alike")


def cifar100(setup: Setup) -> str:
    """fig:loss-comparison-cifar100."""
    return _losses(setup, "cifar100")


def fitzpatrick(setup: Setup) -> str:
    """fig:loss-comparison-fitzpatrick."""
    return _losses(setup, "fitz17k-disease")
