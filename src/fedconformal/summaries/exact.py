"""Exact summaries: all scores, sorted, with eight bytes per score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Self

import numpy as np

from fedconformal._base.arrays import Floats, Integers
from fedconformal.errors import InputError
from fedconformal.summaries.summary import Content, Summary


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ExactSummary(Summary):
    """All scores, without loss; the smallest kind below about 500 scores.

    >>> Summary.of_scores([0.3, 0.1, 0.2, 0.2], kind="exact").count_at_most(0.2)
    (3, 3)
    """

    name = "exact"
    columnar = True

    values: Floats

    @classmethod
    def build(cls, scores: Floats, *, alpha: Fraction | None = None, **about: Any) -> Self:  # noqa: ARG003
        """Keep all scores; `alpha` is ignored."""
        scores.sort()
        return cls(values=scores, sizes=(len(scores),), **about)

    @property
    def points(self) -> Floats:
        return self.values

    @property
    def lower_counts(self) -> Integers:
        return np.arange(1, self.n + 1)

    def bounds(self, q: Floats) -> tuple[Integers, Integers]:
        counts = np.searchsorted(self.values, q, side="right").astype(np.int64)
        return counts, counts

    def __neg__(self) -> ExactSummary:
        return replace(self, values=0.0 - self.values[::-1])

    @classmethod
    def merge(cls, parts: Sequence[Self], **about: Any) -> Self:
        return cls(values=np.sort(np.concatenate([part.values for part in parts]), kind="stable"), **about)

    def content(self) -> Content:
        return Content([self.values])

    @classmethod
    def from_content(cls, content: Content, **about: Any) -> Self:
        content.expect(arrays=1)
        values = content.scores()
        if len(values) != sum(about["sizes"]):
            raise InputError(f"the summary claims {sum(about['sizes'])} scores and holds {len(values)}")
        return cls(values=values, **about)
