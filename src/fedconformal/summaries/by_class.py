"""A site's scores class by class: one summary for every class that the site holds, in one message.

For promises given the true label. It shows how many calibration rows of each class the site has, which a summary
of all scores together does not; a warning says so when one is made.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Self

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from fedconformal._base.arrays import Floats, Integers, as_labels, as_scores
from fedconformal.errors import ClassCountsWarning, InputError
from fedconformal.summaries import wire
from fedconformal.summaries.parted import PartedSummary, pooled_parts
from fedconformal.summaries.summary import Summary, extended

MAX_CLASSES = 2**20

Label = Annotated[int, msgspec.Meta(ge=0, lt=MAX_CLASSES)]


class ClassMessage(wire.Header, frozen=True):
    """The labels in ascending order, and for each a whole summary of its own, without names."""

    labels: Annotated[list[Label], msgspec.Meta(min_length=1, max_length=MAX_CLASSES)]
    parts: Annotated[list[bytes], msgspec.Meta(min_length=1, max_length=MAX_CLASSES)]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ClassSummary(PartedSummary):
    """The calibration scores of one site, or of several that were pooled, by the true label.

    It counts as a summary of all its scores as well, with the bounds of its parts added up.

    >>> import warnings
    >>> from fedconformal import summarize
    >>> warnings.filterwarnings("ignore", "a summary by class")
    >>> site = summarize([0.1, 0.4, 0.2], labels=[0, 0, 7], by_class=True, site="clinic-a")
    >>> site, site.count_at_most(0.3), site.parts[7].count_at_most(0.3)
    (<ranks by class summary of 3 scores from site 'clinic-a'>, (2, 2), (1, 1))
    """

    letter = "C"
    message = ClassMessage
    what, keys, nested = "class", "labels", b"CG"

    parts: Mapping[int, Summary]

    @classmethod
    def of_classes(
        cls, scores: ArrayLike, labels: ArrayLike, kind: type[Summary], *, alpha: Any = None, **about: Any
    ) -> Self:
        """Summarise each class that is there, and warn that the result shows how many rows each has."""
        values, truth = checked(scores, labels)
        warnings.warn(
            "a summary by class shows how many calibration rows of each class the site has; "
            "make one only if these counts may be known",
            ClassCountsWarning,
            stacklevel=3,
        )
        return cls.of_checked(values, truth, kind, alpha=alpha, **about)

    @classmethod
    def of_checked(
        cls, values: Floats, truth: Integers, kind: type[Summary], *, alpha: Any = None, **about: Any
    ) -> Self:
        """Summarise each class that is there, of scores and labels that were checked."""
        parts = {int(label): kind.of_scores(values[truth == label], alpha=alpha) for label in np.unique(truth)}
        return cls(parts=parts, sizes=(len(values),), **about)

    @property
    def classes(self) -> int:
        """One more than the largest label that is there."""
        return max(self.parts) + 1

    @cached_property
    def points(self) -> Floats:
        """The scores at which some part's lower count rises."""
        return np.unique(np.concatenate([part.points for part in self.parts.values()]))

    @property
    def reached(self) -> Integers:
        """Where the parts' counts rise, in order, and added up: `bounds` would ask every part about every point."""
        values = np.concatenate([part.points for part in self.parts.values()])
        rises = np.concatenate([np.diff(part.reached, prepend=0) for part in self.parts.values()])
        order = np.argsort(values)
        after = np.searchsorted(values[order], self.points, side="right")
        reached: Integers = np.cumsum(rises[order])[after - 1]
        return reached

    @property
    def gap(self) -> int:
        return sum(part.gap for part in self.parts.values())

    def bounds(self, q: Floats) -> tuple[Integers, Integers]:
        lower, upper = np.zeros(len(q), dtype=np.int64), np.zeros(len(q), dtype=np.int64)
        for part in self.parts.values():
            at_least, at_most = part.bounds(q)
            lower += at_least
            upper += at_most
        return lower, upper

    def extend(self, more: ArrayLike, labels: ArrayLike | None = None) -> Self:
        """Add more rows of the same site, with their labels."""
        if labels is None:
            raise InputError("labels: a summary by class needs the label of every new row")
        values, truth = checked(more, labels)
        about = extended(self, values)
        kind = type(next(iter(self.parts.values())))
        parts = dict(self.parts)
        for label in np.unique(truth).tolist():
            rows = values[truth == label]
            parts[label] = parts[label].extend(rows) if label in parts else kind.of_scores(rows)
        return type(self)(parts=dict(sorted(parts.items())), **about)

    @classmethod
    def merge(cls, parts: Sequence[Self], **about: Any) -> Self:
        return cls(parts=pooled_parts(parts), **about)

    def to_message(self, header: dict[str, Any]) -> ClassMessage:
        return ClassMessage(**header, labels=list(self.parts), parts=[part.to_bytes() for part in self.parts.values()])

    @classmethod
    def from_message(cls, message: ClassMessage, about: dict[str, Any]) -> Self:
        """Check that the parts are alike, nameless, and add up to the sizes."""
        sizes = about["sizes"]
        parts = cls.decoded_parts(message.labels, message.parts, sizes)
        if sum(part.n for part in parts.values()) != sum(sizes):
            raise InputError("the summary's classes do not add up to its sizes")
        return cls(parts=parts, **about)


def checked(scores: ArrayLike, labels: ArrayLike) -> tuple[Floats, Integers]:
    """Check scores, and a label for each."""
    values = as_scores(scores)
    return values, as_labels(labels, rows=len(values), classes=MAX_CLASSES)
