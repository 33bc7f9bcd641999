"""A promise that holds only if the sites are alike: all rows are exchangeable, whichever site they are from.

The textbook rank ceil((1 - alpha)(N + 1)), and the paper's point of comparison. If the sites differ it
under-covers; `Mixture` is the one that does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from fedconformal.guarantees.guarantee import Counts, Guarantee, ceil_rank, more_in_total


@dataclass(frozen=True, kw_only=True)
class Exchangeable(Guarantee):
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

    @property
    def sites_apart(self) -> bool:
        """All scores weigh alike."""
        return False

    def promised(self, counts: Counts, sizes: Counts) -> Fraction:
        """Return the share of all scores and one stand-in for the test row."""
        return Fraction(sum(counts), sum(sizes) + 1)

    def rank(self, alpha: Fraction, sizes: Counts) -> tuple[int, int]:
        """Return ceil((1 - alpha)(N + 1)) of N + 1."""
        return ceil_rank(alpha, sum(sizes) + 1), sum(sizes) + 1

    def at_most(self, alpha: Fraction, sizes: Counts, gaps: Counts) -> Fraction:
        """Return the rank's own share: with distinct scores coverage is exact."""
        rank, total = self.rank(alpha, sizes)
        return min(Fraction(1), Fraction(rank + sum(gaps), total))

    def expected(self, alpha: Fraction, sizes: Counts) -> Fraction:
        """Return the rank's own share."""
        return Fraction(*self.rank(alpha, sizes))

    def missing(self, alpha: Fraction, sizes: Counts) -> dict[int, int]:
        """Count the scores missing in all; the first site stands for any."""
        extra = more_in_total(alpha, sum(sizes), 1)
        return {0: extra} if extra else {}

    def shortfall(self, alpha: Fraction, sizes: Counts, sites: Sequence[str]) -> str:
        """Say that it does not matter where the scores come from."""
        return f"calibration scores needed: {self.missing(alpha, sizes)[0]} more in all, at any site"

    def promise(self, sites: Sequence[str]) -> str:
        """Name the condition."""
        return "for a test row like the calibration rows, if the sites are alike, on average over calibration draws"
