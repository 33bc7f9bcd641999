"""Reliability of TCT with cross-entropy and with squared loss, before and after temperature."""

from __future__ import annotations

from fedconformal.evaluation import reliability
from fedconformal.report.charts import reliability_plot
from fedconformal_paper.figures.plot import figure
from fedconformal_paper.numbers import TITLES
from fedconformal_paper.setup import Setup
from fedconformal_paper.temperature import probabilities, shifted
from fedconformal_paper.trials import trials

LOSSES = {"cross-entropy": "tct", "squared loss": "tct-squared"}


def _losses(setup: Setup, dataset: str) -> str:
    """Draw each loss whose logits are there."""
    plots = []
    for name, method in LOSSES.items():
        answers = setup.read(dataset, method)
        if answers is None:
            continue
        (trial,) = trials(answers, count=1)
        rows = trial.test.index
        found = {
            "before": reliability(probabilities(shifted(answers.logits[rows]), 1.0), answers.labels[rows]),
            "after": reliability(trial.test.probs, trial.test.labels),
        }
        labelled = {f"{when}: ECE {one.ece:.3f}, MCE {one.mce:.3f}": one for when, one in found.items()}
        title = f"{TITLES[dataset]}, TCT with {name}: T = {trial.temperature:.2f}"
        plots.append(reliability_plot(labelled, title=title, ideal="ideal"))
    if not plots:
        setup.need(dataset, "tct")
    return figure(*plots, name=f"Reliability of TCT on {TITLES[dataset]}")


def cifar100(setup: Setup) -> str:
    """fig:loss-comparison-cifar100."""
    return _losses(setup, "cifar100")


def fitzpatrick(setup: Setup) -> str:
    """fig:loss-comparison-fitzpatrick."""
    return _losses(setup, "fitz17k-disease")
