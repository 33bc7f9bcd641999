"""A promise that holds only if the sites are alike: all rows are exchangeable, whichever site they are from.

The textbook rank ceil((1 - alpha)(N + 1)), and the paper's point of comparison. If the sites differ it
under-covers; `Mixture` is the one that does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from fedconformal.guarantees.guarantee import Counts, WeightedSum, ceil_rank
from fedconformal.guarantees.luck import MissLimit, rank_limit


@dataclass(frozen=True, kw_only=True)
class Exchangeable(WeightedSum):
    """Cover a test row that is exchangeable with all calibration rows of all sites together.

    >>> Exchangeable().promised(counts=[9, 4], sizes=[10, 5])
    Fraction(13, 16)
    """

    name = "exchangeable"
    assumption = (
        "all calibration rows of all sites and the test row are exchangeable, so the sites are alike; "
        "the model was not fitted to the calibration rows"
    )
    caveat = (
        "This is not a promise to a single site, class or set size: one that falls below is not a violation "
        "(the guarantee every-client promises it to each site)."
    )
    fractional = True

    @property
    def sites_apart(self) -> bool:
        return False

    def worth(self, sizes: Counts) -> tuple[None, int]:
        """Return the number of all scores and one stand-in for the test row."""
        return None, sum(sizes) + 1

    def miss_limits(self, alpha: Fraction, sizes: Counts, failure: float) -> list[MissLimit]:
        return [MissLimit(rank_limit(ceil_rank(alpha, sum(sizes) + 1), sum(sizes), failure))]

    def plainly(self, sites: Sequence[str]) -> str:
        return "new cases of all sites together, if the cases of all sites are alike; it can be less if they are not"

    def promise(self, sites: Sequence[str]) -> str:
        return "for a test row like the calibration rows, if the sites are alike, on average over calibration draws"
