"""Coverage and size of prediction sets, overall, by site, class, set size and other columns; and a verdict."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from fedconformal._base.arrays import Booleans, Integers, as_array
from fedconformal._base.classes import as_class_indices
from fedconformal._base.groups import Groups, group_columns, group_rows
from fedconformal._base.names import name_key
from fedconformal.certificates.certificate import Certificate
from fedconformal.certificates.text import SETS
from fedconformal.errors import InputError
from fedconformal.evaluation.claims import classes_of
from fedconformal.evaluation.coverage import Counter, CoverageEvaluation, CoverageGroup

SIZE_EDGES = (0, 1, 2, 4, 11, 101, 1001, 10001)
"""Lower limits of the size classes 0, 1, 2-3, 4-10, 11-100, 101-1000, ..."""


def full_sets(sets: ArrayLike) -> int:
    """Count the sets that hold all labels; 0 if there is only one label.

    >>> full_sets([[True, True], [True, False]]), full_sets([[True]])
    (1, 0)
    """
    member: Booleans = as_array(sets, "sets")
    return int(np.count_nonzero(member.all(axis=1))) if member.shape[1] > 1 else 0


class Group(CoverageGroup, frozen=True, kw_only=True):
    """A group of rows with the mean size of its sets."""

    mean_size: float

    @property
    def sizes(self) -> tuple[str, ...]:
        return (f"{self.mean_size:.3f}",)


class Evaluation(CoverageEvaluation[Group], frozen=True, kw_only=True):
    """Coverage and size of sets on rows with known labels."""

    answers = SETS
    size_columns = ("mean size",)

    size_histogram: list[int]
    by_class: list[Group]
    by_size: list[Group]
    full_sets: int

    @property
    def mean_size(self) -> float:
        """Mean number of labels per set."""
        return self.overall.mean_size

    def __repr__(self) -> str:
        return f"Evaluation(coverage={self.coverage:.4f}, mean_size={self.mean_size:.3f}, rows={self.overall.rows})"


def evaluate_sets(
    sets: ArrayLike,
    labels: ArrayLike,
    *,
    sites: ArrayLike | None = None,
    clusters: ArrayLike | None = None,
    groups: Groups | None = None,
    certificate: Certificate | None = None,
    alpha: Any = None,
) -> Evaluation:
    """Evaluate (n, J) boolean sets against the true labels; see `Predictor.evaluate`.

    With a `certificate`, its promise is tested; `alpha` is the level of the sets, by default the certified one.

    >>> result = evaluate_sets([[True, True], [False, True], [True, False]], [0, 1, 1], sites=["a", "a", "b"])
    >>> result
    Evaluation(coverage=0.6667, mean_size=1.333, rows=3)
    >>> [(group.name, group.coverage) for group in result.by_site], result.full_sets, result.interval_assumes
    ([('a', 1.0), ('b', 0.0)], 1, 'rows are independent')
    """
    member: Booleans = as_array(sets, "sets")
    if member.ndim != 2 or member.dtype != np.bool_ or not len(member):
        raise InputError(f"sets: expected (rows, classes) booleans, got {member.dtype} of shape {member.shape}")
    rows, classes = member.shape
    known = None if certificate is None else certificate.class_names
    named = known if isinstance(known, list) and len(known) == classes else None
    truth = as_class_indices(labels, rows=rows, classes=named or classes)
    covered, sizes, full = member[np.arange(rows), truth], np.count_nonzero(member, axis=1), full_sets(member)

    def describe(group: CoverageGroup, mine: Integers) -> Group:
        return Group(**msgspec.structs.asdict(group), mean_size=float(sizes[mine].mean()))

    promised = None if certificate is None else _promised_groups(certificate, groups, rows)
    counter = Counter.of(covered, truth, describe, sites=sites, clusters=clusters, groups=groups, promised=promised)
    result = Evaluation(
        **counter.fields(),
        size_histogram=np.bincount(sizes, minlength=classes + 1).tolist(),
        by_class=counter.by_index(truth, named or [str(label) for label in range(classes)]),
        by_size=counter.by_index(
            np.searchsorted(SIZE_EDGES, sizes, side="right") - 1,
            [_size_name(i, classes) for i in range(len(SIZE_EDGES))],
        ),
        full_sets=full,
    )
    if certificate is None:
        return result
    over_classes = certificate.provenance.class_scores is not None
    parties = classes_of(truth, certificate.parties()[1]) if over_classes else counter.outcomes.sites
    return result.judge(certificate, alpha, counter.outcomes, full=full == rows, parties=parties)


def _promised_groups(certificate: Certificate, groups: Groups | None, rows: int) -> dict[str, Integers] | None:
    """Return the rows of each promised group, if the promise is by group and all columns are given."""
    if certificate.by != "group" or groups is None:
        return None
    needed = certificate.group_columns
    own = {name: values for name, values in group_columns(groups).items() if name_key(name) in needed}
    return group_rows(own, rows=rows) if len(own) == len(needed) else None


def _size_name(i: int, classes: int) -> str:
    first, last = SIZE_EDGES[i], min([classes, *(edge - 1 for edge in SIZE_EDGES[i + 1 :])])
    return str(first) if first == last else f"{first}-{last}"
