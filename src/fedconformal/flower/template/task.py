"""What is this app's own: the network, and the rows of one site."""

from functools import cache
from pathlib import Path

import torch
from flwr.app import Context
from torch import nn

from fedconformal import data, models
from fedconformal.data.partitions.dirichlet import Dirichlet
from fedconformal.files import read_npz
from fedconformal.training import ClientData, Preprocess
from fedconformal.training.logits import halves

PREPROCESS = Preprocess(mean=(0.3,), std=(0.37,))


def build_model() -> nn.Module:
    """Make the network; every site and the server make the same."""
    return models.build("mlp", shape=(1, 8, 8), classes=10, seed=0)


def load_rows(context: Context, part: str) -> ClientData:
    """Return the site's rows to train, to fit the temperature, to calibrate or to test, each its own.

    A site with a directory of its own, `data` in its node config, reads them from there. Without, the handwritten
    digits are dealt out among all sites, unevenly.
    """
    config = context.node_config
    if "data" in config:
        found = read_npz(Path(str(config["data"])) / "rows.npz")
        x, y = torch.from_numpy(found[f"{part}_x"]), torch.from_numpy(found[f"{part}_y"])
    else:
        x, y = deal(int(config["num-partitions"]))[int(config["partition-id"])][part]
    return ClientData(name=f"site-{config['partition-id']}", x=x, y=y, preprocess=PREPROCESS)


@cache
def deal(sites: int) -> list[dict[str, tuple[torch.Tensor, torch.Tensor]]]:
    """Deal the digits out; of a site's validation rows one half fits the temperature, the other calibrates."""
    digits = data.load("digits")
    owners = Dirichlet(clients=sites, concentration=5.0).split(digits, seed=0)
    parts = {"train": (digits.train, owners.train), "test": (digits.test, owners.test)}
    for name, half in zip(("temperature", "calibrate"), halves(owners, seed=0), strict=True):
        parts[name] = digits.val.take(half), owners.val[half]
    return [
        {
            name: (torch.from_numpy(rows.x[owner == k]), torch.from_numpy(rows.y[owner == k]))
            for name, (rows, owner) in parts.items()
        }
        for k in range(sites)
    ]
