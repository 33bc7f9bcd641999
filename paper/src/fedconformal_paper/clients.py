"""Clients of rows by the paper's class maps, for files of logits without clients."""

from __future__ import annotations

from typing import Literal

import numpy as np

from fedconformal._base.arrays import Integers
from fedconformal._base.registry import members
from fedconformal.errors import InputError
from fedconformal.training.data.sets.source import DataSource, Groups, in_groups_of

Partition = Literal["classes", "iid", "one"]

GROUPS: dict[str, Groups] = {
    **{name: source.groups for name, source in members(DataSource).items() if source.groups},
    "mnist": in_groups_of(1, 10),
}
"""The classes that each client holds; CIFAR-100's are its twenty official superclasses."""


def client_of_each(labels: Integers, dataset: str, partition: Partition, *, seed: int = 0) -> Integers:
    """Assign rows to clients: by class as in the paper, at random to as many clients, or all to one.

    >>> client_of_each(np.array([0, 1, 5, 6]), "dermamnist", "classes")
    array([0, 0, 2, 2])
    """
    if partition == "one":
        return np.zeros(len(labels), dtype=np.int64)
    if dataset not in GROUPS:
        raise InputError(f"{dataset}: the paper's class map is not known; give the file val_clients and test_clients")
    groups = GROUPS[dataset]
    if partition == "iid":
        return np.random.default_rng(seed).permutation(len(labels)) % len(groups)
    owner = np.empty(sum(map(len, groups)), dtype=np.int64)
    for k, group in enumerate(groups):
        owner[list(group)] = k
    return owner[labels]
