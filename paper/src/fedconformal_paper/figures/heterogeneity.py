"""fig:fedavg and fig:tct-vs-fedavg: CIFAR-10 among five clients with two, three, four or all ten classes each."""

from __future__ import annotations

from fedconformal.errors import InputError
from fedconformal_paper.figures.levels import LEVELS, coverage_and_size
from fedconformal_paper.figures.plot import figure
from fedconformal_paper.full_results import measure
from fedconformal_paper.numbers import FULL_RESULTS, METHODS
from fedconformal_paper.setup import Setup

DATASET = "cifar10"
PRINTED = "2 classes"
"""Variant whose sizes the paper prints, in tab:full-results."""
VARIANTS = {PRINTED: "", "3 classes": "overlap3", "4 classes": "overlap4", "all classes": "iid"}


def heterogeneity(setup: Setup, method: str) -> str:
    """Draw coverage and size against the requested coverage, one line per number of classes per client."""
    models = {name: setup.read(DATASET, method, variant=variant) for name, variant in VARIANTS.items()}
    there = {name: answers for name, answers in models.items() if answers}
    if not there:
        setup.need(DATASET, method)
    if len({answers.network for answers in there.values()}) > 1:
        raise InputError(
            f"{setup.logits.directory}: the runs of {DATASET} {method} have different networks; train all alike"
        )
    found = {name: measure(there[name], LEVELS, count=setup.count) for name in setup.track(list(there))}
    titles = f"{METHODS[method]} on CIFAR-10 by classes a client: coverage", "Labels a set"
    coverage, size = coverage_and_size(found, titles, lowest=0.6, largest=4.0)
    printed = zip((0.9, 0.8, 0.7), FULL_RESULTS[DATASET][method], strict=True)
    size.rings([(level, cell.size) for level, cell in printed], f"paper, {PRINTED}", like=PRINTED)
    return figure(coverage, size, name=f"{METHODS[method]} on CIFAR-10, by classes a client")


def fedavg(setup: Setup) -> str:
    """Draw FedAvg's sweep."""
    return heterogeneity(setup, "fedavg")


def tct_vs_fedavg(setup: Setup) -> str:
    """Draw TCT's sweep, to be compared with FedAvg's."""
    return heterogeneity(setup, "tct")
