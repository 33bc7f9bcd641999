"""Beyond the paper: coverage by site under a marginal promise, and the cost of a promise to every site.

Coverage of a client slightly below 1 - alpha does not violate a promise for the mixture; the intervals show the
uncertainty of the test rows.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from fedconformal._base.files import read_npz
from fedconformal.errors import InputError
from fedconformal.evaluation.intervals import clopper_pearson
from fedconformal.guarantees import FCP, PAC, EverySite, Guarantee, Mixture, WorstCase
from fedconformal.report.charts import percent
from fedconformal.scores import LAC
from fedconformal_paper.figures.plot import Plot, figure
from fedconformal_paper.logits import Answers
from fedconformal_paper.setup import Setup
from fedconformal_paper.trials import trials

ALPHA = 0.1
GUARANTEES: dict[str, Guarantee] = {
    "FCP": FCP(),
    "mixture": Mixture(),
    "uniform": Mixture(weights="uniform"),
    "worst case .1": WorstCase(contamination=0.1),
    "PAC": PAC(failure=0.05),
    "every client": EverySite(),
}
BY_SITE = {"the mixture": FCP(), "every site": EverySite()}


def coverage_by_site(setup: Setup) -> str:
    """Draw each CIFAR-100 client's coverage with FedAvg in one trial, promised to the mixture and to every client."""
    return figure(_by_site(setup.need("cifar100", "fedavg"), "CIFAR-100 with FedAvg: coverage of each client"))


def derma_by_source(setup: Setup) -> str:
    """Draw the coverage of each of the four collections that DermaMNIST's images come from: real sites.

    The central model knows nothing of them; if there is one that was trained across them, it is drawn too.
    """
    answers = setup.need("dermamnist", "central")
    arrays = read_npz(setup.data_file("dermamnist.npz"))
    source = arrays.get("test_source")
    if source is None or not np.array_equal(arrays["test_labels"].reshape(-1), answers.labels):
        raise InputError("dermamnist.npz: its test rows are not those of the logits, or it has no test_source")
    names, clients = np.unique(source, return_inverse=True)
    central = replace(answers, clients=clients, sites=tuple(map(str, names)))
    plots = [_by_site(central, "DermaMNIST by collection, central model")]
    across = setup.read("dermamnist", "fedavg", variant="source")
    if across is not None:
        plots.append(_by_site(across, "DermaMNIST by collection, FedAvg across the collections"))
    return figure(*plots, name="Coverage of each collection of DermaMNIST")


def _by_site(answers: Answers, title: str) -> Plot:
    """Draw every site's coverage with either promise, with sites in the order of the first."""
    (trial,) = trials(answers, count=1)
    clients = trial.test.clients
    rows = np.bincount(clients, minlength=len(answers.sites))
    hits, labels = {}, {}
    for promised, guarantee in BY_SITE.items():
        (threshold,) = trial.thresholds(LAC(), [ALPHA], kind="exact", guarantee=guarantee)
        sets = trial.sets(LAC(), threshold)
        covered, size = trial.covered(sets), np.count_nonzero(sets) / len(sets)
        hits[promised] = np.bincount(clients, covered, len(rows)).astype(np.int64)
        labels[promised] = f"promised to {promised}: {covered.mean():.1%} together, {size:.2f} labels a set"
    held = np.flatnonzero(rows)
    order = held[np.argsort((next(iter(hits.values()))[held] / rows[held]), kind="stable")]
    plot = Plot(
        title=title,
        x=(-0.7, len(order) - 0.3),
        y=(0.6, 1.0),
        x_label="site",
        y_label="coverage, 95% interval",
        x_names=[answers.sites[client] for client in order],
        y_text=percent,
        width=640 if len(order) > 8 else 480,
    )
    plot.target(1 - ALPHA, "asked for")
    for beside, (promised, found) in zip((-0.12, 0.12), hits.items(), strict=True):
        low, high = clopper_pearson(found[order], rows[order])
        places = (np.arange(len(order)) + beside).tolist()
        for x, bottom, top in zip(places, low.tolist(), high.tolist(), strict=True):
            plot.interval(x, bottom, top, labels[promised])
        plot.dots(list(zip(places, (found[order] / rows[order]).tolist(), strict=True)), labels[promised])
    return plot


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
    panel = partial(Plot, x=(-0.5, len(names) - 0.5), x_label="guarantee at alpha 0.1", x_names=names, width=540)
    lowest = panel(
        title="CIFAR-100 with TCT: coverage of the worst of 20 clients",
        y=(0.6, 1.0),
        y_label="coverage of the worst client",
        y_text=percent,
    )
    cost = panel(
        title="What it costs: labels a set", y=(0.0, float(sizes.mean(axis=0).max()) * 1.1), y_label="labels a set"
    )
    lowest.target(1 - ALPHA, "asked for")
    for plot, values in ((lowest, worst), (cost, sizes)):
        for i in range(len(names)):
            mean, sd = float(values[:, i].mean()), float(values[:, i].std(ddof=1))
            plot.interval(i, mean - sd, mean + sd, "mean and deviation over trials")
        plot.dots(list(enumerate(values.mean(axis=0).tolist())), "mean and deviation over trials")
    return figure(lowest, cost, name="Guarantees and their cost")
