"""All the scores, sorted: no slack, eight bytes a score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Self

import numpy as np

from fedconformal._base.arrays import Floats, Integers
from fedconformal.errors import InputError
from fedconformal.summaries import wire
from fedconformal.summaries.summary import Summary

FIRST_NUMBERS = np.arange(1, 4097)
"""The counts of small sites, which they share."""


class ExactMessage(wire.Header, array_like=True, forbid_unknown_fields=True, frozen=True):
    """The header, then every score in ascending order."""

    values: bytes


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ExactSummary(Summary):
    """Every score; under about 500 of them nothing is smaller.

    >>> from fedconformal import summarize
    >>> summarize([0.3, 0.1, 0.2, 0.2], kind="exact").count_at_most(0.2)
    (3, 3)
    """

    name = "exact"
    letter = "E"
    message = ExactMessage

    values: Floats

    @classmethod
    def of_scores(cls, scores: Floats, *, alpha: Any = None, **about: Any) -> Self:  # noqa: ARG003
        """Keep all; `alpha` is not needed."""
        scores.sort()
        return cls(values=scores, sizes=(len(scores),), **about)

    @property
    def points(self) -> Floats:
        return self.values

    @property
    def reached(self) -> Integers:
        """One score, one count."""
        return _first_numbers(self.n) if self.n <= len(FIRST_NUMBERS) else np.arange(1, self.n + 1)

    @property
    def gap(self) -> int:
        return 0

    def bounds(self, q: Floats) -> tuple[Integers, Integers]:
        counts = np.searchsorted(self.values, q, side="right").astype(np.int64)
        return counts, counts

    def mirrored(self) -> ExactSummary:
        return replace(self, values=0.0 - self.values[::-1])

    @classmethod
    def merge(cls, parts: Sequence[Self], **about: Any) -> Self:
        return cls(values=np.sort(np.concatenate([part.values for part in parts]), kind="stable"), **about)

    @property
    def plain(self) -> bool:
        return len(self.sizes) == 1

    def frame(self, n: int, count: int) -> dict[str, Any] | None:
        """All scores are sent."""
        return {"sizes": (n,)} if count == n else None

    def to_message(self, header: dict[str, Any]) -> ExactMessage:
        return ExactMessage(**header, values=wire.numbers(self.values, "<f8"))

    @classmethod
    def from_message(cls, message: ExactMessage, about: dict[str, Any]) -> Self:
        values = ascending(wire.array(message.values, "<f8", "scores"))
        if len(values) != sum(message.sizes):
            raise InputError(f"the summary claims {sum(message.sizes)} scores and holds {len(values)}")
        return cls(values=values, **about)


@lru_cache(maxsize=4096)
def _first_numbers(n: int) -> Integers:
    return FIRST_NUMBERS[:n]


def ascending(values: Floats) -> Floats:
    """Check scores from the wire: finite and in ascending order; -0.0 becomes 0.0."""
    if not np.isfinite(values).all():
        raise InputError("the summary holds a score that is not finite")
    if not (values[1:] >= values[:-1]).all():
        raise InputError("the summary's scores are not in ascending order")
    return values + 0.0
