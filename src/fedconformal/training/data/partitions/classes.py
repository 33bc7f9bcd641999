"""Sites that differ in what they see: each has some of the classes, as in the paper's experiments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedconformal.errors import InputError
from fedconformal.training.data.dataset import Dataset
from fedconformal.training.data.partitions.partition import Partition, Sites, deal_by_class

STEP = 2


@dataclass(frozen=True, kw_only=True)
class Classes(Partition):
    """Each site has the classes of one group; a class in several groups is dealt out evenly among them.

    Without `groups` they are those that the paper uses for the data set.

    Attributes:
        groups: the classes of each site.

    >>> from fedconformal.training.data import load
    >>> digits = load("digits")
    >>> sites = Classes(groups=((0, 1, 2, 3, 4), (5, 6, 7, 8, 9))).split(digits)
    >>> sorted({int(label) for label in sites.rows(digits, "val", 1).y})
    [5, 6, 7, 8, 9]
    """

    name = "classes"

    groups: Sequence[Sequence[int]] | None = None

    def split(self, dataset: Dataset, seed: int = 0) -> Sites:
        groups = dataset.groups if self.groups is None else self.groups
        if groups is None:
            raise InputError(f"{dataset.name}: the paper has no class groups for it; give groups, or part it otherwise")
        held = np.zeros((dataset.num_classes, len(groups)))
        for k, group in enumerate(groups):
            for label in group:
                if not 0 <= label < dataset.num_classes:
                    raise InputError(f"groups: {label} is no class of {dataset.name}, expected 0 to {len(held) - 1}")
                held[label, k] = 1
        if missing := [str(label) for label in np.flatnonzero(held.sum(axis=1) == 0)]:
            raise InputError(f"groups: no site has class {', '.join(missing)} of {dataset.name}; put it in a group")
        return deal_by_class(dataset, held, seed)


@dataclass(frozen=True, kw_only=True)
class Overlap(Partition):
    """Site k has `classes_per_client` classes from class 2k on; after the last class comes the first again.

    It is the paper's sweep on CIFAR-10. The rows of a class that several sites share are dealt out evenly. On ten
    classes, 2 give five sites without a class in common, 3 give [0, 1, 2], [2, 3, 4], ..., 10 give all classes to all.

    Attributes:
        classes_per_client: how many classes a site has.

    >>> from fedconformal.training.data import load
    >>> digits = load("digits")
    >>> sites = Overlap(classes_per_client=3).split(digits)
    >>> sorted({int(label) for label in sites.rows(digits, "test", 4).y})
    [0, 8, 9]
    """

    name = "overlap"

    classes_per_client: int = 2

    def split(self, dataset: Dataset, seed: int = 0) -> Sites:
        classes = dataset.num_classes
        if not STEP <= self.classes_per_client <= classes:
            raise InputError(f"classes_per_client is {self.classes_per_client}, expected {STEP} to {classes}")
        groups = [[(start + i) % classes for i in range(self.classes_per_client)] for start in range(0, classes, STEP)]
        return Classes(groups=groups).split(dataset, seed)
