"""Challenges of federated calibration: one client's threshold covers only its rows; heterogeneity enlarges sets."""

from __future__ import annotations

import numpy as np

from fedconformal.guarantees import OneSite
from fedconformal.report.charts import percent
from fedconformal.scores import LAC
from fedconformal_paper.figures.histogram import draw_sizes
from fedconformal_paper.figures.plot import Plot, figure
from fedconformal_paper.setup import Setup

LEVELS = tuple(round(0.5 + 0.05 * i, 2) for i in range(10))


def challenge_exchangeability(setup: Setup) -> str:
    """fig:challenge-exchangeability: one client calibrates alone, and its threshold covers only there.

    The paper shows its first client; here is also the client whose threshold covers all clients together least.
    """
    answers = setup.need("cifar100", "fedavg")
    clients = np.flatnonzero(np.bincount(answers.clients))
    here, everywhere = np.empty((2, setup.count, len(clients), len(LEVELS)))
    alphas = [round(1 - level, 9) for level in LEVELS]
    for t, trial in enumerate(setup.trials(answers)):
        tested = trial.test.scores(LAC())
        for k, client in enumerate(clients):
            guarantee = OneSite(site=f"client-{client}")
            covered = tested[:, None] <= trial.thresholds(LAC(), alphas, kind="exact", guarantee=guarantee)
            here[t, k] = covered[trial.test.clients == client].mean(axis=0)
            everywhere[t, k] = covered.mean(axis=0)
    lowest = int(everywhere.mean(axis=(0, 2)).argmin())
    drawn = {
        f"client {clients[0]}, when it calibrates": here[:, 0],
        f"all clients, when client {clients[0]} calibrates": everywhere[:, 0],
        f"all clients, when client {clients[lowest]} calibrates": everywhere[:, lowest],
    }
    plot = Plot(
        title="Coverage when one client alone calibrates (CIFAR-100, FedAvg)",
        x=(LEVELS[0], LEVELS[-1]),
        y=(0.0, 1.0),
        x_label="coverage asked for, 1 - alpha",
        y_label="coverage on test rows",
        x_text=percent,
        y_text=percent,
    )
    plot.diagonal("asked for")
    for name, shares in drawn.items():
        plot.bands(LEVELS, shares, name)
    return figure(plot)


def challenge_efficiency(setup: Setup) -> str:
    """fig:challenge-efficiency: sizes with like and unlike clients (the paper's text has its two means swapped)."""
    title = "Set sizes with like and unlike clients (CIFAR-100, FedAvg, LAC at alpha 0.1)"
    variants = {"like clients": "iid", "unlike clients": ""}
    models = {name: setup.need("cifar100", "fedavg", variant=variant) for name, variant in variants.items()}
    return draw_sizes(setup, title, 80, models, {"like clients": 7.5, "unlike clients": 21.1})
