"""Partitions of a data set among sites: every row of every split belongs to exactly one site.

One partition applies to all three splits, so the calibration and test rows of a site resemble its training rows.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fedconformal._base.arrays import Integers
from fedconformal._base.names import as_name, name_key
from fedconformal.errors import InputError
from fedconformal.training.data.dataset import SPLITS, Dataset, Rows, Split

MIN_ROWS = 2
"""Minimum rows per split and site of `Dirichlet`: validation rows are halved into temperature and calibration."""
MAX_DRAWS = 1000
MAX_CONCENTRATION = 1e9
OVERLAP_STRIDE = 2

logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False, kw_only=True)
class Sites:
    """Site names, and the site index of every row of every split.

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
        """Return the site index of every row of a split."""
        return {"train": self.train, "val": self.val, "test": self.test}[split]

    def sizes(self, split: Split) -> NDArray[np.int64]:
        """Return the number of rows of a split at each site."""
        return np.bincount(self.owners(split), minlength=len(self.names))

    def rows(self, dataset: Dataset, split: Split, client: int) -> Rows:
        """Return the rows of a split at the site with this index."""
        return dataset.rows(split).take(np.flatnonzero(self.owners(split) == client))


@dataclass(frozen=True, kw_only=True)
class Partition(ABC):
    """Base class of partitions; subclasses are registered by `name`."""

    name: ClassVar[str]

    @abstractmethod
    def split(self, dataset: Dataset, seed: int = 0) -> Sites:
        """Assign every row to a site; the same seed gives the same sites."""


@dataclass(frozen=True, kw_only=True)
class IID(Partition):
    """Random partition without heterogeneity; site sizes differ by at most one row.

    Parameters
    ----------
    clients
        Number of sites.

    Examples
    --------
    >>> from fedconformal.training.data import load
    >>> IID(clients=4).split(load("digits")).sizes("train").tolist()
    [270, 270, 269, 269]
    """

    name = "iid"

    clients: int = 10

    def split(self, dataset: Dataset, seed: int = 0) -> Sites:
        names, rng = _numbered(self.clients), np.random.default_rng(seed)
        owners = {split: rng.permutation(np.arange(len(dataset.rows(split))) % self.clients) for split in SPLITS}
        return Sites(names=names, **owners)


@dataclass(frozen=True, kw_only=True)
class Column(Partition):
    """One site for each value of a column, in alphabetical order; nothing is random.

    Rows without a value belong to no site: leave them out first, with `dataset.having(column)`.

    Parameters
    ----------
    column
        The column of site names.

    Examples
    --------
    >>> rows = Rows(x=np.zeros((3, 1), np.float32), y=np.array([0, 0, 0]), columns={"ward": np.array(["b", "a", "b"])})
    >>> sites = Column(column="ward").split(Dataset(name="tiny", classes=("c",), train=rows, val=rows, test=rows))
    >>> sites.names, sites.train.tolist()
    (('a', 'b'), [1, 0, 1])
    """

    name = "column"

    column: str

    def split(self, dataset: Dataset, seed: int = 0) -> Sites:
        values = {split: dataset.column(split, self.column) for split in SPLITS}
        every = np.concatenate(list(values.values()))
        if nowhere := int(np.count_nonzero(every == "")):
            advice = f"leave them out with dataset.having({self.column!r})"
            raise InputError(f"{dataset.name}: {nowhere} rows have no value in {self.column!r}; {advice}")
        sites = np.unique(every)
        owners = {split: np.searchsorted(sites, values[split]) for split in SPLITS}
        return Sites(names=tuple(str(site) for site in sites), **owners)


