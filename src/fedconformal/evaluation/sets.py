"""Coverage and size of prediction sets: over all rows, by site, class, set size and any other column; and a verdict."""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from fedconformal._base.arrays import Booleans, Integers, as_alpha, as_array, as_sites
from fedconformal._base.classes import as_class_indices
from fedconformal._base.groups import Groups, as_groups, members
from fedconformal._base.names import name_key
from fedconformal.certificates.certificate import Certificate
from fedconformal.errors import InputError
from fedconformal.evaluation.claims import Rows, classes_of
from fedconformal.evaluation.mixture import Reweighted, interval_text, reweighted
from fedconformal.evaluation.outcomes import Outcomes, as_clusters, assumed_words
from fedconformal.evaluation.verdict import Verdict, verdict_of

SIZE_EDGES = (0, 1, 2, 4, 11, 101, 1001, 10001)
"""Sets are compared in the size classes 0, 1, 2-3, 4-10, 11-100, 101-1000, ..."""

PROMISED = "promised group"
"""What the groups are called that a certificate promises coverage to, beside the columns that are given."""


def full_sets(sets: ArrayLike) -> int:
    """Count the sets that hold every label; none counts where there is only one label.

    >>> full_sets([[True, True], [True, False]]), full_sets([[True]])
    (1, 0)
    """
    member: Booleans = as_array(sets, "sets")
    return int(np.count_nonzero(member.all(axis=1))) if member.shape[1] > 1 else 0


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """Some rows: how many, how often the truth is in the set (95% interval low to high), how large the sets are.

    There is no interval if the rows are all of one cluster.
    """

    name: str
    rows: int
    coverage: float
    low: float | None
    high: float | None
    mean_size: float
    clusters: int | None = None
    """How many, where rows come in clusters."""

    @property
    def interval(self) -> str:
        """From where to where, as text."""
        return interval_text(self.low, self.high)

    @property
    def cells(self) -> tuple[str, ...]:
        """The numbers as text, for a table with the columns of the evaluation."""
        clusters = () if self.clusters is None else (str(self.clusters),)
        return self.name, str(self.rows), *clusters, f"{self.coverage:.4f}", self.interval, f"{self.mean_size:.3f}"


class Evaluation(msgspec.Struct, frozen=True, kw_only=True):
    """How a predictor did on rows with known labels.

    A single site a little below 1 - alpha is not a violation: the promise is on average over calibration
    draws and the stated mixture. The intervals show what the test rows alone leave open.
    """

    overall: Group
    size_histogram: list[int]
    by_site: list[Group]
    by_class: list[Group]
    by_size: list[Group]
    full_sets: int
    """How many sets hold every label."""
    interval_assumes: str
    """What the intervals assume."""
    reweighted: Reweighted | None = None
    """Coverage under the mixture of the sites that was certified, where a certificate was given."""
    by_group: dict[str, list[Group]] = {}
    """Coverage by the values of other columns, by the name of the column; and of every "promised group" where
    coverage is promised by group."""
    verdict: Verdict | None = None
    """Whether the rows contradict the promise, where a certificate was given."""

    @property
    def coverage(self) -> float:
        """The share of rows whose set holds the truth."""
        return self.overall.coverage

    @property
    def mean_size(self) -> float:
        """The mean number of labels in a set."""
        return self.overall.mean_size

    @property
    def columns(self) -> tuple[str, ...]:
        """The titles of a group's cells, after its name."""
        clusters = () if self.overall.clusters is None else ("clusters",)
        return "rows", *clusters, "coverage", "95% interval", "mean size"

    @property
    def interval_words(self) -> str:
        """What the intervals are, and what they assume, in a sentence."""
        return assumed_words(self.interval_assumes)

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists, dicts and numbers, ready for JSON."""
        built: dict[str, Any] = msgspec.to_builtins(self)
        return built

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
    """Compare (n, J) boolean sets with the true labels.

    Args:
        sets: which labels each row's set holds.
        labels: the true ones; names, if the certificate has the names of the classes.
        sites: which site each row is from.
        clusters: which cluster each row is from, such as the patient of an image; rows of one cluster may depend on
            each other. Without them the intervals are right only if all rows are independent.
        groups: other columns to give the coverage by, such as {"sex": [...], "age": [...]}: one value a row. For a
            certificate by group its own must be among them.
        certificate: whose promise is tested, and whose mixture of the sites coverage is also given for; it needs
            `sites` with the certified names.
        alpha: at which the sets were made, if it is not the certified one.

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
    owners = None if sites is None else as_sites(sites, rows=rows)
    ids = as_clusters(clusters, rows=rows)
    sizes = np.count_nonzero(member, axis=1)
    counted = Outcomes(member[np.arange(rows), truth], ids, partial(_group, sizes))
    columns = {name: as_groups(values, rows=rows, name=name) for name, values in (groups or {}).items()}
    held = None
    if certificate is not None and certificate.by == "group" and groups is not None:
        needed = certificate.group_columns
        own = {name: values for name, values in groups.items() if name_key(str(name)) in needed}
        held = members(own, rows=rows) if len(own) == len(needed) else None
    full = full_sets(member)
    parties = owners
    if certificate is not None and certificate.provenance.class_scores is not None:
        parties = classes_of(truth, certificate.parties()[1])
    stratum = np.searchsorted(SIZE_EDGES, sizes, side="right") - 1
    return Evaluation(
        overall=counted.overall(),
        size_histogram=np.bincount(sizes, minlength=classes + 1).tolist(),
        by_site=[] if owners is None else counted.by_value(owners),
        by_class=counted.groups(truth, named or [str(label) for label in range(classes)]),
        by_size=counted.groups(stratum, [_size_name(i) for i in range(len(SIZE_EDGES))]),
        full_sets=full,
        interval_assumes=counted.assumes,
        reweighted=None if certificate is None else reweighted(counted.covered, parties, ids, certificate),
        by_group={name: counted.by_value(values) for name, values in columns.items()}
        | ({} if held is None else {PROMISED: counted.parts(list(held.values()), list(held))}),
        verdict=None
        if certificate is None
        else verdict_of(
            certificate,
            as_alpha(certificate.alpha if alpha is None else alpha),
            Rows(counted.covered, truth, owners, ids, held),
            all_full=full == rows,
        ),
    )


def _group(sizes: Integers, mine: Integers, about: dict[str, Any]) -> Group:
    return Group(**about, mean_size=float(sizes[mine].mean()))


def _size_name(i: int) -> str:
    first = SIZE_EDGES[i]
    if i + 1 == len(SIZE_EDGES):
        return f"{first}+"
    last = SIZE_EDGES[i + 1] - 1
    return str(first) if first == last else f"{first}-{last}"
