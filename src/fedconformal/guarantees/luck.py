"""How much luck one calibration may have: how often its sets miss at the most, but with a small probability b.

A promise on average over calibration draws does not say that *this* draw misses at most alpha: half of the draws miss
more often. Who tests "the miss rate is at most alpha" on new rows raises false alarms for that reason alone. What can
be tested is a_b, which a draw exceeds with probability b at most. It takes independent calibration rows.

- Scores that weigh alike, rank r of N: the number of scores below the point of coverage c is a sum of N independent
  indicators, so P(coverage < c) <= P(Bin(N, c) >= r) for c <= (r - 1)/N, whatever the sites are (Hoeffding, "On the
  distribution of the number of successes in independent trials", 1956). That is what `PAC` promises, so a_b is one
  minus that. It is for sites in proportion to n_k; shares off by v in total variation add v at the most.
- Any shares lambda_k, with w_k = lambda_k / (n_k + 1): at the point whose miss rate is a + t, sum w_k m_k has a mean of
  at most 1 - a - t, and it must reach 1 - a. Hoeffding, "Probability inequalities for sums of bounded random
  variables", 1963: t = sqrt(ln(1/b) sum n_k w_k^2 / 2).

A threshold that is higher than it need be, because summaries leave something open, only misses less.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from fedconformal.guarantees.guarantee import Counts
from fedconformal.guarantees.pac import PAC

ROUNDING = 1e-12
"""More than floats are off by; bounds are rounded up by it."""


class MissLimit(NamedTuple):
    """A mixture of the sites, and how often its rows are missed at the most."""

    rate: float
    shares: tuple[Fraction, ...] | None = None
    """The weight of every site; None if it is one site, or if all rows are alike."""
    site: int | None = None
    """The position of the one site that this is about."""


def rank_limit(rank: int, size: int, failure: float) -> float:
    """Bound the miss rate at the r-th smallest of N independent scores, sites in proportion to n_k, rounded up.

    >>> round(rank_limit(901, 1000, 0.05), 10)
    0.1159245114
    >>> rank_limit(1001, 1000, 0.05)  # +inf: nothing is known of a finite threshold
    1.0
    """
    if rank > size:
        return 1.0
    return rounded_up(1 - PAC(failure=failure).promised([rank], [size]))


def shares_limit(alpha: Fraction, sizes: Counts, shares: Sequence[Fraction], failure: float) -> float:
    """Bound the miss rate of a mixture with any shares, rounded up.

    >>> shares = [Fraction(2, 10), Fraction(3, 10), Fraction(5, 10)]
    >>> round(shares_limit(Fraction(1, 10), [50, 100, 30], shares, 0.1), 10)
    0.2043366162
    """
    spread = math.fsum(n * (float(share) / (n + 1)) ** 2 for share, n in zip(shares, sizes, strict=True))
    return rounded_up(float(alpha) + math.sqrt(-math.log(failure) * spread / 2))


def mixture_limit(alpha: Fraction, sizes: Counts, parts: Sequence[int], failure: float) -> MissLimit:
    """Bound the miss rate of the mixture with weights in proportion to `parts`, by the smaller of the two bounds.

    Which one is smaller depends on the sizes alone, so choosing costs nothing.

    >>> found = mixture_limit(Fraction(1, 10), [500, 500], [501, 501], 0.05)
    >>> round(found.rate, 10) == round(rank_limit(902, 1000, 0.05), 10), found.shares
    (True, (Fraction(1, 2), Fraction(1, 2)))
    """
    whole, total = sum(parts), sum(sizes)
    shares = tuple(Fraction(part, whole) for part in parts)
    rate = shares_limit(alpha, sizes, shares, failure)
    if all(part * (sizes[0] + 1) == parts[0] * (n + 1) for part, n in zip(parts, sizes, strict=True)):
        rank = math.ceil((1 - alpha) * whole * (sizes[0] + 1) / parts[0])
        off = Fraction(sum(abs(part * total - n * whole) for part, n in zip(parts, sizes, strict=True)))
        ranked = rank_limit(rank, total, failure)
        rate = min(rate, rounded_up(ranked + float(off / (2 * whole * total))))
    return MissLimit(rate, shares)


def rounded_up(rate: float | Fraction) -> float:
    """Return a rate as a float that is no less, and at most one.

    >>> rounded_up(Fraction(1, 3)) > Fraction(1, 3), rounded_up(1.5)
    (True, 1.0)
    """
    return min(1.0, float(rate) + ROUNDING)
