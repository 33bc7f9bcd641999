"""Coverage for each site by itself, so for any mixture of them.

Every site has the threshold of split conformal prediction. A row whose site is not known takes the largest of them, as
all rows do where there is one threshold only: for losses, by class and by group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

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
    Stratum,
    ceil_rank,
)


@dataclass(frozen=True, kw_only=True)
class EverySite(Guarantee):
    """Coverage for each of the sites by itself.

    Rows are assumed exchangeable within each site. Every site takes 1 / alpha - 1 scores.

    Examples
    --------
    >>> EverySite().promised(counts=[9, 4], sizes=[10, 5])
    Fraction(2, 3)

    References
    ----------
    Papadopoulos et al., "Inductive confidence machines for regression", 2002.
    """

    name = "every-site"
    assumption = "within each site, the calibration rows and the test row are exchangeable"
    caveat = "Given one calibration set, a site's coverage still varies around the promise."
    fractional = True
    by_site = True

    def promised(self, counts: Counts, sizes: Counts) -> Fraction:
        return min(Fraction(m, n + 1) for m, n in zip(counts, sizes, strict=True))

    def grouped(self, sizes: Counts, unit: int | None = None) -> tuple[Integers, Promise]:
        """Compare in floats first, and exactly only the sites that are too close to the least to tell."""

        def promise(counts: Integers) -> list[Fraction]:
            shares = counts / (np.asarray(sizes)[:, None] + 1)
            close = shares <= shares.min(axis=0) + 1e-9 * (unit or 1)
            return [
                min(Fraction(int(counts[k, i]), sizes[k] + 1) for k in np.flatnonzero(close[:, i]).tolist())
                / (unit or 1)
                for i in range(counts.shape[1])
            ]

        return np.arange(len(sizes)), promise

    def band(self, alpha: Fraction, sizes: Counts, gaps: Counts | None = None) -> Band:
        slack = max(Fraction(gap, n + 1) for gap, n in zip(gaps or [0] * len(sizes), sizes, strict=True))
        return Band(1 - alpha, Fraction(1), slack)

    def miss_rate_bounds(self, alpha: Fraction, sizes: Counts, failure: float) -> list[MissRateBound]:
        """Bound every site by its own scores: the threshold is no less than the one it would have by itself."""
        each = failure / len(sizes)
        return [MissRateBound(rank_bound(ceil_rank(alpha, n + 1), n, each), site=k) for k, n in enumerate(sizes)]

    def audience(self, sites: Sequence[str], stratum: Stratum | None = None) -> Audience:
        return Audience(
            population="of any one of the sites, each site by itself",
            sampling="the test row comes from one of these sites",
            lay_population="new cases of each single site",
        )
