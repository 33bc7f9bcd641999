"""What counts of one class promise, where the guarantee for all rows is a weighted sum of counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from fedconformal._base.names import listed
from fedconformal.guarantees.guarantee import Counts, WeightedSum, Weights, ceil_rank, weighed
from fedconformal.guarantees.luck import MissLimit, rank_limit
from fedconformal.guarantees.planning import counting, missing, shortfall, what_is_missing


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
    places: tuple[int, ...] | None = None
    """Of the sites that can hold the class, where not all can."""

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
    places = range(len(sizes)) if guarantee.places is None else guarantee.places
    return [k for k in places if guarantee.weights[k]]


@shortfall.register
def _(guarantee: ClassShare, alpha: Fraction, sizes: Counts, sites: Sequence[str]) -> str:
    words = what_is_missing(guarantee, alpha, sizes, sites)
    if guarantee.sites_apart:
        return words
    enough = sum(sizes) + missing(guarantee, alpha, sizes)[0]
    if guarantee.places is None:
        return f"{words} ({enough} of each class)"
    holders = listed([repr(sites[k]) for k in guarantee.places])
    return f"{words.removesuffix(', at any site')}, at sites that can hold it: {holders} ({enough} of it in all)"
