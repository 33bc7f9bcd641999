"""Which client each row belongs to: the paper's class maps, for files of logits that name no clients."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from fedconformal.errors import InputError
from fedconformal.validation import Integers

Partition = Literal["classes", "iid", "one"]
PARTITIONS: tuple[Partition, ...] = get_args(Partition)

Groups = tuple[tuple[int, ...], ...]

_PAIRS: Groups = ((0, 1), (2, 3), (4, 5), (6, 7))
_SINGLES: Groups = tuple((label,) for label in range(10))
_COARSE = """
    4 30 55 72 95 | 1 32 67 73 91 | 54 62 70 82 92 | 9 10 16 28 61 | 0 51 53 57 83 | 22 39 40 86 87 | 5 20 25 84 94
    | 6 7 14 18 24 | 3 42 43 88 97 | 12 17 37 68 76 | 23 33 49 60 71 | 15 19 21 31 38 | 34 63 64 66 75
    | 26 45 77 79 99 | 2 11 35 46 98 | 27 29 44 78 93 | 36 50 65 74 80 | 47 52 56 59 96 | 8 13 48 58 90 | 41 69 81 85 89
"""

GROUPS: dict[str, Groups] = {
    "bloodmnist": _PAIRS,
    "cifar10": (*_PAIRS, (8, 9)),
    "cifar100": tuple(tuple(map(int, group.split())) for group in _COARSE.split("|")),
    "dermamnist": ((0, 1), (2, 3), (4, 5, 6)),
    "fashionmnist": _SINGLES,
    "mnist": _SINGLES,
    "pathmnist": ((0, 1, 2), (3, 4, 5), (6, 7, 8)),
    "tissuemnist": _PAIRS,
}
"""The classes that each client holds; CIFAR-100's are its twenty official superclasses."""


def client_of_each(labels: Integers, dataset: str, partition: Partition, *, seed: int = 0) -> Integers:
    """Give every row to a client: by its class, as the paper does, at random among as many, or all to one.

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
