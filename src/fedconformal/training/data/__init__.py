"""Data sets by name, and their partitions among sites."""

from __future__ import annotations

from fedconformal._base.registry import find, members
from fedconformal.training.data import partitions
from fedconformal.training.data.dataset import SPLITS, Dataset, Progress, Rows, Split
from fedconformal.training.data.partitions import Partition, Sites
from fedconformal.training.data.sets.source import DataSource

__all__ = [
    "SPLITS",
    "DataSource",
    "Dataset",
    "Partition",
    "Progress",
    "Rows",
    "Sites",
    "Split",
    "load",
    "names",
    "partitions",
]


def names() -> list[str]:
    """Return the names of the available data sets.

    >>> "digits" in names()
    True
    """
    return sorted(members(DataSource))


def load(name: str, *, download: bool = True, progress: Progress | None = None) -> Dataset:
    """Load a data set from $FEDCONFORMAL_DATA, the user's cache or, with `download`, its publisher.

    >>> digits = load("digits")
    >>> len(digits.train), len(digits.val), len(digits.test), digits.shape
    (1078, 360, 359, (1, 8, 8))
    """
    return find(name, DataSource)().load(download=download, progress=progress)
