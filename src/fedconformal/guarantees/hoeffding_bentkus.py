"""How likely it is that losses come out so low if the risk is above its limit: a p-value for any bounded loss.

Rows are independent, losses are in [0, 1], and sites may differ; a is the limit, R the mean of N losses. If the risk of
the mixture in proportion to n_k is above a, then P(mean <= R) is at most the smaller of exp(-N kl(min(R, a), a))
(Hoeffding, "Probability inequalities for sums of bounded random variables", 1963) and e P(Bin(N, a) <= ceil(N R))
(Bentkus, "On Hoeffding's inequalities", 2004). Both hold for rows with unequal laws. Put together in
Angelopoulos, Bates, Candes, Jordan and Lei, "Learn then test", 2021.

All numbers are rounded up, so that no float makes a p-value too small.
"""

from __future__ import annotations

import decimal
import math
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

from fedconformal._base.arrays import ALPHA_UNIT
from fedconformal.guarantees.ranked import DIGITS, EXACT_SCORES, FLOAT_SCORES, MARGIN, ROUNDING, binomial_tail

LAST_PLACES = Decimal("1e-36")
"""Times N, more than the logarithms of 40 places are off by."""


FAINTEST = 1e-17
"""Smaller tails are not asked of floats; no `failure` is as small."""


def p_value(total: Fraction | int, size: int, limit: Fraction) -> Decimal:
    """Return the p-value of "the risk is above `limit`" if the losses of `size` rows add up to `total`, rounded up.

    Losses are in [0, 1]: divide the total and the limit by the bound first. A total that is rounded up only raises it.

    >>> round(float(p_value(Fraction("10.5"), 200, Fraction(1, 10))), 11)
    0.04563868293
    >>> p_value(6, 50, Fraction(1, 10))  # more than the limit
    Decimal('1')
    """
    return _p_value(Fraction(total), size, math.floor(limit * ALPHA_UNIT))


def risk_at_most(total: Fraction | int, size: int, failure: float) -> Fraction:
    """Return the smallest limit, rounded up to 1e-15, that these losses keep but for a chance of `failure`.

    >>> found = risk_at_most(Fraction("10.5"), 200, 0.05)
    >>> round(float(found), 6), p_value(Fraction("10.5"), 200, found) <= Decimal("0.05")
    (0.099159, True)
    """
    total, allowed = Fraction(total), Decimal(repr(failure))
    low, high = min(ALPHA_UNIT, math.floor(total * ALPHA_UNIT / max(1, size))), ALPHA_UNIT
    # Hoeffding 1963 again, 2 (a - R)^2 <= kl(R, a): the root is no further off, so halving starts close to it.
    reach = math.ceil(math.sqrt(-math.log(failure) / (2 * max(1, size))) * 1.000001 * ALPHA_UNIT) + 2
    high = min(high, low + reach)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _p_value(total, size, middle) <= allowed else (middle, high)
    return Fraction(high, ALPHA_UNIT)


@lru_cache(maxsize=2**14)
def _p_value(total: Fraction, size: int, units: int) -> Decimal:
    """Do the same with a limit in units of 1e-15; rounded down it only raises the p-value."""
    if units <= 0 or total * ALPHA_UNIT >= size * units:
        return Decimal(1)
    if units >= ALPHA_UNIT:
        return Decimal(0)
    return min(Decimal(1), _hoeffding(total, size, units), _bentkus(math.ceil(total), size, units))


def _hoeffding(total: Fraction, size: int, units: int) -> Decimal:
    """Return exp(-N kl(R, a)) = (a/R)^S ((1 - a)/(1 - R))^(N - S), S the total."""
    with decimal.localcontext(DIGITS):
        exponent = size * LAST_PLACES
        for part, chance in ((total, units), (size - total, ALPHA_UNIT - units)):
            if part:
                share = Fraction(chance * size, ALPHA_UNIT) / part
                exponent += _decimal(part) * _decimal(share).ln()
        return exponent.exp() * (1 + ROUNDING)


def _bentkus(count: int, size: int, units: int) -> Decimal:
    """Return e P(Bin(N, a) <= count); from Na - 1 on the chance is at least 1/2, and this is above one."""
    if (count + 1) * ALPHA_UNIT > size * units or size > FLOAT_SCORES:
        return Decimal(1)
    if size <= EXACT_SCORES:
        tail = binomial_tail(size - count, size, ALPHA_UNIT - units)[0]
    else:
        from scipy.special import betainc

        found = float(betainc(size - count, count + 1, (ALPHA_UNIT - units) / ALPHA_UNIT))
        tail = Decimal(max(found, FAINTEST) * (1 + MARGIN))
    with decimal.localcontext(DIGITS):
        return Decimal(1).exp() * tail * (1 + ROUNDING)


def _decimal(number: Fraction) -> Decimal:
    return Decimal(number.numerator) / Decimal(number.denominator)
