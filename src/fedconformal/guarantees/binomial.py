"""Binomial tails, rounded outward so that no float costs coverage.

The number of scores below a point is a sum of independent indicators with unequal chances. Its upper tail is no heavier
than the binomial one from the mean plus one on: Hoeffding, "On the distribution of the number of successes in
independent trials", 1956.
"""

from __future__ import annotations

import decimal
import math
from decimal import Decimal
from functools import lru_cache

from fedconformal._base.arrays import ALPHA_UNIT

EXACT_SCORES = 5_000
"""Up to here binomial tails are summed in decimals of 40 places; above, scipy's are rounded outward."""

FLOAT_SCORES = 2**36
"""Up to here scipy's tails are right to a hundredth of the margin below; above, Hoeffding's inequality takes over."""

DIGITS = decimal.Context(prec=40)
ROUNDING = Decimal("1e-30")
"""Far above the errors of 40 places, far below what the last place of the coverage makes."""

NEGLIGIBLE = Decimal("1e-33")

MARGIN = 1e-6
"""Above EXACT_SCORES, a share of `failure` that is given away for the rounding errors of scipy."""


def hoeffding_cap(rank: int, size: int) -> int:
    """Return the largest coverage of which Hoeffding's theorem speaks, r >= N c + 1, in units, rounded down."""
    return max(0, rank - 1) * ALPHA_UNIT // max(1, size)


def binomial_tail(rank: int, size: int, units: int) -> tuple[Decimal, Decimal]:
    """Return P(Bin(size, c) >= rank), rounded up, and its derivative by a unit of c; c is below the cap."""
    with decimal.localcontext(DIGITS):
        c = Decimal(units) / ALPHA_UNIT
        term = Decimal(_binomial(size, rank)) * c**rank * (1 - c) ** (size - rank)
        slope = term * rank / units
        odds, total = c / (1 - c), term
        for j in range(rank, size):  # below the cap each term is smaller than the one before
            factor = odds * (size - j) / (j + 1)
            term *= factor
            total += term
            if term < total * NEGLIGIBLE:
                total += term * factor / (1 - factor)  # more than all that are left out
                break
        return total * (1 + ROUNDING), slope


@lru_cache(maxsize=2**13)
def _binomial(size: int, rank: int) -> int:
    return math.comb(size, rank)
