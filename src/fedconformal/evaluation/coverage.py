"""Coverage overall and by group: common part of the evaluations of sets and of intervals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeVar

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedconformal._base.arrays import Booleans, Integers, as_alpha
from fedconformal._base.groups import Groups, as_groups, as_sites, group_columns
from fedconformal.certificates.certificate import Certificate
from fedconformal.certificates.text import Vocabulary
from fedconformal.evaluation.claims import EvaluatedRows, Reweighted, reweighted
from fedconformal.evaluation.intervals import clopper_pearson, independent_rows
from fedconformal.evaluation.verdict import Verdict, verdict_of

ROWS, CLUSTERS = "rows are independent", "clusters are independent"
"""Assumptions of the intervals."""
PROMISED = "promised group"
"""Title of the groups that are promised coverage."""


class CoverageGroup(msgspec.Struct, frozen=True, kw_only=True):
    """A group of rows: size, coverage, and 95% confidence interval from low to high."""

    name: str
    rows: int
    coverage: float
    low: float
    high: float
    clusters: int | None = None

    @property
    def mean(self) -> float:
        """The coverage."""
        return self.coverage

    @property
    def interval(self) -> str:
        """The interval of the coverage as text."""
        return f"{self.low:.3f} to {self.high:.3f}"

    @property
    def sizes(self) -> tuple[str, ...]:
        """The sizes of the answers as text."""
        return ()

    @property
    def cells(self) -> tuple[str, ...]:
        """Cells of a table row, for the columns of the evaluation."""
        clusters = () if self.clusters is None else (str(self.clusters),)
        return self.name, str(self.rows), *clusters, f"{self.coverage:.4f}", self.interval, *self.sizes


G = TypeVar("G", bound=CoverageGroup)


class CoverageEvaluation(msgspec.Struct, Generic[G], frozen=True, kw_only=True):
    """Coverage on rows with known truth.

    A site slightly below 1 - alpha is not a violation, as the promise is an average over calibration draws and the
    stated mixture. The intervals reflect the uncertainty of the test rows only.
    """

    answers: ClassVar[Vocabulary]
    size_columns: ClassVar[tuple[str, ...]] = ()

    overall: G
    by_site: list[G]
    interval_assumes: str
    reweighted: Reweighted | None = None
    """Coverage under the certified mixture of the sites, if a certificate was given."""
    by_group: dict[str, list[G]] = {}
    """Coverage by value of other columns; under "promised group", of every group that is promised coverage."""
    verdict: Verdict | None = None
    """Test of the promise, if a certificate was given."""

    @property
    def coverage(self) -> float:
        """Share of rows whose set or interval contains the truth."""
        return self.overall.coverage

    @property
    def columns(self) -> tuple[str, ...]:
        """Column titles of a group's cells, after its name."""
        clusters = () if self.overall.clusters is None else ("clusters",)
        return "rows", *clusters, "coverage", "95% interval", *self.size_columns

    @property
    def interval_words(self) -> str:
        """Assumption of the intervals, as a sentence."""
        if self.interval_assumes == ROWS:
            return f"95% interval, if {ROWS}. Rows of one patient are not: give the cluster of each row."
        return f"95% interval, if {CLUSTERS}. A cluster in several groups counts in each, and once over all rows."

    def to_dict(self) -> Any:
        """Return plain lists, dicts and numbers for JSON."""
        return msgspec.to_builtins(self)

    def judge(self, certificate: Certificate, alpha: Any, rows: EvaluatedRows, *, full: bool, parties: Any) -> Self:
        """Add the coverage of the certified mixture of the parties (sites or classes), and the verdict."""
        level = as_alpha(certificate.alpha if alpha is None else alpha)
        return msgspec.structs.replace(
            self,
            reweighted=reweighted(rows, parties, certificate),
            verdict=verdict_of(certificate, level, rows, self.answers, all_full=full),
        )


class Counter(NamedTuple, Generic[G]):
    """Counts outcomes in groups of rows; `describe` adds the sizes of sets or intervals to the coverage of a group."""

    outcomes: EvaluatedRows
    columns: Mapping[str, NDArray[Any]]
    """Other columns to count by."""
    describe: Callable[[CoverageGroup, Integers], G]

    @classmethod
    def of(
        cls,
        covered: Booleans,
        labels: Integers,
        describe: Callable[[CoverageGroup, Integers], G],
        *,
        sites: ArrayLike | None,
        clusters: ArrayLike | None,
        groups: Groups | None,
        promised: Mapping[str, Integers] | None = None,
    ) -> Self:
        """Validate the columns; `promised` are the rows of each group that is promised coverage."""
        rows = len(covered)
        owners = None if sites is None else as_sites(sites, rows=rows)
        columns = {name: as_groups(values, rows=rows, name=name) for name, values in group_columns(groups).items()}
        ids = None if clusters is None else as_sites(clusters, rows=rows, name="clusters")
        numbers = None if ids is None else np.unique(ids, return_inverse=True)[1]
        return cls(EvaluatedRows(covered, labels, owners, numbers, promised), columns, describe)

    def fields(self) -> dict[str, Any]:
        """Count all rows, and those of each site, each value of the other columns, and each promised group."""
        rows, by_group = self.outcomes, {name: self.by_value(values) for name, values in self.columns.items()}
        if rows.groups is not None:
            by_group[PROMISED] = self.parts(list(rows.groups.values()), list(rows.groups))
        return {
            "overall": self.parts([np.arange(len(rows.covered))], ["all"])[0],
            "by_site": [] if rows.sites is None else self.by_value(rows.sites),
            "interval_assumes": ROWS if rows.clusters is None else CLUSTERS,
            "by_group": by_group,
        }

    def by_value(self, values: NDArray[Any]) -> list[G]:
        """Count the rows of each value."""
        names, index = np.unique(values, return_inverse=True)
        return self.by_index(index, [str(name) for name in names])

    def by_index(self, index: Integers, names: Sequence[str]) -> list[G]:
        """Count the rows of each name with any; `index` is the position of each row's name."""
        rows = np.bincount(index, minlength=len(names))
        return self.parts(np.split(np.argsort(index, kind="stable"), np.cumsum(rows)[:-1]), names)

    def parts(self, parts: Sequence[Integers], names: Sequence[str]) -> list[G]:
        """Count the rows of each non-empty part; parts may overlap."""
        named = [(mine, name) for mine, name in zip(parts, names, strict=True) if len(mine)]
        rows = np.array([len(mine) for mine, _ in named])
        hits = np.array([np.count_nonzero(self.outcomes.covered[mine]) for mine, _ in named])
        counts: list[int | None] = [None] * len(named)
        independent = np.ones(len(named))
        if (clusters := self.outcomes.clusters) is not None:
            independent = np.array([independent_rows(clusters[mine]) for mine, _ in named]) / rows
            counts = [len(np.unique(clusters[mine])) for mine, _ in named]
        ends = zip(*clopper_pearson(hits * independent, rows * independent), counts, strict=True)
        shares = (hits / rows).tolist()
        return [
            self.describe(
                CoverageGroup(
                    name=name, rows=len(mine), coverage=share, low=float(low), high=float(high), clusters=count
                ),
                mine,
            )
            for (mine, name), share, (low, high, count) in zip(named, shares, ends, strict=True)
        ]
