"""A promise to one known site, from its own scores alone: split conformal prediction.

Papadopoulos et al., "Inductive confidence machines for regression", 2002.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Self

import numpy as np

from fedconformal._base.names import name_key
from fedconformal.errors import InputError
from fedconformal.guarantees.guarantee import Counts, Terms, WeightedSum, ceil_rank
from fedconformal.guarantees.luck import MissLimit, rank_limit
from fedconformal.guarantees.planning import counting


@dataclass(frozen=True, kw_only=True)
class OneSite(WeightedSum):
    """Cover a test row of one site, given by name or by position.

    Attributes:
        site: its name.

    >>> OneSite(site=1).promised(counts=[9, 4], sizes=[10, 5])
    Fraction(2, 3)
    """

    name = "one-site"
    assumption = (
        "the calibration rows of the named site and the test row are exchangeable; "
        "the model was not fitted to the calibration rows"
    )
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

    def bind(self, sites: Sequence[str], sizes: Counts) -> OneSite:
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
        """Where the site is."""
        if isinstance(self.site, str):
            raise InputError(f"the site {self.site!r} is known by name only; calibrate looks it up")
        return self.site

    def rank(self, alpha: Fraction, sizes: Counts) -> tuple[int, int]:
        total = sizes[self.position] + 1
        return ceil_rank(alpha, total), total

    def at_most(self, alpha: Fraction, sizes: Counts, gaps: Counts) -> Fraction:
        """Return the rank's own share: with distinct scores coverage is exact."""
        rank, total = self.rank(alpha, sizes)
        return min(Fraction(1), Fraction(rank + gaps[self.position], total))

    def miss_limits(self, alpha: Fraction, sizes: Counts, failure: float) -> list[MissLimit]:
        rank, total = self.rank(alpha, sizes)
        return [MissLimit(rank_limit(rank, total - 1, failure), site=self.position)]

    def plainly(self, sites: Sequence[str]) -> str:
        name = self.site if isinstance(self.site, str) else sites[self.site]
        return f"new cases of {name}; nothing is promised to the other sites"

    def promise(self, sites: Sequence[str]) -> str:
        name = self.site if isinstance(self.site, str) else sites[self.site]
        return f"for a test row of site {name!r}, on average over calibration draws"


@counting.register
def _(guarantee: OneSite, sizes: Counts) -> Sequence[int]:
    return [guarantee.position]
