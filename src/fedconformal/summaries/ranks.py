"""Certified ranks: the scores at about a hundred known ranks.

If the r-th smallest score is v, at least r scores are <= v and at most r - 1 are < v. This bounds the count of every q
from below and above, for any scores: the threshold may be slightly high, never too low. Half of the ranks are evenly
spaced, half are dense around 1 - alpha; rank n is always included. For a two-sided score they are dense around both
levels, and rank 1 is included.

The ranks follow from (n, points, alpha) and the score in integer arithmetic and are not encoded. A pooled summary
encodes its bounds with the scores.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, Self

import numpy as np

from fedconformal._base.arrays import Floats, Integers, as_alpha, rising
from fedconformal.errors import InputError
from fedconformal.summaries.provenance import Provenance
from fedconformal.summaries.summary import Content, Summary

LEVEL = 2**30
"""Ranks are ceil(n * level / LEVEL); for n up to 2^32 the product fits into 63 bits."""
POINTS = 100
MAX_POINTS = 2**12


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class RankSummary(Summary):
    """Selected scores, with a lower bound on the number of scores <= each and an upper bound on the number < each.

    >>> summary = Summary.of_scores([i / 1000 for i in range(1000)], kind="ranks", alpha=0.1)
    >>> summary.count_at_most(0.9), summary.count_at_most(0.25), summary.gap, len(summary.to_bytes())
    ((901, 901), (240, 259), 19, 834)
    """

    name = "ranks"
    columnar = True

    values: Floats
    lower: Integers
    below: Integers
    schedule: tuple[int, Fraction | None] | None = None
    """Points and alpha, if the ranks follow from them."""

    @classmethod
    def build(cls, scores: Floats, *, alpha: Fraction | None = None, **about: Any) -> Self:
        ranks = scheduled_ranks(len(scores), POINTS, alpha, lower_of(about.get("provenance")))
        scores.sort()  # with a hundred ranks faster than a partition
        return cls.scheduled(scores[ranks - 1], (POINTS, alpha), sizes=(len(scores),), **about)

    @classmethod
    def scheduled(cls, values: Floats, schedule: tuple[int, Fraction | None], **about: Any) -> Self:
        """Return a summary from the scores at the ranks that follow from the size and this (points, alpha)."""
        ranks = scheduled_ranks(about["sizes"][0], *schedule, lower_of(about.get("provenance")))
        if len(values) != len(ranks):
            raise InputError(f"the summary holds {len(values)} scores, expected {len(ranks)} ranks")
        gap = int(np.diff(ranks, prepend=0).max()) - 1
        return cls(values=values, lower=ranks, below=ranks - 1, gap=gap, schedule=schedule, **about)

    @property
    def points(self) -> Floats:
        return self.values

    @property
    def lower_counts(self) -> Integers:
        return self.lower

    def bounds(self, q: Floats) -> tuple[Integers, Integers]:
        after = np.searchsorted(self.values, q, side="right")
        return np.append(0, self.lower)[after], np.append(self.below, self.n)[after]

    def __neg__(self) -> RankSummary:
        """At least n - below scores are >= a point, and at most n - lower are above it."""
        if self.below[0]:
            raise InputError(f"{self} does not send its smallest score; summarise with the score, such as Signed")
        values, lower, below = 0.0 - self.values[::-1], self.n - self.below[::-1], self.n - self.lower[::-1]
        return replace(self, values=values, lower=lower, below=below, schedule=None)

    @classmethod
    def merge(cls, parts: Sequence[Self], **about: Any) -> Self:
        """Add up the bounds at all points of all parts; the ranks no longer follow from a schedule."""
        values = np.unique(np.concatenate([part.values for part in parts]))
        lower = np.zeros(len(values), dtype=np.int64)
        below = np.zeros(len(values), dtype=np.int64)
        for part in parts:
            lower += part.bounds(values)[0]
            below += np.append(part.below, part.n)[np.searchsorted(part.values, values, side="left")]
        return cls(values=values, lower=lower, below=below, gap=sum(part.gap for part in parts), **about)

    def content(self) -> Content:
        """Encode the bounds only if they do not follow from the schedule."""
        if self.schedule is None:
            return Content([self.values, self.lower, self.below], numbers=(self.gap,))
        points, alpha = self.schedule
        return Content([self.values], parameters=(points,) if alpha is None else (points, repr(float(alpha))))

    @classmethod
    def from_content(cls, content: Content, **about: Any) -> Self:
        """Validate the scores, and the bounds if they are encoded."""
        if content.parameters:
            points, alpha = _schedule(*content.parameters)
            content.expect(arrays=1, parameters=len(content.parameters))
            if len(about["sizes"]) != 1:
                raise InputError("the summary holds several sites and does not send its bounds")
            values, n = content.scores(), about["sizes"][0]
            # Checked before the ranks are computed; the evenly spaced ranks are distinct.
            if not min(n, points - points // 2) <= len(values) <= min(n, points):
                raise InputError(f"the summary holds {len(values)} scores, expected about {points} ranks")
            return cls.scheduled(values, (points, alpha), **about)
        content.expect(arrays=3, numbers=1)
        gap = content.numbers[0]
        if type(gap) is not int:
            raise InputError("the summary's gap is not a whole number; ask the site to send it again")
        summary = cls(
            values=content.scores(),
            lower=content.counts(1, "lower counts"),
            below=content.counts(2, "upper counts"),
            gap=gap,
            **about,
        )
        summary._check_bounds()
        return summary

    def _check_bounds(self) -> None:
        if not len(self.values) == len(self.lower) == len(self.below) > 0:
            raise InputError("the summary's scores and counts differ in number")
        if not rising(self.values):
            raise InputError("the summary's points are not in strictly ascending order")
        steady = (np.diff(self.lower) >= 0).all() and (np.diff(self.below) >= 0).all()
        nested = (self.lower[:-1] <= self.below[1:]).all() and self.below[-1] < self.n == self.lower[-1]
        if not (steady and nested):
            raise InputError("the summary's counts do not add up")
        if np.max(self.below - np.append(0, self.lower[:-1])) > self.gap or self.gap >= self.n:
            raise InputError("the summary's counts leave a wider gap than it states")


def _schedule(points: Any, alpha: Any = None, *more: Any) -> tuple[int, Fraction | None]:
    """Validate the parameters of a message."""
    if type(points) is not int or not 1 <= points <= MAX_POINTS or not isinstance(alpha, str | None) or more:
        raise InputError("the summary has no valid number of ranks and alpha; ask the site to send it again")
    return points, None if alpha is None else as_alpha(alpha)


def lower_of(provenance: Provenance | None) -> Fraction | None:
    """Return the share of alpha of the lower end of a two-sided score; None for other scores."""
    return None if provenance is None or provenance.score is None else provenance.score.lower_share


@lru_cache(maxsize=4096)
def scheduled_ranks(n: int, points: int, alpha: Fraction | None, lower: Fraction | None = None) -> Integers:
    """Return the ranks of a summary of n scores in ascending order, ending with n; with a `lower` share, from 1 on."""
    spread = np.maximum(-(-n * levels_of(points, alpha, lower) // LEVEL), 1)
    # np.unique would import numpy.ma, a tenth of the time of a command.
    ranks = spread[np.append(True, spread[1:] > spread[:-1])] if n > points else np.arange(1, n + 1)
    ranks.setflags(write=False)
    return ranks


@lru_cache(maxsize=256)
def levels_of(points: int, alpha: Fraction | None, lower: Fraction | None = None) -> Integers:
    """Return the levels of the ranks in ascending order, as shares of all scores in units of 1 / LEVEL."""
    crowd = 0 if alpha is None else points // 2
    even = points - crowd if lower is None else max(1, points - crowd - 1)
    levels = [i * LEVEL // even for i in range(1, even + 1)]
    if lower is None:
        return np.array(sorted(levels + _around(1 - (alpha or 0), crowd)), dtype=np.int64)
    missed = (alpha or 0) * lower
    upper = _around(1 - (alpha or 0) + missed, crowd - crowd // 2)
    return np.array(sorted([0, *levels, *upper, *_around(missed, crowd // 2)]), dtype=np.int64)  # 0 becomes rank 1


def _around(centre: Fraction | int, count: int) -> list[int]:
    """Return levels that are dense around a centre."""
    levels = []
    for i in range(1, count + 1):
        # t runs from -1 to 1; its signed square is dense around 0, so levels are dense around the centre.
        t = Fraction(2 * i, count) - 1
        level = centre + t * abs(t) * (1 - centre if t > 0 else centre)
        levels.append(math.floor(level * LEVEL))
    return levels
