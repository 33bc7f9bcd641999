"""What guarantees share that promise by the rank among all N independent scores, whatever the sites are.

The number of scores below a point is a sum of independent indicators with unequal chances. Its upper tail is no heavier
than the binomial one from the mean plus one on: Hoeffding, "On the distribution of the number of successes in
independent trials", 1956. Binomial tails are rounded outward, so that no float costs coverage.
"""

from __future__ import annotations

import decimal
import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

import numpy as np

from fedconformal._base.arrays import ALPHA_UNIT, Integers
from fedconformal.guarantees.guarantee import Counts, Guarantee, Promise, summed

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


@dataclass(frozen=True, kw_only=True)
class Ranked(Guarantee):
    """Promise by the number of all scores at or below q, of independent rows."""

    assumption = (
        "all calibration rows are independent, within and between sites, and each has the law of its site; the "
        "sizes n_k were fixed beforehand; the test row's site is drawn in proportion to n_k; "
        "the model was not fitted to the calibration rows"
    )

    why_not_fractional = "its rank is a count of whole rows"

    @abstractmethod
    def units(self, ranks: Sequence[int], size: int) -> list[int]:
        """Return the coverage that each rank of `size` scores promises, in units of 1e-15, rounded down."""

    @property
    def sites_apart(self) -> bool:
        return False

    @property
    def assumption_in_class(self) -> str:
        """The mixture is another one in every class."""
        return (
            "all calibration rows are independent, within and between sites, and each has the law of its site; "
            "given its class, the test row's site is drawn in proportion to the calibration rows of that class; "
            "the model was not fitted to the calibration rows"
        )

    def promised(self, counts: Counts, sizes: Counts) -> Fraction:
        """Return the coverage that this many scores at or below q promise, rounded down to 1e-15."""
        return Fraction(self.units([sum(counts)], sum(sizes))[0], ALPHA_UNIT)

    def promised_many(self, counts: Integers, sizes: Counts) -> list[Fraction]:
        return self.grouped(sizes)[1](summed(counts, None, sum(sizes)))

    def grouped(self, sizes: Counts) -> tuple[None, Promise]:
        """Only the total matters; work out each different one once."""

        def promise(sums: Integers) -> list[Fraction]:
            totals, index = np.unique(sums[0], return_inverse=True)
            units = [Fraction(found, ALPHA_UNIT) for found in self.units(totals.tolist(), sum(sizes))]
            return [units[i] for i in index.tolist()]

        return None, promise

    def rank(self, alpha: Fraction, sizes: Counts) -> tuple[int, int]:
        """Return the smallest rank that promises enough, of N + 1; rank N + 1 is +inf."""
        size, wanted = sum(sizes), (1 - alpha) * ALPHA_UNIT
        low, high = 0, size + 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.units([middle], size)[0] >= wanted else (middle, high)
        return high, size + 1

    def at_least(self, alpha: Fraction, sizes: Counts) -> Fraction:
        """Return 1 - alpha: the rank promises no more than that for sure."""
        return 1 - alpha

    def slack(self, gaps: Counts, sizes: Counts) -> Fraction:
        """Return the share of all scores that the summaries may leave uncounted."""
        return Fraction(sum(gaps), max(1, sum(sizes)))


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