@dataclass(frozen=True, kw_only=True)
class Classes(Partition):
    """Each site holds the classes of one group; the rows of a class in several groups are divided evenly.

    Parameters
    ----------
    groups
        The classes of each site; by default those of the paper for the data set.

    Examples
    --------
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
            raise InputError(f"{dataset.name}: has no class groups; give groups, or partition by iid or column")
        held = np.zeros((dataset.num_classes, len(groups)))
        for k, group in enumerate(groups):
            for label in group:
                if not 0 <= label < dataset.num_classes:
                    raise InputError(f"groups: {label} is no class of {dataset.name}, expected 0 to {len(held) - 1}")
                held[label, k] = 1
        if missing := [str(label) for label in np.flatnonzero(held.sum(axis=1) == 0)]:
            raise InputError(f"groups: no site has class {', '.join(missing)} of {dataset.name}; put it in a group")
        return _deal_by_class(dataset, held, _numbered(len(groups)), seed)


@dataclass(frozen=True, kw_only=True)
class Overlap(Partition):
    """Site k holds `classes_per_client` classes from class 2k on, cyclically: the paper's sweep on CIFAR-10.

    The rows of a shared class are divided evenly. On ten classes, 2 give five sites without a class in common, 3 give
    [0, 1, 2], [2, 3, 4], ..., 10 give all classes to all.

    Parameters
    ----------
    classes_per_client
        Number of classes at a site.

    Examples
    --------
    >>> from fedconformal.training.data import load
    >>> digits = load("digits")
    >>> sites = Overlap(classes_per_client=3).split(digits)
    >>> sorted({int(label) for label in sites.rows(digits, "test", 4).y})
    [0, 8, 9]
    """

    name = "overlap"

    classes_per_client: int = 2

    def split(self, dataset: Dataset, seed: int = 0) -> Sites:
        width, classes = self.classes_per_client, dataset.num_classes
        if not OVERLAP_STRIDE <= width <= classes:
            raise InputError(f"classes_per_client is {width}, expected {OVERLAP_STRIDE} to {classes}")
        groups = [[(start + i) % classes for i in range(width)] for start in range(0, classes, OVERLAP_STRIDE)]
        return Classes(groups=groups).split(dataset, seed)


@dataclass(frozen=True, kw_only=True)
class Dirichlet(Partition):
    """Site shares of each class drawn from a Dirichlet distribution, the same for all splits.

    Shares are redrawn while a site has fewer than two rows of a split.

    Parameters
    ----------
    clients
        Number of sites.
    concentration
        Large for nearly equal shares, small for nearly all rows of a class at one site.

    Examples
    --------
    >>> from fedconformal.training.data import load
    >>> sites = Dirichlet(clients=3, concentration=0.5).split(load("digits"), seed=1)
    >>> int(sites.sizes("train").sum())
    1078

    References
    ----------
    Yurochkin et al., "Bayesian nonparametric federated learning of neural networks", 2019.
    """

    name = "dirichlet"

    clients: int = 10
    concentration: float = 0.5

    def split(self, dataset: Dataset, seed: int = 0) -> Sites:
        if not 0 < self.concentration <= MAX_CONCENTRATION:
            raise InputError(f"concentration is {self.concentration}, expected above 0, at most {MAX_CONCENTRATION:g}")
        names, rng = _numbered(self.clients), np.random.default_rng(seed)
        for _ in range(MAX_DRAWS):
            shares = rng.dirichlet([self.concentration] * self.clients, size=dataset.num_classes)
            if all(_sizes_by_class(dataset, split, shares).sum(axis=0).min() >= MIN_ROWS for split in SPLITS):
                return _deal_by_class(dataset, shares, names, seed)
        problem = f"some of {self.clients} sites are always left with less than {MIN_ROWS} rows of a split"
        raise InputError(f"{dataset.name}: {problem}; use fewer clients or a larger concentration")


def _numbered(clients: int) -> tuple[str, ...]:
    if clients < 1:
        raise InputError(f"clients is {clients}, expected a whole number from 1")
    return tuple(f"site-{k}" for k in range(clients))


def _deal_by_class(dataset: Dataset, shares: NDArray[np.float64], names: tuple[str, ...], seed: int) -> Sites:
    """Deal the rows of each class at random; `shares[j, k]` is the share of class j at site k."""
    rng = np.random.default_rng(seed)
    owners = {}
    for split in SPLITS:
        labels = dataset.rows(split).y
        owners[split] = np.empty(len(labels), np.int64)
        for label, sizes in enumerate(_sizes_by_class(dataset, split, shares)):
            rows = np.flatnonzero(labels == label)
            owners[split][rng.permutation(rows)] = np.repeat(np.arange(len(sizes)), sizes)
    return Sites(names=names, **owners)


def _sizes_by_class(dataset: Dataset, split: Split, shares: NDArray[np.float64]) -> Integers:
    """Return row counts by class and site, which sum to the rows of each class; a share of zero gets none."""
    counts = np.bincount(dataset.rows(split).y, minlength=dataset.num_classes)
    ends = np.cumsum(shares, axis=1)
    bounds = np.rint(ends / ends[:, -1:] * counts[:, np.newaxis]).astype(np.int64)
    return np.diff(bounds, axis=1, prepend=0)
