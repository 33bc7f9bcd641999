"""Which ridge, and whether an intercept, suits TCT's second stage: the loss of rows that neither calibrate nor test.

    FEDCONFORMAL_DATA=DIR python benchmarks/tct_ridge.py [digits | heart_disease | dermamnist | cifar100]

The loss is that of the half of the validation rows that fits the temperature. The network comes from 20 rounds of
FedAvg; on CIFAR-100 it is one that others trained for 100 rounds, which takes about ten minutes.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import save, table
from torch import nn

from fedconformal.training import ClientData, FedAvg
from fedconformal.training.config import Config
from fedconformal.training.lbfgs import LBFGS
from fedconformal.training.linear_site import LinearTask
from fedconformal.training.linear_stage import Moments, mean_loss, merge, scale_of
from fedconformal.training.outputs import halves
from fedconformal.training.run import build_model, partition_dataset, site_rows
from fedconformal.training.step import Step
from fedconformal.training.tct import TCT, LinearisedModel, linear_task

RIDGES = (0.03, 0.1, 0.3, 1.0, 3.0)
ROUNDS = 50
COORDINATES = 4000
CASES: dict[str, dict[str, Any]] = {
    "digits": {},
    "heart_disease": {"partition": "column", "column": "hospital"},
    "dermamnist": {"model": "lenet"},
    "cifar100": {"model": "resnet14", "weights": "checkpoints/cifar100_fedavg_resnet14_round100.pth"},
}


def solve(task: LinearTask, sites: int, model: LinearisedModel, ridge: float) -> None:
    """Train with one ridge, and set the model's theta."""
    rows = sum(task.storage.sizes)
    penalty = torch.full_like(model.theta[0], ridge / rows)
    penalty[model.features.count :] = 0.0
    solver = LBFGS(theta=torch.zeros_like(model.theta), penalty=penalty)
    for _ in range(ROUNDS):
        if solver.done:
            break
        answers = [task(site, solver.question()) for site in range(sites)]
        gradient = sum(one.rows / rows * one.tensors["gradient"] for one in answers)
        loss = sum(one.rows / rows * one.numbers["loss"] for one in answers)
        solver.learn(torch.as_tensor(gradient), float(loss), rows=rows)
    model.theta = solver.theta


def compare(network: nn.Module, sites: list[ClientData], x: Any, y: Any, *, intercept: bool) -> list[dict[str, Any]]:
    """Return the loss and the accuracy on the held-out rows with every ridge."""
    tct, found = TCT(rounds=0, coordinates=COORDINATES, intercept=intercept), []
    classes = network(x[:1]).shape[1]
    model = LinearisedModel.of(network, classes=classes, coordinates=COORDINATES, seed=0, intercept=intercept)
    with linear_task(tct, model.features, sites, torch.empty(0)) as task:
        parts = [task(site, Step("measure")) for site in range(len(sites))]
        moments = merge([Moments(one.rows, one.tensors["mean"], one.tensors["variance"]) for one in parts])
        model.mean, model.scale = moments.mean.float(), scale_of(moments)
        for site in range(len(sites)):
            task(site, Step("prepare", {"mean": model.mean, "scale": model.scale}))
        for ridge in RIDGES:
            solve(task, len(sites), model, ridge)
            logits = model(x)
            right = float((logits.argmax(dim=1) == y).float().mean())
            loss = mean_loss(logits.T, y, "cross-entropy")
            found.append({"intercept": intercept, "ridge": ridge, "loss": loss, "accuracy": right})
    return found


def main() -> None:
    """Print a table and write the results."""
    name = sys.argv[1] if len(sys.argv) > 1 else "digits"
    settings = {"dataset": name, "method": "tct", **CASES[name]}
    if "weights" in settings:
        settings["weights"] = str(Path(os.environ["FEDCONFORMAL_DATA"]) / settings["weights"])
    config = Config.from_dict(settings)
    dataset, parted = partition_dataset(config)
    sites, network = site_rows(config, dataset, parted), build_model(config, dataset)
    if "weights" not in settings:
        network = FedAvg(rounds=20, workers=1).fit(network, sites)
    rows = dataset.val.take(halves(parted, config.trainer.seed)[0])
    x, y = sites[0].preprocess(torch.from_numpy(rows.x)), torch.from_numpy(rows.y.astype(np.int64))
    found = [row for intercept in (True, False) for row in compare(network.eval(), sites, x, y, intercept=intercept)]
    table(["intercept", "ridge", "loss", "accuracy"], [list(one.values()) for one in found])
    save(f"tct_ridge_{name}", {"rows": found, "validation_rows": len(y)})


if __name__ == "__main__":
    main()
