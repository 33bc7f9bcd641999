"""Sites that differ at random; one number says how much.

The parts of a class that the sites get are a draw from a Dirichlet distribution: nearly equal when the
concentration is large, nearly all at one site when it is small.
Yurochkin et al., "Bayesian nonparametric federated learning of neural networks", 2019.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedconformal.errors import InputError
from fedconformal.training.data.dataset import SPLITS, Dataset
from fedconformal.training.data.partitions.partition import (
    Partition,
    Sites,
    check_clients,
    deal_by_class,
    sizes_by_class,
)

LEAST = 2
"""Rows of every split at every site: validation rows are halved later, into temperature and calibration."""
DRAWS = 1000
MOST = 1e9
"""Sites are alike at much smaller values."""


@dataclass(frozen=True, kw_only=True)
class Dirichlet(Partition):
    """Draw each class's parts, the same for all splits; draw again while a site has fewer than two rows.

    Attributes:
        clients: how many sites.
        concentration: how alike the sites are; large for nearly equal parts.

    >>> from fedconformal.training.data import load
    >>> sites = Dirichlet(clients=3, concentration=0.5).split(load("digits"), seed=1)
    >>> int(sites.sizes("train").sum())
    1078
    """

    name = "dirichlet"

    clients: int = 10
    concentration: float = 0.5

    def split(self, dataset: Dataset, seed: int = 0) -> Sites:
        check_clients(self.clients)
        if not 0 < self.concentration <= MOST:
            raise InputError(f"concentration is {self.concentration}, expected a positive number up to {MOST:g}")
        rng = np.random.default_rng(seed)
        for _ in range(DRAWS):
            shares = rng.dirichlet([self.concentration] * self.clients, size=dataset.num_classes)
            if all(sizes_by_class(dataset, split, shares).sum(axis=0).min() >= LEAST for split in SPLITS):
                return deal_by_class(dataset, shares, seed)
        raise InputError(
            f"{dataset.name}: at concentration {self.concentration:g} some of {self.clients} sites are always left "
            f"with less than {LEAST} rows of a split; take fewer clients or a larger concentration"
        )
