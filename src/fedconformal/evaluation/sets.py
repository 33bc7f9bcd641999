"""Coverage and size of prediction sets: over all rows, by client, by class, by set size."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedconformal.errors import InputError
from fedconformal.evaluation.intervals import clopper_pearson
from fedconformal.validation import Booleans, Integers, as_array, as_clients, as_labels

SIZE_EDGES = (0, 1, 2, 4, 11, 101, 1001, 10001)
"""Sets are compared in the size classes 0, 1, 2-3, 4-10, 11-100, 101-1000, ..."""


GROUP_COLUMNS = ("rows", "coverage", "95% interval", "mean size")


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """Some rows: how many, how often the truth is in the set (95% interval low to high), how large the sets are."""

    name: str
    rows: int
    coverage: float
    low: float
    high: float
    mean_size: float

    @property
    def cells(self) -> tuple[str, ...]:
        """The numbers as text, for a table with these GROUP_COLUMNS."""
        interval = f"{self.low:.3f} to {self.high:.3f}"
        return self.name, str(self.rows), f"{self.coverage:.4f}", interval, f"{self.mean_size:.3f}"


class Evaluation(msgspec.Struct, frozen=True, kw_only=True):
    """How a predictor did on rows with known labels.

    A single site a little below 1 - alpha is not a violation: the promise is on average over calibration
    draws and the stated mixture. The intervals show what the test rows alone leave open.
    """

    overall: Group
    size_histogram: list[int]
    by_client: list[Group]
    by_class: list[Group]
    by_size: list[Group]

    @property
    def coverage(self) -> float:
        """The share of rows whose set holds the truth."""
        return self.overall.coverage

    @property
    def mean_size(self) -> float:
        """The mean number of labels in a set."""
        return self.overall.mean_size

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists, dicts and numbers, ready for JSON."""
        built: dict[str, Any] = msgspec.to_builtins(self)
        return built

    def __repr__(self) -> str:
        """Tell the two numbers that matter."""
        return f"Evaluation(coverage={self.coverage:.4f}, mean_size={self.mean_size:.3f}, rows={self.overall.rows})"


def evaluate_sets(sets: ArrayLike, labels: ArrayLike, *, clients: ArrayLike | None = None) -> Evaluation:
    """Compare (n, J) boolean sets with the true labels.

    >>> result = evaluate_sets([[True, True], [False, True], [True, False]], [0, 1, 1], clients=["a", "a", "b"])
    >>> result
    Evaluation(coverage=0.6667, mean_size=1.333, rows=3)
    >>> [(group.name, group.coverage) for group in result.by_client]
    [('a', 1.0), ('b', 0.0)]
    """
    member: Booleans = as_array(sets, "sets")
    if member.ndim != 2 or member.dtype != np.bool_ or not len(member):
        raise InputError(f"sets: expected (rows, classes) booleans, got {member.dtype} of shape {member.shape}")
    rows, classes = member.shape
    truth = as_labels(labels, rows=rows, classes=classes)
    covered = member[np.arange(rows), truth]
    sizes = np.count_nonzero(member, axis=1)
    stratum = np.searchsorted(SIZE_EDGES, sizes, side="right") - 1
    return Evaluation(
        overall=_groups(np.zeros(rows, dtype=np.int64), ["all"], covered, sizes)[0],
        size_histogram=np.bincount(sizes, minlength=classes + 1).tolist(),
        by_client=[] if clients is None else _by_value(as_clients(clients, rows=rows), covered, sizes),
        by_class=_by_value(truth, covered, sizes),
        by_size=_groups(stratum, [_size_name(i) for i in range(len(SIZE_EDGES))], covered, sizes),
    )


def _by_value(values: NDArray[Any], covered: Booleans, sizes: Integers) -> list[Group]:
    names, index = np.unique(values, return_inverse=True)
    return _groups(index, [str(name) for name in names], covered, sizes)


def _groups(index: Integers, names: list[str], covered: Booleans, sizes: Integers) -> list[Group]:
    rows = np.bincount(index, minlength=len(names))
    hits = np.bincount(index, weights=covered, minlength=len(names)).astype(np.int64)
    totals = np.bincount(index, weights=sizes, minlength=len(names))
    low, high = clopper_pearson(hits, rows)
    return [
        Group(
            name=name,
            rows=int(rows[i]),
            coverage=float(hits[i] / rows[i]),
            low=float(low[i]),
            high=float(high[i]),
            mean_size=float(totals[i] / rows[i]),
        )
        for i, name in enumerate(names)
        if rows[i]
    ]


def _size_name(i: int) -> str:
    first = SIZE_EDGES[i]
    if i + 1 == len(SIZE_EDGES):
        return f"{first}+"
    last = SIZE_EDGES[i + 1] - 1
    return str(first) if first == last else f"{first}-{last}"
