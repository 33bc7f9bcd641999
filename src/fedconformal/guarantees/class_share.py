"""What counts of one class promise, where the promise is a weighted share of scores and stand-ins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from fedconformal._base.arrays import Integers
from fedconformal.guarantees.guarantee import Counts, Guarantee, ceil_rank, column_sums, more_in_total


@dataclass(frozen=True, kw_only=True)
class ClassShare(Guarantee):
    """Promise sum w_k m_kc / (sum w_k n_kc + more), `more` being what the unseen rows may weigh at the most.

    The weights come from all rows of a site, so they are fixed while classes differ.

    >>> ClassShare(weights=(1, 1), more=2).promised(counts=[9, 0], sizes=[10, 0])  # the second site holds none
    Fraction(3, 4)
    """

    weights: tuple[int, ...]
    more: int

    @property
    def sites_apart(self) -> bool:
        """Equal weights need no more than the sum of the counts."""
        return set(self.weights) != {1}

    def promised(self, counts: Counts, sizes: Counts) -> Fraction:
        """Return the weighted share."""
        return Fraction(self._weigh(counts), self._weigh(sizes) + self.more)

    def promised_many(self, counts: Integers, sizes: Counts) -> list[Fraction]:
        """Return the weighted shares of many q at once."""
        whole = self._weigh(sizes) + self.more
        totals = (
            np.array(self.weights, dtype=object) @ counts.astype(object)
            if self.sites_apart
            else column_sums(counts, sizes)
        )
        return [Fraction(total, whole) for total in totals.tolist()]

    def _weigh(self, counts: Counts) -> int:
        # Pooled summaries have fewer counts than sites, and equal weights.
        return sum(w * m for w, m in zip(self.weights, counts, strict=True)) if self.sites_apart else sum(counts)

    def rank(self, alpha: Fraction, sizes: Counts) -> tuple[int, int] | None:
        """Return the rank among the scores of the class and the stand-ins, where all weigh alike."""
        total = sum(sizes) + self.more
        return None if self.sites_apart else (ceil_rank(alpha, total), total)

    def at_most(self, alpha: Fraction, sizes: Counts, gaps: Counts) -> Fraction:
        """Nothing is promised from above: the shares of the class at the sites are not known."""
        return Fraction(1)

    def missing(self, alpha: Fraction, sizes: Counts) -> dict[int, int]:
        """Count the scores of the class that are missing."""
        if self.sites_apart:
            return {k: extra for k, extra in super().missing(alpha, sizes).items() if self.weights[k]}
        extra = more_in_total(alpha, sum(sizes), self.more)
        return {0: extra} if extra else {}

    def shortfall(self, alpha: Fraction, sizes: Counts, sites: Sequence[str]) -> str:
        """Say that it does not matter where the scores come from, if it does not, and how many a class takes."""
        if self.sites_apart:
            return super().shortfall(alpha, sizes, sites)
        extra = self.missing(alpha, sizes)[0]
        return f"calibration scores needed: {extra} more in all, at any site ({sum(sizes) + extra} of each class)"

    def promise(self, sites: Sequence[str]) -> str:
        """The guarantee that this stands in for says it."""
        return "for a test row of one class"
