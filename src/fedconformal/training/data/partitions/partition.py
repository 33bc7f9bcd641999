"""Which site has which row: every row of every split belongs to exactly one site.

A partition says it once for all three splits, so a site calibrates and tests on data that is like its training data.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fedconformal._base.arrays import Integers
from fedconformal._base.names import as_name, name_key
from fedconformal.errors import InputError
from fedconformal.training.data.dataset import SPLITS, Dataset, Rows, Split

logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False, kw_only=True)
class Sites:
    """The names of the sites, and for every row of every split the position of the site that has it.

    >>> sites = Sites(names=("a", "b"), train=np.array([0, 1, 1]), val=np.array([0, 1]), test=np.array([1, 0]))
    >>> sites.sizes("train").tolist()
    [1, 2]
    """

    names: tuple[str, ...]
    train: Integers
    val: Integers
    test: Integers

    def __post_init__(self) -> None:
        if not self.names or len(set(map(name_key, self.names))) != len(self.names):
            raise InputError(f"sites: expected one name a site, each a different one, got {list(self.names)!r:.80}")
        for name in self.names:
            as_name(name, "a site's name")
        for split in SPLITS:
            owners = self.owners(split)
            if owners.ndim != 1 or (len(owners) and not (owners.min() >= 0 and owners.max() < len(self.names))):
                raise InputError(f"sites: every {split} row needs a site, a number from 0 to {len(self.names) - 1}")
            empty = [name for name, size in zip(self.names, self.sizes(split), strict=True) if not size]
            if empty:
                logger.warning("no %s rows at %s", split, ", ".join(empty))

    def __len__(self) -> int:
        return len(self.names)

    def owners(self, split: Split) -> Integers:
        """Return for every row of a split the position of its site."""
        return {"train": self.train, "val": self.val, "test": self.test}[split]

    def sizes(self, split: Split) -> NDArray[np.int64]:
        """Return how many rows of a split each site has."""
        return np.bincount(self.owners(split), minlength=len(self.names))

    def rows(self, dataset: Dataset, split: Split, client: int) -> Rows:
        """Return the rows of a split that a site has, by the site's position."""
        if not 0 <= client < len(self.names):
            raise InputError(f"client is {client}, expected a position from 0 to {len(self.names) - 1}")
        return dataset.rows(split).take(np.flatnonzero(self.owners(split) == client))


@dataclass(frozen=True, kw_only=True)
class Partition(ABC):
    """A way to part a data set among sites. A file here that derives from it is found by its `name`."""

    name: ClassVar[str]

    @abstractmethod
    def split(self, dataset: Dataset, seed: int = 0) -> Sites:
        """Give every row to a site; the same seed gives the same sites."""


def numbered(clients: int) -> tuple[str, ...]:
    """Name sites that have no name of their own.

    >>> numbered(3)
    ('site-0', 'site-1', 'site-2')
    """
    return tuple(f"site-{k}" for k in range(clients))


def check_clients(clients: int) -> None:
    """Refuse fewer than one site."""
    if clients < 1:
        raise InputError(f"clients is {clients}, expected a whole number from 1")


def deal_by_class(dataset: Dataset, shares: NDArray[np.float64], seed: int) -> Sites:
    """Deal out the rows of each class at random; `shares[j, k]` is the part of class j that site k gets.

    >>> from fedconformal.training.data import load
    >>> deal_by_class(load("digits"), np.ones((10, 2)), seed=0).sizes("train").tolist()
    [537, 541]
    """
    rng = np.random.default_rng(seed)
    owners = {}
    for split in SPLITS:
        labels = dataset.rows(split).y
        owners[split] = np.empty(len(labels), np.int64)
        for label, sizes in enumerate(sizes_by_class(dataset, split, shares)):
            rows = np.flatnonzero(labels == label)
            owners[split][rng.permutation(rows)] = np.repeat(np.arange(len(sizes)), sizes)
    return Sites(names=numbered(shares.shape[1]), **owners)


def sizes_by_class(dataset: Dataset, split: Split, shares: NDArray[np.float64]) -> Integers:
    """Return how many rows of each class each site gets: whole numbers that add up, and none for a share of zero."""
    counts = np.bincount(dataset.rows(split).y, minlength=dataset.num_classes)
    ends = np.cumsum(shares, axis=1)
    bounds = np.rint(ends / ends[:, -1:] * counts[:, np.newaxis]).astype(np.int64)
    return np.diff(bounds, axis=1, prepend=0)
