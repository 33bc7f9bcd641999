"""Coverage for single sites: split conformal prediction at each site, from its own scores only.

A row of an unknown site takes the largest threshold, as do all rows if there is only one threshold: for losses, by
class and by group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Self

import numpy as np

from fedconformal._base.arrays import Integers
from fedconformal._base.names import name_key
from fedconformal.errors import InputError
from fedconformal.guarantees.binomial import rank_bound
from fedconformal.guarantees.guarantee import (
    Audience,
    Band,
    Counts,
    MissRateBound,
    Shortfall,
    SiteCounts,
    StratumKind,
    ceil_rank,
    missing_scores,
)


@dataclass(frozen=True, kw_only=True)
class EverySite(SiteCounts):
    """Coverage for each site separately: the minimum of m_k / (n_k + 1).

    Rows are assumed exchangeable within each site. Every site needs 1 / alpha - 1 scores.

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

    def places(self, sizes: Counts) -> Sequence[int]:
        """Return the positions of the sites that are promised coverage."""
        return range(len(sizes))

    def promised_many(self, counts: Integers, sizes: Counts, unit: int = 1) -> list[Fraction]:
        """Compare in floats first, and exactly only the sites that are close to the minimum."""
        shares = counts / (np.asarray(sizes)[:, None] + 1)
        close = shares <= shares.min(axis=0) + 1e-9 * unit
        return [
            min(Fraction(int(counts[k, i]), sizes[k] + 1) for k in np.flatnonzero(close[:, i]).tolist()) / unit
            for i in range(counts.shape[1])
        ]

    def band(self, alpha: Fraction, sizes: Counts, gaps: Counts | None = None) -> Band:
        slack = max(Fraction(gaps[k] if gaps else 0, sizes[k] + 1) for k in self.places(sizes))
        return Band(1 - alpha, Fraction(1), slack)

    def missing(self, alpha: Fraction, sizes: Counts) -> Shortfall:
        return missing_scores(self, alpha, sizes, self.places(sizes))

    def miss_rate_bounds(self, alpha: Fraction, sizes: Counts, failure: float) -> list[MissRateBound]:
        """Bound every site by its own scores: the threshold is at least that of the site alone."""
        places = self.places(sizes)
        ranks = {k: ceil_rank(alpha, sizes[k] + 1) for k in places}
        return [MissRateBound(rank_bound(ranks[k], sizes[k], failure / len(places)), site=k) for k in places]

    def audience(self, sites: Sequence[str], stratum: StratumKind | None = None) -> Audience:
        return Audience(
            population="of any one of the sites, each site by itself",
            sampling="the test row comes from one of these sites",
            lay_population="new cases of each single site",
        )


@dataclass(frozen=True, kw_only=True)
class OneSite(EverySite):
    """Coverage for a test row of one site, from its own scores only, as in `EverySite`.

    Parameters
    ----------
    site
        Name or position of the site.

    Examples
    --------
    >>> OneSite(site=1).promised(counts=[9, 4], sizes=[10, 5])
    Fraction(2, 3)
    """

    name = "one-site"
    assumption = "the calibration rows of the named site and the test row are exchangeable"
    caveat = "It says nothing of the other sites; and given one calibration set, coverage varies around the promise."
    by_site = False

    site: str | int

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        return cls(site="b"), cls(site=2)

    def __post_init__(self) -> None:
        if isinstance(self.site, bool) or not isinstance(self.site, str | int):
            raise InputError(f"site is {self.site!r}, expected a site's name or its position")

    def bind(self, sites: Sequence[str], sizes: Counts, stratum: StratumKind | None = None) -> Self:
        if not isinstance(self.site, str):
            if not 0 <= self.site < len(sizes):
                raise InputError(f"site is {self.site}, expected its name or a position from 0 to {len(sizes) - 1}")
            return self
        names = list(map(name_key, sites))
        if name_key(self.site) not in names:
            known = ", ".join(list(sites)[:10]) or "none: the summaries carry no site names"
            raise InputError(f"no site is called {self.site!r}; there are {known}")
        return replace(self, site=names.index(name_key(self.site)))

    def places(self, sizes: Counts) -> list[int]:
        if isinstance(self.site, str):
            raise InputError(f"the site {self.site!r} is known by name only; calibrate looks it up")
        return [self.site]

    def promised_many(self, counts: Integers, sizes: Counts, unit: int = 1) -> list[Fraction]:
        place = self.places(sizes)[0]
        return [Fraction(count, (sizes[place] + 1) * unit) for count in counts[place].tolist()]

    def band(self, alpha: Fraction, sizes: Counts, gaps: Counts | None = None) -> Band:
        """Return the rank's own share: with distinct scores coverage is exact."""
        slack, total = super().band(alpha, sizes, gaps).slack, sizes[self.places(sizes)[0]] + 1
        rank = ceil_rank(alpha, total)
        share = Fraction(rank, total)
        return Band(share, min(Fraction(1), share + slack), slack, rank, total)

    def site_shares(self, sizes: Counts, stratum: StratumKind | None = None) -> tuple[Fraction, ...]:
        return tuple(Fraction(k in self.places(sizes)) for k in range(len(sizes)))

    def audience(self, sites: Sequence[str], stratum: StratumKind | None = None) -> Audience:
        name = self.site if isinstance(self.site, str) else sites[self.site]
        lay = f"new cases of {name}; nothing is promised to the other sites"
        return Audience(population=f"of site {name!r}", lay_population=lay)
