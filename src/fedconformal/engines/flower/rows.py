"""Where a site's rows come from: a directory of its own, or, to try things, one data set that is dealt out.

A site has rows for four purposes, each its own: to train, to fit the temperature, to calibrate and to test.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import torch
from flwr.app import Context
from torch import Tensor

from fedconformal._base.files import read_npz
from fedconformal.errors import InputError
from fedconformal.training import data
from fedconformal.training.data.partitions import Partition
from fedconformal.training.outputs import halves

PARTS = ("train", "temperature", "calibrate", "test")
Columns = tuple[Tensor, Tensor]


def own_rows(context: Context, part: str) -> Columns | None:
    """Read x and y of a part from rows.npz in the directory that `data` in the node config names, if it does."""
    if "data" not in context.node_config:
        return None
    path = Path(str(context.node_config["data"])) / "rows.npz"
    found = read_npz(path)
    for name in (f"{part}_x", f"{part}_y"):
        if name not in found:
            raise InputError(f"{path}: holds no {name}; it needs x and y of {', '.join(PARTS)}")
    return torch.from_numpy(found[f"{part}_x"]), torch.from_numpy(found[f"{part}_y"])


@cache
def deal(dataset: str, partition: Partition) -> list[dict[str, Columns]]:
    """Deal a data set out; of a site's validation rows one half fits the temperature, the other calibrates.

    Where numbers are predicted there is no temperature, and all of them calibrate.

    >>> from fedconformal.training.data.partitions import IID
    >>> {part: len(y) for part, (x, y) in deal("digits", IID(clients=10))[0].items()}
    {'train': 108, 'temperature': 18, 'calibrate': 18, 'test': 36}
    """
    whole = data.load(dataset)
    owners = partition.split(whole, seed=0)
    first, second = halves(owners, seed=0)
    if whole.target is not None:
        first, second = first[:0], np.arange(len(owners.val))
    parts = {
        "train": (whole.train, owners.train),
        "temperature": (whole.val.take(first), owners.val[first]),
        "calibrate": (whole.val.take(second), owners.val[second]),
        "test": (whole.test, owners.test),
    }
    return [
        {
            name: (torch.from_numpy(rows.x[owner == k]), torch.from_numpy(rows.y[owner == k]))
            for name, (rows, owner) in parts.items()
        }
        for k in range(len(owners))
    ]
