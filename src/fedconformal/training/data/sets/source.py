"""Base class of the data sets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from fedconformal.training.data.dataset import Dataset, Parts, Progress
from fedconformal.training.data.download import Release, find, locate

Groups = tuple[tuple[int, ...], ...]


class DataSource:
    """Base class of data sets; subclasses in this package are registered by `name`."""

    name: ClassVar[str]
    noun: ClassVar[str] = "data set"
    classes: ClassVar[tuple[str, ...]] = ()
    """Names of the classes, if they are known before the data is read."""
    groups: ClassVar[Groups | None] = None
    """Classes of each site in the paper, if it is in the paper."""
    releases: ClassVar[tuple[Release, ...]] = ()
    """The official files."""
    own_file: ClassVar[str] = ""
    """A file that is read instead of the official ones, if it exists; the name may contain {name}."""

    def load(self, *, download: bool, progress: Progress | None) -> Dataset:
        """Read the data set from the data directories; with `download`, fetch missing official files."""
        own = self.own_file.format(name=self.name)
        if own and (path := find(own, f"subsets/{own}")):
            parts = self.read_own(path)
        else:
            parts = self.read([locate(release, download=download, progress=progress) for release in self.releases])
        return Dataset(name=self.name, classes=self.classes, groups=self.groups, **parts)

    def read(self, paths: Sequence[Path]) -> Parts:
        """Read the official files into train, val and test rows."""
        raise NotImplementedError

    def read_own(self, path: Path) -> Parts:
        """Read `own_file`."""
        return self.read([path])


def in_groups_of(size: int, classes: int) -> Groups:
    """Return groups of consecutive classes; the last group includes the remainder.

    >>> in_groups_of(2, 7)
    ((0, 1), (2, 3), (4, 5, 6))
    """
    starts = range(0, classes - classes % size, size)
    return tuple(tuple(range(start, start + size if start != starts[-1] else classes)) for start in starts)
