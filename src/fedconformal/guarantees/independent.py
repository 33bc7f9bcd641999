"""A promise on average for independent rows: no price for the number of sites.

Theorem 1 assumes that rows are exchangeable within a site only, and pays one stand-in a site. If all rows are
independent, the number of scores below the point of coverage c is a sum of N independent indicators with mean N c, so
rank r of all scores covers at least c with the probability that B ~ Beta(r, N + 1 - r) exceeds c, for c up to
m = (r - 1)/N, whatever the sites are (Hoeffding, "On the distribution of the number of successes in independent
trials", 1956). Over all c that gives E[coverage] >= E[min(B, m)] = m (1 - I_m(r, N + 1 - r)) + r/(N + 1) I_m(r + 1,
N + 1 - r), with I the incomplete beta function. It rises with r and has no K in it.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

from fedconformal._base.arrays import ALPHA_UNIT
from fedconformal.guarantees.guarantee import Counts
from fedconformal.guarantees.luck import MissLimit, rank_limit
from fedconformal.guarantees.ranked import (
    DIGITS,
    EXACT_SCORES,
    FLOAT_SCORES,
    MARGIN,
    ROUNDING,
    Ranked,
    binomial_tail,
    hoeffding_cap,
)


@dataclass(frozen=True, kw_only=True)
class Independent(Ranked):
    """Cover a test row from the mixture of the sites in proportion to n_k, if all rows are independent.

    >>> Independent().rank(Fraction(1, 10), sizes=[10] * 100)  # 990 of 1100 for Mixture(), which pays for K = 100
    (905, 1001)
    >>> round(float(Independent().promised(counts=[90, 93], sizes=[100, 100])), 6)
    0.902212
    """

    name = "independent"
    caveat = (
        "This is not a promise to a single site, class or set size: one that falls below is not a violation "
        "(the guarantee every-client promises it to each site); patients that several sites share void it."
    )

    def promise_in_class(self, sites: Sequence[str]) -> str:
        """Given all labels, the rows of a class are independent, and their sites are as they came."""
        return (
            "for a test row whose site is drawn in proportion to the calibration rows of its class, "
            "on average over calibration draws"
        )

    def units(self, ranks: Sequence[int], size: int) -> list[int]:
        """Return E[min(B, m)] of every rank, in units, rounded down."""
        rank_units = _decimal_units if size <= EXACT_SCORES else _float_units
        return [rank_units(min(rank, size), size) if rank > 1 else 0 for rank in ranks]

    def miss_limits(self, alpha: Fraction, sizes: Counts, failure: float) -> list[MissLimit]:
        total = sum(sizes)
        rate = rank_limit(self.rank(alpha, sizes)[0], total, failure)
        return [MissLimit(rate, tuple(Fraction(n, max(1, total)) for n in sizes))]

    def plainly(self, sites: Sequence[str]) -> str:
        return (
            "new cases of all sites together, where a site counts by how many calibration cases it has, if no case "
            "depends on another; a single site can be below"
        )

    def promise(self, sites: Sequence[str]) -> str:
        return "for a test row from the mixture of the sites, in proportion to n_k, on average over calibration draws"


@lru_cache(maxsize=2**16)
def _decimal_units(rank: int, size: int) -> int:
    """Return E[min(B, m)] from tails in decimals; a smaller m, rounded down to a unit, only promises less."""
    units = hoeffding_cap(rank, size)
    with decimal.localcontext(DIGITS):
        m, below = Decimal(units) / ALPHA_UNIT, binomial_tail(rank, size, units)[0]
        shifted = binomial_tail(rank + 1, size + 1, units)[0] * (1 - 4 * ROUNDING)  # tails are rounded up
        found = m * (1 - below) + Decimal(rank) / (size + 1) * shifted
        return max(0, math.floor((found - ROUNDING) * ALPHA_UNIT))


def _float_units(rank: int, size: int) -> int:
    """Return E[min(B, m)] from scipy's tails, rounded outward; where these end, Scarf's bound.

    Scarf, "A min-max solution of an inventory problem", 1958: E[(m - B)^+] <= (sqrt(v + d^2) - d)/2 for any B with mean
    m + d and variance v. It costs half a standard deviation of B instead of .4.
    """
    if size <= FLOAT_SCORES:
        from scipy.special import betainc

        m = (rank - 1) / size
        below = float(betainc(rank, size + 1 - rank, m)) * (1 + MARGIN)
        shifted = float(betainc(rank + 1, size + 1 - rank, m)) * (1 - MARGIN)
        found = m * (1 - below) + rank / (size + 1) * shifted
        return math.floor(max(0.0, found - MARGIN / 10) * ALPHA_UNIT)
    wide = (size + 1) ** 2
    distance = Fraction(size + 1 - rank, size * (size + 1))
    variance = Fraction(rank * (size + 1 - rank), wide * (size + 2))
    root = Fraction(math.isqrt(math.floor((variance + distance**2) * ALPHA_UNIT**2)) + 1, ALPHA_UNIT)
    return max(0, math.floor((Fraction(rank - 1, size) - (root - distance) / 2) * ALPHA_UNIT))
