"""fig:fedavg and fig:tct-vs-fedavg: CIFAR-10 among five clients with two, three, four or all ten classes each."""

from __future__ import annotations

from functools import partial

import numpy as np

from fedconformal.report.plot import Plot, figure, percent
from fedconformal_paper.full_results import measure
from fedconformal_paper.numbers import FULL_RESULTS, METHODS
from fedconformal_paper.setup import Setup

DATASET = "cifar10"
PRINTED = "2 classes"
"""The only ones whose sizes the paper prints, in tab:full-results."""
VARIANTS = {PRINTED: "", "3 classes": "overlap3", "4 classes": "overlap4", "all classes": "iid"}
LEVELS = (0.7, 0.75, 0.8, 0.85, 0.9, 0.95)


def heterogeneity(setup: Setup, method: str) -> str:
    """Draw coverage and size against the coverage asked for, a line for each number of classes a client."""
    panel = partial(Plot, x=(LEVELS[0], LEVELS[-1]), x_label="coverage asked for, 1 - alpha", x_text=percent)
    found = {
        name: measure(answers, LEVELS, count=setup.count)
        for name, variant in setup.track(list(VARIANTS.items()))
        if (answers := setup.read(DATASET, method, variant=variant))
    }
    if not found:
        setup.need(DATASET, method)
    largest = max(float(sizes.mean(axis=0).max()) for _, sizes in found.values())
    coverage = panel(
        title=f"{METHODS[method]} on CIFAR-10 by classes a client: coverage",
        y=(0.6, 1.0),
        y_label="coverage",
        y_text=percent,
    )
    size = panel(title="Labels a set", y=(0.0, max(4.0, largest) * 1.05), y_label="labels a set")
    coverage.diagonal("asked for")
    for name, (shares, sizes) in found.items():
        for plot, values in ((coverage, shares), (size, sizes)):
            plot.line(list(zip(LEVELS, np.mean(values, axis=0).tolist(), strict=True)), name, markers=True)
    printed = zip((0.9, 0.8, 0.7), FULL_RESULTS[DATASET][method], strict=True)
    size.rings([(level, cell.size) for level, cell in printed], f"paper, {PRINTED}", like=PRINTED)
    return figure(coverage, size, name=f"{METHODS[method]} on CIFAR-10, by classes a client")


def fedavg(setup: Setup) -> str:
    """Draw FedAvg's sweep."""
    return heterogeneity(setup, "fedavg")


def tct_vs_fedavg(setup: Setup) -> str:
    """Draw TCT's sweep, to be compared with FedAvg's."""
    return heterogeneity(setup, "tct")
