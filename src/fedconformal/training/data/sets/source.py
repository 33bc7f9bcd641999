"""What every data set has in common: a name, and a way to be loaded."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from fedconformal.training.data.dataset import Dataset, Progress

Groups = tuple[tuple[int, ...], ...]


class DataSource(ABC):
    """Where a data set comes from. A file here that derives from it is found by its `name`."""

    name: ClassVar[str]
    noun: ClassVar[str] = "data set"
    classes: ClassVar[tuple[str, ...]] = ()
    """The names of the classes, where they are known before the data is read."""
    groups: ClassVar[Groups] = ()
    """The classes of each site in the paper, if it is in the paper."""

    @abstractmethod
    def load(self, *, download: bool, progress: Progress | None) -> Dataset:
        """Read the data set from where data is kept; if it is not there, download it first where that is allowed."""


def listed(text: str) -> tuple[str, ...]:
    """Return the class names of a text with semicolons between them.

    >>> listed("no disease; heart disease")
    ('no disease', 'heart disease')
    """
    return tuple(name.strip() for name in text.split(";"))


def in_groups_of(size: int, classes: int) -> Groups:
    """Return neighbouring classes in groups; the last group also takes the rest.

    >>> in_groups_of(2, 7)
    ((0, 1), (2, 3), (4, 5, 6))
    """
    starts = range(0, classes - classes % size, size)
    return tuple(tuple(range(start, start + size if start != starts[-1] else classes)) for start in starts)
