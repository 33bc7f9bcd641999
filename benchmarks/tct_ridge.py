"""Which ridge suits TCT's second stage on CIFAR-100: the loss of validation rows, from one set of features.

    FEDCONFORMAL_DATA=DIR python benchmarks/tct_ridge.py

The network is the one that others trained for 100 rounds of FedAvg. Test rows are not looked at. About ten minutes.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch
from common import save, table

from fedconformal.training.config import Config
from fedconformal.training.lbfgs import LBFGS
from fedconformal.training.linear_site import LinearTask, linear_task
from fedconformal.training.linear_stage import Moments, mean_loss, merge, scale_of
from fedconformal.training.run import build_model, partitioned, site_rows
from fedconformal.training.step import Step
from fedconformal.training.tct import TCT, LinearisedModel

RIDGES = (0.03, 0.1, 0.3, 1.0, 3.0)
ROUNDS = 50
COORDINATES = 4000
WEIGHTS = "checkpoints/cifar100_fedavg_resnet14_round100.pth"
SETTINGS: dict[str, Any] = {"dataset": "cifar100", "model": "resnet14", "method": "tct", "rounds": 0}


def solve(task: LinearTask, sites: int, model: LinearisedModel, ridge: float) -> float:
    """Train with one ridge; return the training loss, with the ridge, and set the model's theta."""
    rows = sum(task.storage.sizes)
    solver = LBFGS(
        theta=torch.zeros_like(model.theta),
        penalty=torch.full_like(model.theta[0], ridge / rows),
    )
    for _ in range(ROUNDS):
        if solver.done:
            break
        answers = [task(site, solver.question()) for site in range(sites)]
        gradient = sum(one.rows / rows * one.tensors["gradient"] for one in answers)
        loss = sum(one.rows / rows * one.numbers["loss"] for one in answers)
        solver.learn(torch.as_tensor(gradient), float(loss), rows=rows)
    model.theta = solver.theta
    return solver.loss


def main() -> None:
    """Print a table and write the results."""
    weights = str(Path(os.environ["FEDCONFORMAL_DATA"]) / WEIGHTS)
    config = Config.from_dict({**SETTINGS, "weights": weights})
    tct = TCT(rounds=0, coordinates=COORDINATES, intercept=False)
    dataset, parted = partitioned(config)
    sites = site_rows(config, dataset, parted)
    model = LinearisedModel.of(
        build_model(config, dataset), classes=dataset.num_classes, coordinates=COORDINATES, seed=0, intercept=False
    )
    y = torch.from_numpy(dataset.val.y)
    inputs = sites[0].preprocess(torch.from_numpy(dataset.val.x))
    found = []
    with linear_task(tct, model.features, sites, torch.empty(0), torch.device("cpu")) as task:
        parts = [task(site, Step("measure")) for site in range(len(sites))]
        moments = merge([Moments(one.rows, one.tensors["mean"], one.tensors["variance"]) for one in parts])
        model.mean, model.scale = moments.mean.float(), scale_of(moments)
        for site in range(len(sites)):
            task(site, Step("prepare", {"mean": model.mean, "scale": model.scale}))
        for ridge in RIDGES:
            training = solve(task, len(sites), model, ridge)
            logits = model(inputs)
            right = float((logits.argmax(dim=1) == y).float().mean())
            loss = mean_loss(logits.T, y, "cross-entropy")
            found.append({"ridge": ridge, "training": training, "loss": loss, "accuracy": right})
    head = ["ridge", "training loss with the ridge", "validation loss", "validation accuracy"]
    table(head, [list(one.values()) for one in found])
    save("tct_ridge", {"rows": found, "validation_rows": len(y)})


if __name__ == "__main__":
    main()
