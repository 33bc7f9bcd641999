"""Coverage for each site by itself, so for any mixture of them.

Every site has the threshold of split conformal prediction. A row whose site is not known takes the largest of them, as
all rows do where there is one threshold only: for losses, by class and by group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fedconformal.guarantees.guarantee import Audience, Counts, Stratum
from fedconformal.guarantees.one_site import OwnScores


@dataclass(frozen=True, kw_only=True)
class EverySite(OwnScores):
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
    by_site = True

    def places(self, sizes: Counts) -> Sequence[int]:
        return range(len(sizes))

    def audience(self, sites: Sequence[str], stratum: Stratum | None = None) -> Audience:
        return Audience(
            population="of any one of the sites, each site by itself",
            sampling="the test row comes from one of these sites",
            lay_population="new cases of each single site",
        )
