"""A site's scores group by group, where groups may overlap: a summary for every group that the site holds.

For promises to every group that is known at prediction time, such as sex=F. Two groups are always among them: all
rows, and the rows that are in none of the others. It shows how many calibration rows of each group the site has, which
a summary of all scores together does not; a warning says so when one is made.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Self

import msgspec
from numpy.typing import ArrayLike

from fedconformal._base.arrays import Floats, Integers, as_scores
from fedconformal._base.groups import ALL, NONE, Groups, column_of, columns_of, members
from fedconformal._base.names import as_name, listed
from fedconformal.errors import ClassCountsWarning, InputError
from fedconformal.summaries import wire
from fedconformal.summaries.by_class import ClassSummary, checked
from fedconformal.summaries.parted import PartedSummary, pooled_parts
from fedconformal.summaries.summary import Summary, extended

MAX_GROUPS = 2**12
MAX_COLUMNS = 2**6


class GroupMessage(wire.Header, frozen=True):
    """The columns and the groups, both in ascending order, and for each group a whole summary, without names."""

    columns: Annotated[list[wire.Name], msgspec.Meta(min_length=1, max_length=MAX_COLUMNS)]
    groups: Annotated[list[wire.Name], msgspec.Meta(min_length=1, max_length=MAX_GROUPS)]
    parts: Annotated[list[bytes], msgspec.Meta(min_length=1, max_length=MAX_GROUPS)]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class GroupSummary(PartedSummary):
    """The calibration scores of one site, or of several that were pooled, by the groups that rows are in.

    A row counts in every group that it is in, and all rows are a group. As a summary of all its scores it is that one.
    Its parts may be by class in turn.

    >>> import warnings
    >>> from fedconformal import summarize
    >>> warnings.filterwarnings("ignore", "a summary by group")
    >>> site = summarize([0.1, 0.4, 0.2], groups={"sex": ["F", "M", None]}, site="clinic-a")
    >>> site, {name: part.n for name, part in site.parts.items()}
    (<ranks by group summary of 3 scores from site 'clinic-a'>,
     {'all rows': 3, 'none of the others': 1, 'sex=F': 1, 'sex=M': 1})
    """

    letter = "G"
    message = GroupMessage
    what, keys, nested = "group", "groups", b"G"

    parts: Mapping[str, Summary]
    columns: tuple[str, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.columns) > MAX_COLUMNS or len(self.parts) > MAX_GROUPS:
            raise InputError(
                f"{len(self.columns)} columns with {len(self.parts)} groups, more than {MAX_COLUMNS} or "
                f"{MAX_GROUPS}; give fewer columns, or ranges such as 60-69",
                where="groups",
            )

    @classmethod
    def of_groups(
        cls,
        scores: ArrayLike,
        groups: Groups,
        kind: type[Summary],
        *,
        labels: ArrayLike | None = None,
        alpha: Any = None,
        **about: Any,
    ) -> Self:
        """Summarise each group that is there, by class too if labels are given, and warn of what the result shows."""
        values, truth = _rows(scores, labels)
        columns = tuple(columns_of(groups))
        held = members(groups, rows=len(values))
        warnings.warn(
            "a summary by group shows how many calibration rows of each group the site has"
            f"{'' if truth is None else ', and of each class in it'}; make one only if these counts may be known",
            ClassCountsWarning,
            stacklevel=3,
        )
        parts = {name: _part(values, truth, held[name], kind, alpha) for name in sorted(held)}
        return cls(parts=parts, columns=columns, sizes=(len(values),), **about)

    @property
    def points(self) -> Floats:
        return self.parts[ALL].points

    @property
    def reached(self) -> Integers:
        return self.parts[ALL].reached

    @property
    def gap(self) -> int:
        return self.parts[ALL].gap

    def bounds(self, q: Floats) -> tuple[Integers, Integers]:
        return self.parts[ALL].bounds(q)

    def extend(
        self,
        more: ArrayLike,
        labels: ArrayLike | None = None,
        *,
        groups: Groups | None = None,
    ) -> Self:
        """Add more rows of the same site, with their groups, and with their labels if it is by class too."""
        if groups is None or tuple(columns_of(groups)) != self.columns:
            raise InputError(f"a summary by group needs {listed(self.columns)} of every new row", where="groups")
        whole = self.parts[ALL]
        if isinstance(whole, ClassSummary) != (labels is not None):
            raise InputError("labels: they go with a summary that is by class too; give them there, and only there")
        values, truth = _rows(more, labels)
        about = extended(self, values)
        kind = type(next(iter(whole.parts.values())) if isinstance(whole, ClassSummary) else whole)
        parts = dict(self.parts)
        for name, mine in members(groups, rows=len(values)).items():
            given = (values[mine],) if truth is None else (values[mine], truth[mine])
            known = parts.get(name)
            parts[name] = _part(values, truth, mine, kind, None) if known is None else known.extend(*given)
        return type(self)(parts=dict(sorted(parts.items())), columns=self.columns, **about)

    @classmethod
    def merge(cls, parts: Sequence[Self], **about: Any) -> Self:
        check_columns(parts)
        return cls(parts=pooled_parts(parts), columns=parts[0].columns, **about)

    def to_message(self, header: dict[str, Any]) -> GroupMessage:
        parts = [part.to_bytes() for part in self.parts.values()]
        return GroupMessage(**header, columns=list(self.columns), groups=list(self.parts), parts=parts)

    @classmethod
    def from_message(cls, message: GroupMessage, about: dict[str, Any]) -> Self:
        """Check that all rows are a group, and that the sizes of the others can be those of groups of them."""
        columns = columns_of(dict.fromkeys(message.columns))
        for name in message.groups:
            if name not in (ALL, NONE) and (as_name(name, "group") != name or column_of(name) not in columns):
                raise InputError(f"the group {name!r:.80} is not a column of the summary and a value")
        if columns != message.columns:
            raise InputError("the summary's columns are not ascending")
        parts = cls.decoded_parts(message.groups, message.parts, about["sizes"])
        if ALL not in parts or parts[ALL].sizes != about["sizes"]:
            raise InputError("the summary's group of all rows does not have its sizes")
        total, rest = sum(about["sizes"]), parts[NONE].n if NONE in parts else 0
        held = [sum(part.n for name, part in parts.items() if column_of(name) == column) for column in columns]
        if not total - sum(held) <= rest <= total - max(held):
            raise InputError("the summary's groups cannot have these sizes: a row is in one group of a column at most")
        return cls(parts=parts, columns=tuple(columns), **about)


def check_columns(summaries: Sequence[GroupSummary]) -> None:
    """Refuse summaries that were not made by the same columns: a row of one site would be in fewer groups."""
    first = summaries[0]
    if other := next((one for one in summaries if one.columns != first.columns), None):
        raise InputError(
            f"{first.label} is grouped by {listed(first.columns)}, {other.label} by {listed(other.columns)}; "
            "summarise all sites by the same columns"
        )


def _rows(scores: ArrayLike, labels: ArrayLike | None) -> tuple[Floats, Integers | None]:
    return (as_scores(scores), None) if labels is None else checked(scores, labels)


def _part(values: Floats, truth: Integers | None, mine: Integers, kind: type[Summary], alpha: Any) -> Summary:
    own = values.copy() if len(mine) == len(values) else values[mine]
    if truth is None:
        return kind.of_scores(own, alpha=alpha)
    return ClassSummary.of_checked(own, truth[mine], kind, alpha=alpha)
