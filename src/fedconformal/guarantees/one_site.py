"""Coverage for one known site: split conformal prediction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Self

import numpy as np

from fedconformal._base.names import name_key
from fedconformal.errors import InputError
from fedconformal.guarantees.binomial import rank_bound
from fedconformal.guarantees.guarantee import Audience, Band, Counts, MissRateBound, Stratum, ceil_rank
from fedconformal.guarantees.weighted_sum import Terms, WeightedSum


@dataclass(frozen=True, kw_only=True)
class OneSite(WeightedSum):
    """Coverage for a test row of one site, from its own scores alone.

    Parameters
    ----------
    site
        The name of the site, or its position.

    Examples
    --------
    >>> OneSite(site=1).promised(counts=[9, 4], sizes=[10, 5])
    Fraction(2, 3)

    References
    ----------
    Papadopoulos et al., "Inductive confidence machines for regression", 2002.
    """

    name = "one-site"
    assumption = "the calibration rows of the named site and the test row are exchangeable"
    caveat = "It says nothing of the other sites; and given one calibration set, coverage varies around the promise."
    fractional = True

    site: str | int

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        return cls(site="b"), cls(site=2)

    def __post_init__(self) -> None:
        if isinstance(self.site, bool) or not isinstance(self.site, str | int | np.integer):
            raise InputError(f"site is {self.site!r}, expected a site's name or its position")
        if not isinstance(self.site, str):
            object.__setattr__(self, "site", int(self.site))

    def bind(self, sites: Sequence[str], sizes: Counts, stratum: Stratum | None = None) -> Self:
        if not isinstance(self.site, str):
            if not 0 <= self.site < len(sizes):
                most = len(sizes) - 1
                raise InputError(f"site is {self.site}, expected a site's name or a position from 0 to {most}")
            return self
        names = list(map(name_key, sites))
        if name_key(self.site) not in names:
            known = ", ".join(list(sites)[:10]) or "none: the summaries carry no site names"
            raise InputError(f"no site is called {self.site!r}; there are {known}")
        return replace(self, site=names.index(name_key(self.site)))

    def terms(self, sizes: Counts) -> Terms:
        """Return the number of the site's scores and one stand-in; scores of other sites weigh nothing."""
        return Terms([int(k == self.position) for k in range(len(sizes))], sizes[self.position] + 1)

    @property
    def position(self) -> int:
        """The position of the site."""
        if isinstance(self.site, str):
            raise InputError(f"the site {self.site!r} is known by name only; calibrate looks it up")
        return self.site

    def rank(self, alpha: Fraction, sizes: Counts) -> tuple[int, int]:
        total = sizes[self.position] + 1
        return ceil_rank(alpha, total), total

    def band(self, alpha: Fraction, sizes: Counts, gaps: Counts | None = None) -> Band:
        """Return the rank's own share: with distinct scores coverage is exact."""
        rank, total = self.rank(alpha, sizes)
        most = Fraction(rank + (gaps[self.position] if gaps else 0), total)
        return super().band(alpha, sizes, gaps)._replace(most=min(Fraction(1), most))

    def miss_rate_bounds(self, alpha: Fraction, sizes: Counts, failure: float) -> list[MissRateBound]:
        rank, total = self.rank(alpha, sizes)
        return [MissRateBound(rank_bound(rank, total - 1, failure), site=self.position)]

    def site_shares(self, sizes: Counts, stratum: Stratum | None = None) -> tuple[Fraction, ...]:
        return tuple(Fraction(k == self.position) for k in range(len(sizes)))

    def audience(self, sites: Sequence[str], stratum: Stratum | None = None) -> Audience:
        name = self.site if isinstance(self.site, str) else sites[self.site]
        lay = f"new cases of {name}; nothing is promised to the other sites"
        return Audience(population=f"of site {name!r}", lay_population=lay)
