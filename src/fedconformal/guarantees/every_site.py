"""A promise to every site at once: each one's own coverage, so any mixture of them.

Every site has a threshold of its own, that of split conformal prediction (`one_site.py`). A row whose site is not known
takes the largest of them, as all rows do where there is one threshold only: for losses, by class and by group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from fedconformal._base.arrays import Integers
from fedconformal.guarantees.guarantee import Counts, Guarantee, ceil_rank
from fedconformal.guarantees.luck import MissLimit, rank_limit


@dataclass(frozen=True, kw_only=True)
class EverySite(Guarantee):
    """Cover a test row of any of the sites, whichever it is.

    >>> EverySite().promised(counts=[9, 4], sizes=[10, 5])
    Fraction(2, 3)
    """

    name = "every-site"
    assumption = (
        "within each site, the calibration rows and the test row are exchangeable; "
        "the test row comes from one of these sites; the model was not fitted to the calibration rows"
    )
    caveat = "Given one calibration set, a site's coverage still varies around the promise."
    fractional = True

    @property
    def by_site(self) -> bool:
        return True

    def promised(self, counts: Counts, sizes: Counts) -> Fraction:
        return min(Fraction(m, n + 1) for m, n in zip(counts, sizes, strict=True))

    def promised_many(self, counts: Integers, sizes: Counts) -> list[Fraction]:
        """Compare in floats first, and exactly only the sites that are too close to the least to tell."""
        shares = counts / (np.asarray(sizes)[:, None] + 1)
        close = shares <= shares.min(axis=0) + 1e-9
        return [
            min(Fraction(int(counts[k, i]), sizes[k] + 1) for k in np.flatnonzero(close[:, i]).tolist())
            for i in range(counts.shape[1])
        ]

    def slack(self, gaps: Counts, sizes: Counts) -> Fraction:
        return max(Fraction(gap, n + 1) for gap, n in zip(gaps, sizes, strict=True))

    def miss_limits(self, alpha: Fraction, sizes: Counts, failure: float) -> list[MissLimit]:
        """Bound every site by its own scores: the threshold is no less than the one it would have by itself."""
        each = failure / len(sizes)
        return [MissLimit(rank_limit(ceil_rank(alpha, n + 1), n, each), site=k) for k, n in enumerate(sizes)]

    def plainly(self, sites: Sequence[str]) -> str:
        return "new cases of each single site"

    def promise(self, sites: Sequence[str]) -> str:
        return "for a test row of any one of the sites, each site by itself, on average over calibration draws"
