"""Beyond the paper: what a marginal promise hides, and what it costs to promise it to every site.

A client a little below 1 - alpha is no violation of a promise for the mixture; the intervals show what the test rows
leave open.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from fedconformal.errors import InputError
from fedconformal.evaluation.intervals import clopper_pearson
from fedconformal.files import read_npz
from fedconformal.guarantees import PAC, EveryClient, Guarantee, Mixture, WorstCase
from fedconformal.paper.logits import Answers
from fedconformal.paper.setup import Setup
from fedconformal.paper.trials import trials
from fedconformal.report.plot import Plot, beside, percent
from fedconformal.scores import LAC

ALPHA = 0.1
GUARANTEES: dict[str, Guarantee] = {
    "mixture": Mixture(),
    "uniform": Mixture(weights="uniform"),
    "worst case .1": WorstCase(contamination=0.1),
    "PAC": PAC(failure=0.05),
    "every client": EveryClient(),
}


def coverage_by_site(setup: Setup) -> str:
    """Draw each CIFAR-100 client's coverage with FedAvg in one trial, under the promise for the mixture."""
    return _by_site(setup.need("cifar100", "fedavg"), None, "Coverage of each client under a promise for the mixture")


def derma_by_source(setup: Setup) -> str:
    """Draw the coverage of each of the four collections that DermaMNIST's images come from: real sites."""
    answers = setup.need("dermamnist", "central")
    arrays = read_npz(setup.data_file("dermamnist.npz"))
    source = arrays.get("test_source")
    if source is None or not np.array_equal(arrays["test_labels"].reshape(-1), answers.labels):
        raise InputError("dermamnist.npz: its test rows are not those of the logits, or it has no test_source")
    names, clients = np.unique(source, return_inverse=True)
    title = "Coverage of each collection of DermaMNIST under a promise for the mixture"
    return _by_site(replace(answers, clients=clients), [str(name) for name in names], title)


def _by_site(answers: Answers, names: list[str] | None, title: str) -> str:
    (trial,) = trials(answers, count=1)
    (threshold,) = trial.thresholds(LAC(), [ALPHA], kind="exact")
    covered = trial.covered(trial.sets(LAC(), threshold))
    clients = trial.test.clients
    rows = np.bincount(clients)
    hits = np.bincount(clients, covered).astype(np.int64)
    low, high = clopper_pearson(hits, rows)
    shares = hits / rows
    order = np.argsort(shares)
    plot = Plot(
        title=title,
        x=(-0.7, len(order) - 0.3),
        y=(0.6, 1.0),
        x_label=f"site (all together {covered.mean():.1%})",
        y_label="coverage, 95% interval",
        x_names=[names[client] if names else str(client) for client in order],
        y_text=percent,
        width=640,
    )
    plot.target(1 - ALPHA, "promised for the mixture")
    for i, client in enumerate(order.tolist()):
        plot.interval(i, float(low[client]), float(high[client]), "each site")
    plot.dots([(i, float(shares[client])) for i, client in enumerate(order.tolist())], "each site")
    return plot.svg(alone=True)


def worst_site(setup: Setup) -> str:
    """Draw the worst client's coverage and the mean size under each guarantee, CIFAR-100 with TCT."""
    worst, sizes = np.empty((setup.count, len(GUARANTEES))), np.empty((setup.count, len(GUARANTEES)))
    for t, trial in enumerate(setup.trials(setup.need("cifar100", "tct"))):
        for i, guarantee in enumerate(GUARANTEES.values()):
            (threshold,) = trial.thresholds(LAC(), [ALPHA], kind="exact", guarantee=guarantee)
            sets = trial.sets(LAC(), threshold)
            clients = trial.test.clients
            worst[t, i] = (np.bincount(clients, trial.covered(sets)) / np.bincount(clients)).min()
            sizes[t, i] = np.count_nonzero(sets) / len(sets)
    names = list(GUARANTEES)
    panel = partial(Plot, x=(-0.5, len(names) - 0.5), x_label="guarantee at alpha 0.1", x_names=names)
    lowest = panel(title="Worst", y=(0.6, 1.0), y_label="coverage of the worst client", y_text=percent)
    cost = panel(title="Cost", y=(0.0, float(sizes.mean(axis=0).max()) * 1.1), y_label="labels a set")
    lowest.target(1 - ALPHA, "asked for")
    for plot, values in ((lowest, worst), (cost, sizes)):
        for i in range(len(names)):
            mean, sd = float(values[:, i].mean()), float(values[:, i].std(ddof=1))
            plot.interval(i, mean - sd, mean + sd, "mean and deviation over trials")
        plot.dots(list(enumerate(values.mean(axis=0).tolist())), "mean and deviation over trials")
    return beside([lowest, cost], ["Coverage of the worst client", "Labels a set"], "Guarantees and their cost")
