"""What every data set has in common: a name, and a way to be loaded."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from fedconformal.data.dataset import Dataset, Progress

Groups = tuple[tuple[int, ...], ...]


class Source(ABC):
    """Where a data set comes from. A file here that derives from it is found by its `name`."""

    name: ClassVar[str]
    noun: ClassVar[str] = "data set"
    classes: ClassVar[tuple[str, ...]] = ()
    """What the classes are called, where it is known before the data is read."""
    groups: ClassVar[Groups] = ()
    """The classes of each client in the paper, if it is in the paper."""

    @abstractmethod
    def load(self, *, download: bool, progress: Progress | None) -> Dataset:
        """Read the data set from where data is kept, or else, if that is wanted, download it first."""


def in_groups_of(size: int, classes: int) -> Groups:
    """Return neighbouring classes in groups; the last one takes what is left over.

    >>> in_groups_of(2, 7)
    ((0, 1), (2, 3), (4, 5, 6))
    """
    starts = range(0, classes - classes % size, size)
    return tuple(tuple(range(start, start + size if start != starts[-1] else classes)) for start in starts)
