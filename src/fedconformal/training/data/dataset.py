"""Data sets: rows in three splits, for training, calibration and testing.

Images are `uint8` of shape (n, channels, height, width), tables `float32` of shape (n, features). A row may have
columns beside its label, such as its hospital, whose values can define the sites of a partition.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedconformal._base.arrays import Integers, as_labels
from fedconformal.errors import InputError

Progress = Callable[[int, int, str], object]
"""Called with the work done, the total and a description."""

Split = Literal["train", "val", "test"]
SPLITS: tuple[Split, ...] = ("train", "val", "test")
Parts = Mapping[str, Any]
"""Rows by the name of their split."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False, kw_only=True)
class Rows:
    """Some rows of a data set.

    >>> rows = Rows(
    ...     x=np.zeros((3, 2), np.float32), y=np.array([0, 1, 1]), columns={"hospital": np.array(["a", "b", "a"])}
    ... )
    >>> len(rows), rows.take([2, 0]).columns["hospital"].tolist()
    (3, ['a', 'a'])
    """

    x: NDArray[Any]
    y: Integers
    columns: Mapping[str, NDArray[np.str_]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        lengths = {len(self.x), len(self.y), *(len(values) for values in self.columns.values())}
        if len(lengths) > 1:
            raise InputError(f"rows: inputs, labels and columns differ in length ({sorted(lengths)})")
        if (self.x.dtype, self.x.ndim) not in ((np.dtype("uint8"), 4), (np.dtype("float32"), 2)):
            actual = f"{self.x.dtype} {self.x.shape}"
            raise InputError(f"rows: inputs are {actual}, expected uint8 images or a float32 table")

    def __len__(self) -> int:
        return len(self.y)

    def take(self, index: ArrayLike) -> Rows:
        """Return these rows, by position or as a mask."""
        chosen = np.asarray(index)
        columns = {name: values[chosen] for name, values in self.columns.items()}
        return Rows(x=self.x[chosen], y=self.y[chosen], columns=columns)


@dataclass(frozen=True, eq=False, kw_only=True)
class Dataset:
    """A named data set; `groups` are the classes of each site in the paper, if it is in the paper.

    >>> rows = Rows(x=np.zeros((2, 1, 8, 8), np.uint8), y=np.array([0, 1]))
    >>> tiny = Dataset(name="tiny", classes=("cat", "dog"), train=rows, val=rows, test=rows)
    >>> tiny.num_classes, tiny.shape
    (2, (1, 8, 8))
    """

    name: str
    classes: tuple[str, ...]
    train: Rows
    val: Rows
    test: Rows
    groups: tuple[tuple[int, ...], ...] | None = None

    def __post_init__(self) -> None:
        for split in SPLITS:
            rows = self.rows(split)
            as_labels(rows.y, rows=len(rows), classes=self.num_classes, name=f"{self.name}: {split} labels")
            if rows.x.shape[1:] != self.shape:
                raise InputError(f"{self.name}: {split} rows are {rows.x.shape[1:]}, train rows {self.shape}")

    @property
    def num_classes(self) -> int:
        """Number of classes, including those without rows."""
        return len(self.classes)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one row: (channels, height, width) or (features,)."""
        return self.train.x.shape[1:]

    def rows(self, split: Split) -> Rows:
        """Return the rows of a split by its name."""
        return {"train": self.train, "val": self.val, "test": self.test}[split]

    def having(self, column: str) -> Dataset:
        """Leave out rows without a value in this column, and log their number.

        >>> rows = Rows(x=np.zeros((2, 1), np.float32), y=np.array([0, 0]), columns={"skin": np.array(["", "II"])})
        >>> len(Dataset(name="tiny", classes=("a",), train=rows, val=rows, test=rows).having("skin").train)
        1
        """
        known = {split: self.column(split, column) != "" for split in SPLITS}
        left_out = sum(int(np.count_nonzero(~mask)) for mask in known.values())
        if not left_out:
            return self
        logger.info("%s: %d rows without a value in %r are left out", self.name, left_out, column)
        complete: dict[str, Any] = {split: self.rows(split).take(mask) for split, mask in known.items()}
        return replace(self, **complete)

    def column(self, split: Split, name: str) -> NDArray[np.str_]:
        """Return a column of a split; an error lists the columns."""
        columns = self.rows(split).columns
        if name not in columns:
            raise InputError(f"{self.name}: has no column {name!r}; there are {', '.join(sorted(columns)) or 'none'}")
        return columns[name]


def cut(rows: Rows, shares: tuple[float, float, float], *, by: str | None = None) -> Parts:
    """Split rows at random with a fixed seed into train, val and test; `by` stratifies by a column.

    >>> rows = Rows(x=np.zeros((10, 1), np.float32), y=np.arange(10))
    >>> {split: len(part) for split, part in cut(rows, (0.6, 0.2, 0.2)).items()}
    {'train': 6, 'val': 2, 'test': 2}
    """
    order = np.random.default_rng(0).permutation(len(rows))
    group = rows.columns[by][order] if by else np.zeros(len(rows), np.int64)
    part = np.empty(len(rows), np.int64)
    for value in np.unique(group):
        members = order[group == value]
        ends = np.rint(np.cumsum(shares) * len(members)).astype(np.int64)
        part[members] = np.searchsorted(ends, np.arange(len(members)), side="right")
    return {split: rows.take(part == i) for i, split in enumerate(SPLITS)}
