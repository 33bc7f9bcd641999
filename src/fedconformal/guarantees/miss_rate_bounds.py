"""High-probability bounds on the miss rate of one calibration (docs/proofs.md).

Half of all calibration draws miss more often than a promise on average says, so a test of "the miss rate is at most
alpha" on new rows raises false alarms. These bounds hold except with probability b, for independent calibration rows:
for a rank of all scores by Hoeffding (1956), for other weights by t = sqrt(ln(1/b) sum n_k v_k^2 / 2), Hoeffding
(1963).
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
