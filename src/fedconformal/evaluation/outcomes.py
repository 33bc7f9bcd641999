"""Which rows are covered, counted over all rows and in groups: the part that sets and intervals have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedconformal._base.arrays import Booleans, Integers, as_sites
from fedconformal.evaluation.intervals import clopper_pearson, clustered_interval

T = TypeVar("T")

ROWS, CLUSTERS = "rows are independent", "clusters are independent"
"""What intervals assume."""


def assumed_words(assumes: str) -> str:
    """Say what the 95% intervals of the coverage assume, in a sentence."""
    if assumes == ROWS:
        return f"95% interval, if {ROWS}. Several rows of one patient are not: give evaluate each row's cluster."
    return f"95% interval, if {CLUSTERS}. One with rows in several groups counts in each, and once over all rows."


def as_clusters(clusters: ArrayLike | None, *, rows: int) -> Integers | None:
    """Return the number of each row's cluster, where rows come in clusters."""
    if clusters is None:
        return None
    return np.unique(as_sites(clusters, rows=rows, name="clusters"), return_inverse=True)[1]


class Outcomes(NamedTuple, Generic[T]):
    """The outcome of each row: whether it is covered, its cluster, and how to describe some of the rows."""

    covered: Booleans
    clusters: Integers | None
    describe: Callable[[Integers, dict[str, Any]], T]
    """Takes the positions of the rows, and their name, number, coverage and its interval."""

    @property
    def assumes(self) -> str:
        """What the intervals assume."""
        return ROWS if self.clusters is None else CLUSTERS

    def overall(self) -> T:
        """Describe all rows."""
        return self.groups(np.zeros(len(self.covered), dtype=np.int64), ["all"])[0]

    def by_value(self, values: NDArray[Any]) -> list[T]:
        """Describe the rows of each value."""
        names, index = np.unique(values, return_inverse=True)
        return self.groups(index, [str(name) for name in names])

    def groups(self, index: Integers, names: list[str]) -> list[T]:
        """Describe the rows of each name that has some; `index` is the position of each row's name."""
        rows = np.bincount(index, minlength=len(names))
        return self.parts(np.split(np.argsort(index, kind="stable"), np.cumsum(rows)[:-1]), names)

    def parts(self, parts: Sequence[Integers], names: Sequence[str]) -> list[T]:
        """Describe the rows of each name that has some, by their positions; a row may be in several."""
        rows = np.array([len(mine) for mine in parts])
        hits = np.array([np.count_nonzero(self.covered[mine]) for mine in parts])
        return [
            self.describe(parts[i], {"name": names[i], "rows": count, "coverage": float(hits[i] / count), **interval})
            for i, (count, interval) in enumerate(zip(rows.tolist(), self._intervals(hits, rows, parts), strict=True))
            if count
        ]

    def _intervals(self, hits: Integers, rows: Integers, parts: Sequence[Integers]) -> Iterator[dict[str, Any]]:
        """Yield the interval of each group, and how many clusters it has."""
        if self.clusters is None:
            for low, high in np.stack(clopper_pearson(hits, rows), axis=1).tolist():
                yield {"low": low, "high": high}
            return
        for mine in parts:
            clusters = self.clusters[mine]
            low, high = clustered_interval(self.covered[mine], clusters) or (None, None)
            yield {"low": low, "high": high, "clusters": len(np.unique(clusters))}
