"""Guarantees that are a weighted sum of counts: (sum w_k m_k - price) / whole, in integers.

They differ in the weight of a score, the whole and the price. Where all scores weigh alike, the promise is a rank of
all scores together, and summaries may come pooled.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from fedconformal._base.arrays import Integers
from fedconformal.guarantees.binomial import rank_bound
from fedconformal.guarantees.guarantee import (
    Audience,
    Band,
    Counts,
    Guarantee,
    MissRateBound,
    Promise,
    Shortfall,
    Stratum,
    ceil_rank,
    check_unit,
    missing_scores,
)

Weights = Sequence[int] | None
"""The weight of one score of each site; None if every score weighs one."""


class Terms(NamedTuple):
    """The integers of a weighted sum of counts."""

    weights: Weights
    whole: int
    price: int = 0

    def share(self, total: int, unit: int = 1) -> Fraction:
        """Return what a sum promises, where `unit` counts make one row.

        >>> Terms(None, 10, 1).share(10), Terms(None, 10, 1).share(0)
        (Fraction(9, 10), Fraction(0, 1))
        """
        return Fraction(max(0, total - self.price * unit), max(1, self.whole) * unit)

    def by_group(self) -> Terms:
        """Return the terms for counts of groups of sites, whose scores weigh the same."""
        return self if self.weights is None else self._replace(weights=list(dict.fromkeys(self.weights)))

    def shares(self, sums: Integers, unit: int = 1) -> list[Fraction]:
        """Return what each column of counts promises."""
        if self.weights is None:
            return [self.share(int(total), unit) for total in sums[0].tolist()]
        totals = np.array(self.weights, dtype=object) @ sums.astype(object)
        return [self.share(total, unit) for total in totals.tolist()]


@dataclass(frozen=True, kw_only=True)
class WeightedSum(Guarantee):
    """Base class of guarantees that promise (sum w_k m_k - price) / whole."""

    @abstractmethod
    def terms(self, sizes: Counts) -> Terms:
        """Return the weight of a score of each site, the whole and the price."""

    def promised(self, counts: Counts, sizes: Counts) -> Fraction:
        terms = self.terms(sizes)
        return terms.share(weighed(terms.weights, counts))

    def grouped(self, sizes: Counts, unit: int | None = None) -> tuple[Integers | None, Promise]:
        """Count sites together whose scores weigh the same."""
        check_unit(self, unit)
        terms = self.terms(sizes)
        by_group = terms.by_group()  # which keeps neither the sizes nor a weight for every site

        def promise(sums: Integers) -> list[Fraction]:
            return by_group.shares(sums, unit or 1)

        if terms.weights is None:
            return None, promise
        number = {weight: i for i, weight in enumerate(dict.fromkeys(terms.weights))}
        return np.fromiter(map(number.__getitem__, terms.weights), dtype=np.int64, count=len(terms.weights)), promise

    def rank(self, alpha: Fraction, sizes: Counts) -> tuple[int, int] | None:
        """Return the smallest rank of all scores that promises enough, and the whole; None if weights differ."""
        if self.sites_apart:
            return None
        _, whole, price = self.terms(sizes)
        return ceil_rank(alpha, whole) + price, whole

    def band(self, alpha: Fraction, sizes: Counts, gaps: Counts | None = None) -> Band:
        """Return the share of the rank; at most, all stand-ins at +inf but one are below it."""
        gaps, terms, rank = gaps or [0] * len(sizes), self.terms(sizes), self.rank(alpha, sizes)
        slack = Fraction(weighed(terms.weights, gaps), max(1, terms.whole))
        if rank is None:
            return Band(1 - alpha, Fraction(1), slack)
        stand_ins = max(1, rank[1] - sum(sizes))
        most = min(Fraction(1), Fraction(rank[0] + stand_ins - 1 + sum(gaps), max(1, rank[1])))
        return Band(terms.share(rank[0]), most, slack, *rank)

    def missing(self, alpha: Fraction, sizes: Counts) -> Shortfall:
        """Return the scores missing at the sites whose scores weigh anything."""
        weights = self.terms(sizes).weights
        places = [k for k in range(len(sizes)) if weights is None or weights[k]]
        return missing_scores(self, alpha, sizes, places)


def weighed(weights: Weights, counts: Counts) -> int:
    """Return the weighted sum of counts.

    >>> weighed(None, [3, 4]), weighed([2, 1], [3, 4])
    (7, 10)
    """
    return sum(counts) if weights is None else sum(w * m for w, m in zip(weights, counts, strict=True))


@dataclass(frozen=True, kw_only=True)
class StratumShare(WeightedSum):
    """The form of a weighted sum for one class or group: (sum w_k m_kc - price) / (sum w_k n_kc + more).

    The weights come from all rows of a site, so they are fixed while strata differ. One of two proofs applies: with a
    `price`, the largest weight of any row, or with `more`, the weight of unseen rows.

    >>> StratumShare(price=1).promised(counts=[9, 0], sizes=[10, 0])
    Fraction(4, 5)
    """

    weights: tuple[int, ...] | None = None
    more: int = 0
    price: int = 0

    @property
    def sites_apart(self) -> bool:
        return self.weights is not None

    def terms(self, sizes: Counts) -> Terms:
        return Terms(self.weights, weighed(self.weights, sizes) + self.more, self.price)

    def band(self, alpha: Fraction, sizes: Counts, gaps: Counts | None = None) -> Band:
        """Return 1 - alpha and no upper bound: the number of rows of the stratum is part of the draw."""
        return super().band(alpha, sizes, gaps)._replace(least=1 - alpha, most=Fraction(1))

    def miss_rate_bounds(self, alpha: Fraction, sizes: Counts, failure: float) -> list[MissRateBound]:
        """Bound the miss rate of the stratum, its sites in proportion to its calibration rows, given all labels."""
        rank = self.rank(alpha, sizes)
        return [] if rank is None else [MissRateBound(rank_bound(rank[0], sum(sizes), failure))]

    def audience(self, sites: Sequence[str], stratum: Stratum | None = None) -> Audience:
        return Audience(population="of one stratum")
