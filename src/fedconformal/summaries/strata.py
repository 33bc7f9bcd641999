"""Stratified summaries: one summary per class, group, or class within a group, in one message.

They are required for promises to every class or group. Groups may overlap, and include all rows and the rows in no
other group. A stratified summary reveals the number of calibration rows of each stratum, with a warning.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from fedconformal._base import registry
from fedconformal._base.arrays import Floats, Integers, as_labels, as_scores
from fedconformal._base.groups import ALL, NONE, Groups, column_of, columns_of, group_rows
from fedconformal._base.names import as_name, join_names
from fedconformal.errors import ClassCountsWarning, InputError
from fedconformal.summaries import format as wire
from fedconformal.summaries.summary import Content, Summary


class StratumKey(NamedTuple):
    """A group, a class, or a class within a group."""

    group: str | None = None
    label: int | None = None


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class StratifiedSummary(Summary):
    """The calibration scores of one site, or of several pooled sites, by stratum.

    It is also a summary of all scores. A row counts in each of its groups.

    Attributes
    ----------
    parts
        Summaries of the non-empty strata, with a size for every site, in ascending order of the strata.
    columns
        The columns that define the groups, in ascending order; empty without groups.
    by_class
        Whether strata are classes, or classes within groups.

    Examples
    --------
    >>> import warnings
    >>> warnings.filterwarnings("ignore", "a summary by class")
    >>> site = Summary.of_scores([0.1, 0.4, 0.2], labels=[0, 0, 7], site="clinic-a")
    >>> site, site.count_at_most(0.3), site.parts[StratumKey(label=7)].count_at_most(0.3)
    (<ranks by class summary of 3 scores from site 'clinic-a'>, (2, 2), (1, 1))
    """

    parts: Mapping[StratumKey, Summary]
    columns: tuple[str, ...] = ()
    by_class: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "gap", sum(part.gap for part in self._whole))
        if len(self.columns) > wire.MAX_COLUMNS or len(self.groups) > wire.MAX_GROUPS:
            raise InputError(
                f"{len(self.columns)} columns with {len(self.groups)} groups, more than {wire.MAX_COLUMNS} or "
                f"{wire.MAX_GROUPS}; give fewer columns, or ranges such as 60-69",
                where="groups",
            )

    @classmethod
    def of_rows(
        cls,
        scores: ArrayLike,
        *,
        kind: type[Summary],
        labels: ArrayLike | None = None,
        groups: Groups | None = None,
        alpha: Fraction | None = None,
        **about: Any,
    ) -> Self:
        """Summarise each stratum of the rows of one site, with a warning that counts are revealed."""
        values = as_scores(scores)
        strata = _rows_by_stratum(values, labels, groups)
        what = "class" if groups is None else "group" if labels is None else "group and class"
        warnings.warn(
            f"a summary by {what} shows how many calibration rows of each {what} the site has; "
            "make one only if these counts may be known",
            ClassCountsWarning,
            stacklevel=3,
        )
        parts = {key: kind.build(values, alpha=alpha) for key, values in strata.items()}
        columns = () if groups is None else tuple(columns_of(groups))
        return cls(parts=parts, columns=columns, by_class=labels is not None, sizes=(len(values),), **about)

    @property
    def name(self) -> str:  # type: ignore[override]
        """Kind of the parts, and their stratification."""
        kind = next(iter(self.parts.values())).name
        return f"{kind}{' by class' if self.by_class else ''}{' by group' if self.columns else ''}"

    @property
    def certified(self) -> bool:  # type: ignore[override]
        """Whether the counts of all parts are certified."""
        return all(part.certified for part in self.parts.values())

    @cached_property
    def groups(self) -> Mapping[str | None, Mapping[int | None, Summary]]:
        """The parts by group, then by class."""
        groups: dict[str | None, dict[int | None, Summary]] = {}
        for (group, label), part in self.parts.items():
            groups.setdefault(group, {})[label] = part
        return groups

    @cached_property
    def _whole(self) -> list[Summary]:
        """Parts that together contain each row once."""
        return list(self.groups.get(ALL if self.columns else None, {}).values())

    def in_group(self, group: str) -> Summary:
        """Return the summary of a group, by class if this one is; without parts if the site has no such rows."""
        parts = self.groups.get(group, {})
        if not self.by_class and parts:
            return parts[None]
        by_label = {StratumKey(label=label): part for label, part in parts.items()}
        sizes = self.sizes_of(group)
        return StratifiedSummary(
            parts=by_label, by_class=True, sizes=sizes, sites=self.sites, provenance=self.provenance
        )

    def sizes_of(self, group: str | None = None, label: int | None = None) -> tuple[int, ...]:
        """Return the number of scores per site in a group, a class, or a class within a group."""
        parts = self.groups.get(group, {})
        held = [part.sizes for key, part in parts.items() if label in (None, key)]
        return tuple(np.sum(held, axis=0).tolist()) if held else (0,) * len(self.sizes)

    @cached_property
    def points(self) -> Floats:
        return np.unique(np.concatenate([part.points for part in self._whole]))

    def bounds(self, q: Floats) -> tuple[Integers, Integers]:
        lower, upper = np.sum([part.bounds(q) for part in self._whole], axis=0)
        return lower, upper

    @classmethod
    def merge(cls, parts: Sequence[Self], **about: Any) -> Self:
        check_columns(parts)
        merged: dict[StratumKey, Summary] = {}
        for key in {key: None for part in parts for key in part.parts}:
            held = [part.parts[key] for part in parts if key in part.parts]
            sizes = tuple(size for part in parts for size in part.sizes_of(*key))
            merged[key] = type(held[0]).merge(held, sizes=sizes)
        ordered = {key: merged[key] for key in sorted(merged)}
        return cls(parts=ordered, columns=parts[0].columns, by_class=parts[0].by_class, **about)

    def content(self) -> Content:
        contents = [part.content() for part in self.parts.values()]
        strata = tuple(
            wire.StratumHeader(*key, part.sizes, content.numbers, content.lengths)
            for (key, part), content in zip(self.parts.items(), contents, strict=True)
        )
        return Content(
            [array for content in contents for array in content.arrays],
            parameters=contents[0].parameters,
            kind=next(iter(self.parts.values())).name,
            strata=strata,
            columns=self.columns,
            by_class=self.by_class,
        )

    @classmethod
    def from_content(cls, content: Content, **about: Any) -> Self:
        """Validate the order of the strata and the consistency of their sizes."""
        kind, arrays, sites = registry.find(content.kind, Summary), iter(content.arrays), len(about["sizes"])
        keys = [StratumKey(stratum.group, stratum.label) for stratum in content.strata]
        kinds = {(group is not None, label is not None) for group, label in keys}
        if kinds != {(bool(content.columns), content.by_class)} or content.numbers:
            raise InputError("the summary's strata are not by the classes or columns that it states")
        if sorted(set(keys)) != keys:
            raise InputError("the summary's strata are not in strictly ascending order")
        if any(len(header.sizes) != sites or not any(header.sizes) for header in content.strata):
            raise InputError("the summary has a stratum without a size for every site, or without rows")
        parts = {
            key: kind.from_content(
                Content([next(arrays) for _ in header.lengths], header.numbers, content.parameters), sizes=header.sizes
            )
            for key, header in zip(keys, content.strata, strict=True)
        }
        summary = cls(parts=parts, columns=content.columns, by_class=content.by_class, **about)
        summary._check_sizes()
        return summary

    def _check_sizes(self) -> None:
        """Check that every row is in one class, and in at most one group of a column."""
        if self.sizes_of(ALL if self.columns else None) != self.sizes:
            raise InputError("the summary's strata do not add up to its sizes")
        if not self.columns:
            return
        if list(self.columns) != columns_of(dict.fromkeys(self.columns)):
            raise InputError("the summary's columns are not in ascending order")
        held = {column: np.zeros(len(self.sizes), dtype=np.int64) for column in self.columns}
        for group in map(str, self.groups):
            column = column_of(group)
            if group in (ALL, NONE):
                continue
            if as_name(group, "group") != group or column not in held:
                raise InputError(f"the group {group!r:.80} is not a column of the summary and a value")
            held[column] += self.sizes_of(group)
        total, rest = np.array(self.sizes), np.array(self.sizes_of(NONE))
        counts = np.array(list(held.values()))
        if not ((total - counts.sum(axis=0) <= rest) & (rest <= total - counts.max(axis=0))).all():
            raise InputError("the summary's groups cannot have these sizes: a row is in one group of a column at most")


def check_columns(summaries: Sequence[StratifiedSummary]) -> None:
    """Refuse summaries with different group columns."""
    first = summaries[0]
    if other := next((summary for summary in summaries if summary.columns != first.columns), None):
        raise InputError(
            f"{first} is grouped by {join_names(first.columns)}, {other} by {join_names(other.columns)}; "
            "summarise all sites by the same columns"
        )


def _rows_by_stratum(values: Floats, labels: ArrayLike | None, groups: Groups | None) -> dict[StratumKey, Floats]:
    """Return the scores of each non-empty stratum, in ascending order of the strata."""
    truth = None if labels is None else as_labels(labels, rows=len(values), classes=wire.MAX_LABEL)
    held = {None: np.arange(len(values))} if groups is None else group_rows(groups, rows=len(values))
    strata: dict[StratumKey, Floats] = {}
    for group, mine in held.items():
        for label in [None] if truth is None else np.unique(truth[mine]).tolist():
            strata[StratumKey(group, label)] = values[mine if truth is None else mine[truth[mine] == label]]
    return {key: strata[key] for key in sorted(strata)}
