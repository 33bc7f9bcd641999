"""Upper confidence bounds on the mean of bounded losses: the Hoeffding-Bentkus inequality.

If the mean of N independent losses in [0, 1] is above a, they average R or less with probability at most

    p = min( exp(-N kl(min(R, a), a)),  e P(Bin(N, a) <= ceil(N R)) )

(Bates, Angelopoulos, Lei, Malik and Jordan, "Distribution-free, risk-controlling prediction sets", 2021). All of it is
rounded so that p is never too small.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction

import numpy as np

from fedconformal._base.arrays import ALPHA_UNIT, Floats
from fedconformal.guarantees.binomial import EXACT_SCORES, FLOAT_SCORES, MARGIN, ROUNDING, binomial_tail

DIGITS = decimal.Context(prec=60)
LEAST = Decimal("1e-300")
"""Smaller chances count as this."""

STEPS = 10**9
"""Bounds of a mean are whole multiples of one over this, rounded up."""

HALVES = 60


def hoeffding_bentkus(rows: int, losses: Fraction, limit: Fraction) -> Decimal:
    """Bound the chance that N rows lose this little in all, if their mean loss is above the limit; rounded up."""
    return min(Decimal(1), _hoeffding(rows, losses, limit), _bentkus(rows, losses, limit))


def means_at_most(rows: int, losses: Sequence[Fraction], failure: float) -> list[Fraction]:
    """Bound the mean loss from above, but with probability `failure`, by what the rows have lost in all; rounded up."""
    distinct = sorted(set(losses))
    guesses = np.minimum(_hoeffding_root(rows, distinct, failure), _bentkus_root(rows, distinct, failure))
    allowed, found = Decimal(repr(failure)), {}
    for lost, guess in zip(distinct, guesses.tolist(), strict=True):
        limit, step = math.ceil(guess * STEPS), 1
        while limit < STEPS and hoeffding_bentkus(rows, lost, Fraction(limit, STEPS)) > allowed:
            limit, step = limit + step, 2 * step
        found[lost] = Fraction(min(limit, STEPS), STEPS)
    return [found[lost] for lost in losses]


def mean_between(rows: int, losses: Fraction, failure: float) -> tuple[Fraction, Fraction]:
    """Bound the mean loss from below and above, but with probability `failure` for both together.

    >>> [round(float(end), 4) for end in mean_between(100, Fraction(10), 0.05)]
    [0.0418, 0.1926]
    """
    above, kept_above = means_at_most(rows, [losses, rows - losses], failure / 2)
    return 1 - kept_above, above


def _hoeffding(rows: int, losses: Fraction, limit: Fraction) -> Decimal:
    mean = losses / rows
    if mean >= limit:
        return Decimal(1)
    with decimal.localcontext(DIGITS):
        r, a = _decimal(mean), _decimal(limit)
        distance = (1 - r) * ((1 - r) / (1 - a)).ln()
        if r:
            distance += r * (r / a).ln()
        return max(LEAST, (-rows * distance).exp() * (1 + ROUNDING))


def _bentkus(rows: int, losses: Fraction, limit: Fraction) -> Decimal:
    """Return e P(Bin(N, a) <= k) = e P(Bin(N, 1 - a) >= N - k); one where it would be about one or more."""
    rank = rows - math.ceil(losses)
    units = ALPHA_UNIT - math.floor(limit * ALPHA_UNIT)
    if rank * ALPHA_UNIT < rows * units + ALPHA_UNIT or rows > FLOAT_SCORES:
        return Decimal(1)
    if rows <= EXACT_SCORES:
        tail = binomial_tail(rank, rows, units)[0]
    else:
        from scipy.special import betainc

        tail = Decimal(float(betainc(rank, rows - rank + 1, units / ALPHA_UNIT)) * (1 + MARGIN))
    with decimal.localcontext(DIGITS):
        return max(LEAST, Decimal(1).exp() * tail * (1 + ROUNDING))


def _hoeffding_root(rows: int, losses: Sequence[Fraction], failure: float) -> Floats:
    """Solve exp(-N kl(R, a)) = failure for a above R by halves, about."""
    r = np.array([float(lost / rows) for lost in losses])
    low, high, wanted = r, np.ones(len(r)), -math.log(failure) / rows
    with np.errstate(divide="ignore", invalid="ignore"):
        for _ in range(HALVES):
            a = (low + high) / 2
            distance = np.where(r > 0, r * np.log(r / a), 0) + np.where(r < 1, (1 - r) * np.log((1 - r) / (1 - a)), 0)
            low, high = np.where(distance < wanted, a, low), np.where(distance < wanted, high, a)
    return high


def _bentkus_root(rows: int, losses: Sequence[Fraction], failure: float) -> Floats:
    """Solve e P(Bin(N, a) <= k) = failure for a, about; one if there are too many rows."""
    from scipy.special import betaincinv

    k = np.array([float(min(rows - 1, math.ceil(lost))) for lost in losses])
    if rows > FLOAT_SCORES:
        return np.ones(len(k))
    found: Floats = 1 - betaincinv(rows - k, k + 1, failure * (1 - MARGIN) / math.e)
    return np.nan_to_num(np.where([math.ceil(lost) >= rows for lost in losses], 1.0, found), nan=1.0)


def _decimal(number: Fraction) -> Decimal:
    return Decimal(number.numerator) / number.denominator
