"""What guarantees share that promise a weighted sum of counts: sum w_k m_k / whole, all of them whole numbers.

Most do: what differs is what a score weighs, and out of how much. Where all scores weigh alike the promise is a rank of
all scores together, summaries may come pooled, and it does not matter which site has more scores.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from fedconformal._base.arrays import Integers
from fedconformal.guarantees.guarantee import Counts, Guarantee, Promise, ceil_rank, summed
from fedconformal.guarantees.luck import MissLimit, rank_limit
from fedconformal.guarantees.planning import counting, missing, shortfall, what_is_missing

Weights = Sequence[int] | None
"""What one score of each site weighs; None if every score weighs one."""


@dataclass(frozen=True, kw_only=True)
class WeightedSum(Guarantee):
    """Promise sum w_k m_k / whole."""

    @abstractmethod
    def worth(self, sizes: Counts) -> tuple[Weights, int]:
        """Return what a score of each site weighs, and the whole."""

    def promised(self, counts: Counts, sizes: Counts) -> Fraction:
        weights, whole = self.worth(sizes)
        return Fraction(weighed(weights, counts), whole)

    def promised_many(self, counts: Integers, sizes: Counts) -> list[Fraction]:
        group, promise = self.grouped(sizes)
        return promise(summed(counts, group, sum(sizes)))

    def grouped(self, sizes: Counts) -> tuple[Integers | None, Promise]:
        """Count sites together whose scores weigh the same."""
        weights, whole = self.worth(sizes)
        if weights is None:
            return None, lambda sums: [Fraction(int(total), whole) for total in sums[0].tolist()]
        number = {weight: i for i, weight in enumerate(dict.fromkeys(weights))}
        distinct = np.array(list(number), dtype=object)
        group = np.fromiter(map(number.__getitem__, weights), dtype=np.int64, count=len(weights))
        return group, lambda sums: [Fraction(total, whole) for total in (distinct @ sums.astype(object)).tolist()]

    def rank(self, alpha: Fraction, sizes: Counts) -> tuple[int, int] | None:
        """Return ceil((1 - alpha) whole) of the whole: the rank among all scores and stand-ins at +inf."""
        if self.sites_apart:
            return None
        whole = self.worth(sizes)[1]
        return ceil_rank(alpha, whole), whole

    def at_most(self, alpha: Fraction, sizes: Counts, gaps: Counts) -> Fraction:
        """Return the rank's share if all stand-ins but one are below it, plus what the summaries may cost."""
        rank = self.rank(alpha, sizes)
        if rank is None:
            return Fraction(1)
        stand_ins = rank[1] - sum(sizes)
        return min(Fraction(1), Fraction(rank[0] + stand_ins - 1 + sum(gaps), rank[1]))


def weighed(weights: Weights, counts: Counts) -> int:
    """Add up the counts, each times what it weighs.

    >>> weighed(None, [3, 4]), weighed([2, 1], [3, 4])
    (7, 10)
    """
    return sum(counts) if weights is None else sum(w * m for w, m in zip(weights, counts, strict=True))


@dataclass(frozen=True, kw_only=True)
class ClassShare(WeightedSum):
    """Promise sum w_k m_kc / (sum w_k n_kc + more), `more` being what the unseen rows may weigh at the most.

    The weights come from all rows of a site, so they are fixed while classes differ.

    >>> ClassShare(weights=(1, 1), more=2).promised(counts=[9, 0], sizes=[10, 0])  # the second site holds none
    Fraction(3, 4)
    """

    why_no_limit = "the certificate does not keep how many calibration rows of each class a site has"

    weights: tuple[int, ...]
    more: int

    @property
    def sites_apart(self) -> bool:
        """Equal weights need no more than the sum of the counts."""
        return set(self.weights) != {1}

    def worth(self, sizes: Counts) -> tuple[Weights, int]:
        return self._weights, self.weigh(sizes) + self.more

    @property
    def _weights(self) -> Weights:
        return self.weights if self.sites_apart else None  # pooled summaries have fewer counts than sites

    def weigh(self, counts: Counts) -> int:
        """Add up the counts, each times what it weighs."""
        return weighed(self._weights, counts)

    def at_most(self, alpha: Fraction, sizes: Counts, gaps: Counts) -> Fraction:
        """Nothing is promised from above: the shares of the class at the sites are not known."""
        return Fraction(1)

    def miss_limits(self, alpha: Fraction, sizes: Counts, failure: float) -> list[MissLimit]:
        """Bound the miss rate of the class, its sites in proportion to its calibration rows, given all labels."""
        if self.sites_apart:
            return []
        return [MissLimit(rank_limit(ceil_rank(alpha, self.worth(sizes)[1]), sum(sizes), failure))]

    def promise(self, sites: Sequence[str]) -> str:
        return "for a test row of one class"


@counting.register
def _(guarantee: ClassShare, sizes: Counts) -> Sequence[int]:
    return [k for k, weight in enumerate(guarantee.weights) if weight]


@shortfall.register
def _(guarantee: ClassShare, alpha: Fraction, sizes: Counts, sites: Sequence[str]) -> str:
    words = what_is_missing(guarantee, alpha, sizes, sites)
    if guarantee.sites_apart:
        return words
    return f"{words} ({sum(sizes) + missing(guarantee, alpha, sizes)[0]} of each class)"
