"""What counts of one class promise, where the guarantee for all rows is a weighted sum of counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from fedconformal.guarantees.guarantee import Counts, Terms, WeightedSum, weighed
from fedconformal.guarantees.luck import MissLimit, rank_limit
from fedconformal.guarantees.planning import counting, missing, shortfall, what_is_missing


@dataclass(frozen=True, kw_only=True)
class ClassShare(WeightedSum):
    """Promise (sum w_k m_kc - price) / (sum w_k n_kc + more).

    The weights come from all rows of a site, so they are fixed while classes differ. A class is promised something by
    one of two proofs: with a `price`, the largest weight of any row, or with `more`, the weight of unseen rows.

    >>> ClassShare(price=1).promised(counts=[9, 0], sizes=[10, 0])
    Fraction(4, 5)
    """

    why_no_limit = "the certificate does not keep how many calibration rows of each class a site has"

    weights: tuple[int, ...] | None = None
    """None if every score weighs one."""
    more: int = 0
    price: int = 0

    @property
    def sites_apart(self) -> bool:
        return self.weights is not None

    def terms(self, sizes: Counts) -> Terms:
        return Terms(self.weights, weighed(self.weights, sizes) + self.more, self.price)

    def at_least(self, alpha: Fraction, sizes: Counts) -> Fraction:
        """Return 1 - alpha: how many rows of the class there are is a part of the draw."""
        return 1 - alpha

    def at_most(self, alpha: Fraction, sizes: Counts, gaps: Counts) -> Fraction:
        """Nothing is promised from above: the shares of the class at the sites are not known."""
        return Fraction(1)

    def miss_limits(self, alpha: Fraction, sizes: Counts, failure: float) -> list[MissLimit]:
        """Bound the miss rate of the class, its sites in proportion to its calibration rows, given all labels."""
        rank = self.rank(alpha, sizes)
        return [] if rank is None else [MissLimit(rank_limit(rank[0], sum(sizes), failure))]

    def promise(self, sites: Sequence[str]) -> str:
        return "for a test row of one class"


@counting.register
def _(guarantee: ClassShare, sizes: Counts) -> Sequence[int]:
    return [k for k in range(len(sizes)) if guarantee.weights is None or guarantee.weights[k]]


@shortfall.register
def _(guarantee: ClassShare, alpha: Fraction, sizes: Counts, sites: Sequence[str]) -> str:
    words = what_is_missing(guarantee, alpha, sizes, sites)
    if guarantee.sites_apart:
        return words
    return f"{words} ({sum(sizes) + missing(guarantee, alpha, sizes)[0]} of each class)"
