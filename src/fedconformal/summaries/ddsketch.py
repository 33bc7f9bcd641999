"""DDSketch: a histogram with geometric bucket edges, the same at every site.

The relative accuracy of a bucket's centre bounds values, not ranks: if many scores fall into one bucket, as near 1,
half of them may be misplaced. Certified bounds come from the histogram: the number of scores up to each upper edge.

Masson, Rim and Lee, "DDSketch: a fast and fully-mergeable quantile sketch with relative-error guarantees", 2019. The
original computes buckets with a logarithm, whose last digit depends on the machine. Here the edges are a table of
products, which IEEE 754 rounds identically everywhere, and scores are compared with the edges.
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
    """Counts of scores in the buckets of a fixed table, with the smallest and the largest score.

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
        """Set the gap to n - 1, as all scores but one may be in one bucket."""
        super().__post_init__()
        object.__setattr__(self, "gap", self.n - 1)

    @classmethod
    def build(cls, scores: Floats, *, alpha: Fraction | None = None, **about: Any) -> Self:  # noqa: ARG003
        """Count the scores in each bucket; `alpha` is ignored, as the edges are fixed."""
        scores.sort()  # makes the lookup several times faster
        index = np.searchsorted(upper_edges(), scores, side="left")
        buckets, counts = np.unique(index, return_counts=True)
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
        """The smallest score and the upper edges, the last of which is replaced by the largest score."""
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
        """Validate the buckets, the counts and the extreme scores."""
        counts, smallest, largest = check_sketch(content, sum(about["sizes"]), "buckets", "counts")
        buckets = content.counts(0, "buckets")
        if not rising(buckets) or buckets[-1] >= len(upper_edges()):
            raise InputError(f"the summary's buckets are not in strictly ascending order below {len(upper_edges())}")
        ends = np.searchsorted(upper_edges(), [smallest, largest], side="left")
        if ends.tolist() != [buckets[0], buckets[-1]]:
            raise InputError("the summary's smallest and largest score are not in its first and last bucket")
        return cls(buckets=buckets, counts=counts, smallest=smallest, largest=largest, **about)


def check_sketch(content: Content, n: int, places: str, counted: str) -> tuple[Integers, float, float]:
    """Validate decoded counts, one per bucket or mean with the sum n, and the extreme scores."""
    content.expect(arrays=2, numbers=2)
    counts, (smallest, largest) = content.counts(1, counted), content.numbers
    if not len(content.arrays[0]) == len(counts) > 0:
        raise InputError(f"the summary's {places} and {counted} differ in number")
    # The float sum cannot overflow; if it is small, the integer sum does not either.
    if counts.min() < 1 or counts.sum(dtype=np.float64) > 2.0**62 or int(counts.sum()) != n:
        raise InputError(f"the summary's counts are not positive, or do not add up to the {n} scores that it claims")
    if not (-LARGEST <= smallest <= largest <= LARGEST) or (n == 1 and smallest < largest):
        raise InputError("the summary's smallest and largest score are not finite, or contradict each other")
    return counts, smallest + 0.0, largest + 0.0


@lru_cache(maxsize=1)
def upper_edges() -> Floats:
    """Return the upper edges of all buckets in ascending order; a bucket holds lower edge < score <= upper edge.

    Edges above 1 are rounded products with GROWTH, as far as they are finite; edges below 1 are their reciprocals, as
    far as these are normal. The largest float is the last edge. Negative edges are mirrored, and zero has its own
    bucket.
    """
    with np.errstate(over="ignore"):
        up = np.multiply.accumulate(np.append(1.0, np.full(36_000, GROWTH)))
    up = up[up < LARGEST]
    down = 1 / up[:0:-1]
    positive = np.concatenate([down[down >= SMALLEST_NORMAL], up, [LARGEST]])
    edges = np.concatenate([-positive[::-1], [-SMALLEST, 0.0], positive])
    edges.setflags(write=False)
    return edges
