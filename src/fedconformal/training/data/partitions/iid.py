"""Sites that are all alike: the control that shows what heterogeneity costs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedconformal.training.data.dataset import SPLITS, Dataset
from fedconformal.training.data.partitions.partition import Partition, Sites, check_clients, numbered


@dataclass(frozen=True, kw_only=True)
class IID(Partition):
    """Deal out the rows at random; sizes differ by one row at most.

    Attributes:
        clients: how many sites.

    >>> from fedconformal.training.data import load
    >>> IID(clients=4).split(load("digits")).sizes("train").tolist()
    [270, 270, 269, 269]
    """

    name = "iid"

    clients: int = 10

    def split(self, dataset: Dataset, seed: int = 0) -> Sites:
        check_clients(self.clients)
        rng = np.random.default_rng(seed)
        owners = {split: rng.permutation(np.arange(len(dataset.rows(split))) % self.clients) for split in SPLITS}
        return Sites(names=numbered(self.clients), **owners)
