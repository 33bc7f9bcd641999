"""From sites without a class in common to sites that are all alike: the paper's sweep on CIFAR-10."""

from __future__ import annotations

from dataclasses import dataclass

from fedconformal.data.dataset import Dataset
from fedconformal.data.partitions.classes import Classes
from fedconformal.data.partitions.partition import Partition, Sites
from fedconformal.errors import InputError

STEP = 2


@dataclass(frozen=True, kw_only=True)
class Overlap(Partition):
    """Site k has `classes_per_client` classes from class 2k on; after the last class comes the first again.

    The rows of a class that several sites share are dealt out evenly. On ten classes, 2 give five sites without a
    class in common, 3 give [0, 1, 2], [2, 3, 4], ..., 10 give all classes to all sites.

    Attributes:
        classes_per_client: how many classes a site has.

    >>> from fedconformal.data import load
    >>> digits = load("digits")
    >>> sites = Overlap(classes_per_client=3).split(digits)
    >>> sorted({int(label) for label in sites.rows(digits, "test", 4).y})
    [0, 8, 9]
    """

    name = "overlap"

    classes_per_client: int = 2

    def split(self, dataset: Dataset, seed: int = 0) -> Sites:
        """Give every row to one of the sites that have its class."""
        classes = dataset.num_classes
        if not STEP <= self.classes_per_client <= classes:
            raise InputError(f"classes_per_client is {self.classes_per_client}, expected {STEP} to {classes}")
        groups = [[(start + i) % classes for i in range(self.classes_per_client)] for start in range(0, classes, STEP)]
        return Classes(groups=groups).split(dataset, seed)
