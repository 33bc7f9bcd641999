"""DDSketch: a histogram whose bucket edges grow by one per cent, the same at every site.

The middle of a bucket is within one per cent of its scores, which says nothing of the rank: where many scores crowd
into one bucket, as near 1, half of them may be on the wrong side. The certain part is the histogram: how many scores
are in each bucket, so how many are at most its upper edge.

Masson, Rim and Lee, "DDSketch: a fast and fully-mergeable quantile sketch with relative-error guarantees",
2019. Theirs finds the bucket with a logarithm, whose last digit differs between machines. Here the edges are
a table made by one multiplication each, which IEEE-754 rounds in one way only, and a score is compared with
the edges themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Self

import numpy as np

from fedconformal._base.arrays import LARGEST, Floats, Integers, rising
from fedconformal.errors import InputError
from fedconformal.summaries.summary import Content, Summary

GROWTH = 101 / 99
"""(1 + accuracy) / (1 - accuracy), for an accuracy of 0.01."""

SMALLEST_NORMAL = 2.0**-1022
SMALLEST = 2.0**-1074


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class DDSketchSummary(Summary):
    """How many scores are in each bucket of a fixed table, and the smallest and the largest score.

    >>> summary = Summary.of_scores([i / 1000 for i in range(1000)], kind="ddsketch")
    >>> summary.count_at_most(0.9), summary.count_at_most(0.05)
    ((887, 905), (50, 51))
    """

    name = "ddsketch"

    buckets: Integers
    counts: Integers
    smallest: float
    largest: float

    def __post_init__(self) -> None:
        """State the gap: edges bound values, not ranks, and all scores but one may be in one bucket."""
        super().__post_init__()
        object.__setattr__(self, "gap", self.n - 1)

    @classmethod
    def build(cls, scores: Floats, *, alpha: Fraction | None = None, **about: Any) -> Self:  # noqa: ARG003
        """Count the scores in each bucket; `alpha` is not needed, as the edges are the same for all."""
        # Looking up sorted scores is several times faster than looking them up in any order.
        scores.sort()
        found = np.searchsorted(upper_edges(), scores, side="left")
        buckets, counts = np.unique(found, return_counts=True)
        return cls(
            buckets=buckets.astype(np.int64),
            counts=counts.astype(np.int64),
            smallest=float(scores[0]),
            largest=float(scores[-1]),
            sizes=(len(scores),),
            **about,
        )

    @property
    def points(self) -> Floats:
        """The smallest score, the upper edges, and instead of the last edge the largest score."""
        return np.unique(np.append(np.minimum(upper_edges()[self.buckets], self.largest), self.smallest))

    def bounds(self, q: Floats) -> tuple[Integers, Integers]:
        """Count the buckets that end at or before q, and those that begin before it."""
        upto = np.append(0, np.cumsum(self.counts))
        ends = upper_edges()[self.buckets]
        starts = np.where(self.buckets > 0, upper_edges()[self.buckets - 1], -np.inf)
        lower = np.maximum(upto[np.searchsorted(ends, q, side="right")], q >= self.smallest)
        upper = np.minimum(upto[np.searchsorted(starts, q, side="left")], self.n - (q < self.largest))
        lower = np.where(q >= self.largest, self.n, lower)
        upper = np.where(q < self.smallest, 0, upper)
        return lower.astype(np.int64), upper.astype(np.int64)

    @classmethod
    def merge(cls, parts: Sequence[Self], **about: Any) -> Self:
        buckets, where = np.unique(np.concatenate([part.buckets for part in parts]), return_inverse=True)
        counts = np.zeros(len(buckets), dtype=np.int64)
        np.add.at(counts, where, np.concatenate([part.counts for part in parts]))
        return cls(
            buckets=buckets,
            counts=counts,
            smallest=min(part.smallest for part in parts),
            largest=max(part.largest for part in parts),
            **about,
        )

    def content(self) -> Content:
        return Content([self.buckets, self.counts], numbers=(self.smallest, self.largest))

    @classmethod
    def from_content(cls, content: Content, **about: Any) -> Self:
        """Check that the buckets are in the table and in order, and that the rest agrees with them."""
        counts, smallest, largest = check_sketch(content, sum(about["sizes"]), "buckets", "counts")
        buckets = content.counts(0, "buckets")
        if not rising(buckets) or buckets[-1] >= len(upper_edges()):
            raise InputError(f"the summary's buckets are not in strictly ascending order below {len(upper_edges())}")
        ends = np.searchsorted(upper_edges(), [smallest, largest], side="left")
        if ends.tolist() != [buckets[0], buckets[-1]]:
            raise InputError("the summary's smallest and largest score are not in its first and last bucket")
        return cls(buckets=buckets, counts=counts, smallest=smallest, largest=largest, **about)


def check_sketch(content: Content, n: int, places: str, counted: str) -> tuple[Integers, float, float]:
    """Check the counts from the wire, one for each place, n together, and the extreme scores."""
    content.expect(arrays=2, numbers=2)
    counts, (smallest, largest) = content.counts(1, counted), content.numbers
    if not len(content.arrays[0]) == len(counts) > 0:
        raise InputError(f"the summary's {places} and {counted} are not equally many")
    # The sum in floats cannot wrap around; if it is small, neither does the sum in integers.
    if counts.min() < 1 or counts.sum(dtype=np.float64) > 2.0**62 or int(counts.sum()) != n:
        raise InputError(f"the summary's counts are not positive, or do not add up to the {n} scores that it claims")
    if not (-LARGEST <= smallest <= largest <= LARGEST) or (n == 1 and smallest < largest):
        raise InputError("the summary's smallest and largest score are not finite, or contradict each other")
    return counts, smallest + 0.0, largest + 0.0


@lru_cache(maxsize=1)
def upper_edges() -> Floats:
    """List the upper edges of all buckets in ascending order; a bucket holds lower edge < score <= upper edge.

    From 1 they go up by one rounded product with GROWTH each, as long as that is finite, and down by their
    reciprocals, as long as these are not subnormal; the largest float ends the table. Below zero they are
    mirrored, and zero has a bucket to itself.
    """
    with np.errstate(over="ignore"):
        up = np.multiply.accumulate(np.append(1.0, np.full(36_000, GROWTH)))
    up = up[up < LARGEST]
    down = 1 / up[:0:-1]
    positive = np.concatenate([down[down >= SMALLEST_NORMAL], up, [LARGEST]])
    edges = np.concatenate([-positive[::-1], [-SMALLEST, 0.0], positive])
    edges.setflags(write=False)
    return edges
