"""High-probability bounds on the miss rate of one calibration.

A promise on average over calibration draws does not say that *this* draw misses at most alpha: half of the draws miss
more often. A test of "the miss rate is at most alpha" on new rows raises false alarms for that reason alone. What can
be tested is a_b, which a draw exceeds with probability b at most. It takes independent calibration rows.

- Scores that weigh alike, rank r of N: the number of scores below the point of coverage c is a sum of N independent
  indicators, so P(coverage < c) <= P(Bin(N, c) >= r) for c <= (r - 1)/N, whatever the sites are (Hoeffding, "On the
  distribution of the number of successes in independent trials", 1956). That is what `PAC` promises, so a_b is one
  minus that. It is for sites in proportion to n_k.
- Any shares lambda_k, with weights of at most v_k = lambda_k / n_k: at the point whose miss rate is a + t, the weighted
  sum of counts has a mean of at most 1 - a - t, and it must reach 1 - a. Hoeffding, "Probability inequalities for sums
  of bounded random variables", 1963: t = sqrt(ln(1/b) sum n_k v_k^2 / 2).

A threshold that is higher than it need be, because summaries are inexact, only misses less.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from fedconformal._base.arrays import ALPHA_UNIT
from fedconformal.guarantees.binomial import coverage_units
from fedconformal.guarantees.guarantee import Counts

ROUNDING = 1e-12
"""More than the errors of floats; bounds are rounded up by it."""


def rank_bound(rank: int, size: int, failure: float) -> float:
    """Bound the miss rate at the r-th smallest of N independent scores, sites in proportion to n_k, rounded up.

    >>> round(rank_bound(901, 1000, 0.05), 10)
    0.1159245114
    >>> rank_bound(1001, 1000, 0.05)  # +inf: nothing is known of a finite threshold
    1.0
    """
    if rank > size:
        return 1.0
    return rounded_up(1 - Fraction(coverage_units([rank], size, failure)[0], ALPHA_UNIT))


def shares_bound(alpha: Fraction, sizes: Counts, shares: Sequence[Fraction], failure: float) -> float:
    """Bound the miss rate of a mixture with any shares, rounded up.

    >>> shares = [Fraction(2, 10), Fraction(3, 10), Fraction(5, 10)]
    >>> round(shares_bound(Fraction(1, 10), [50, 100, 30], shares, 0.1), 10)
    0.207476983
    """
    if any(share and not n for share, n in zip(shares, sizes, strict=True)):
        return 1.0
    spread = math.fsum(float(share) ** 2 / n for share, n in zip(shares, sizes, strict=True) if n)
    return rounded_up(float(alpha) + math.sqrt(-math.log(failure) * spread / 2))


def rounded_up(rate: float | Fraction) -> float:
    """Return a rate as a float that is no less, and at most one.

    >>> rounded_up(Fraction(1, 3)) > Fraction(1, 3), rounded_up(1.5)
    (True, 1.0)
    """
    return min(1.0, float(rate) + ROUNDING)
