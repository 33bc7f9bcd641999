"""High-probability bounds on coverage, on the miss rate of one calibration, and on mean losses (docs/proofs.md).

All bounds are rounded outward, so rounding never costs coverage. The number of scores below a point is a sum of
independent indicators with different probabilities; from the mean plus one on, its upper tail is at most binomial
(Hoeffding, 1956). Mixtures with other weights have the bound t = sqrt(ln(1/b) sum n_k v_k^2 / 2) (Hoeffding, 1963).

Mean losses have the Hoeffding-Bentkus inequality (Bates, Angelopoulos, Lei, Malik and Jordan, "Distribution-free,
risk-controlling prediction sets", 2021): if the mean of N independent losses in [0, 1] is above a, their average is R
or less with probability at most

    p = min( exp(-N kl(min(R, a), a)),  e P(Bin(N, a) <= ceil(N R)) )
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

import numpy as np

from fedconformal._base.arrays import ALPHA_UNIT, Floats
from fedconformal.guarantees.guarantee import Counts

EXACT_SCORES = 5_000
"""Up to this number of scores, binomial tails are summed with 40 decimals; above, scipy's are rounded outward."""
FLOAT_SCORES = 2**36
"""Up to this number, scipy's tails err by at most a hundredth of `MARGIN`; above, Hoeffding's inequality is used."""
DIGITS = decimal.Context(prec=40)
MORE_DIGITS = decimal.Context(prec=60)
ROUNDING = Decimal("1e-30")
"""Far above the rounding errors of 40 decimals, far below the effect of the last digit of the coverage."""
NEGLIGIBLE = Decimal("1e-33")
LEAST = Decimal("1e-300")
"""Lower bound on the probabilities of a mean loss."""
STEPS = 10**9
"""Bounds on a mean are multiples of 1 / STEPS, rounded up."""
MARGIN = 1e-6
"""Above EXACT_SCORES, the share of `failure` reserved for the rounding errors of scipy."""
COARSE = 10**6
"""Above EXACT_SCORES, coverage is rounded down to a multiple of this number of units."""
FLOAT_ROUNDING = 1e-12
"""Above the rounding errors of floats; added to bounds."""


def coverage_units(ranks: Sequence[int], size: int, failure: float) -> list[int]:
    """Return the coverage of each rank of `size` scores, except with probability `failure`, rounded down to 1e-15."""
    inner = [] if size <= EXACT_SCORES else [rank for rank in ranks if 0 < rank < size]
    units = dict(zip(inner, _safe_units(inner, size, failure), strict=True)) if inner else {}
    return [units[rank] if rank in units else _exact_units(min(rank, size), size, failure) for rank in ranks]


def rank_bound(rank: int, size: int, failure: float) -> float:
    """Bound the miss rate at the r-th smallest of N independent scores, sites in proportion to n_k, rounded up."""
    if rank > size:  # the certified threshold is +inf; finite thresholds have no bound
        return 1.0
    return rounded_up(1 - Fraction(coverage_units([rank], size, failure)[0], ALPHA_UNIT))


def shares_bound(alpha: Fraction, sizes: Counts, shares: Sequence[Fraction], failure: float) -> float:
    """Bound the miss rate of a mixture with arbitrary shares, rounded up."""
    if any(share and not n for share, n in zip(shares, sizes, strict=True)):
        return 1.0
    spread = math.fsum(float(share) ** 2 / n for share, n in zip(shares, sizes, strict=True) if n)
    return rounded_up(float(alpha) + math.sqrt(-math.log(failure) * spread / 2))


def rounded_up(rate: float | Fraction) -> float:
    """Round a rate up to a float of at most one."""
    return min(1.0, float(rate) + FLOAT_ROUNDING)


def _hoeffding_cap(rank: int, size: int) -> int:
    """Return the largest coverage covered by Hoeffding's theorem, r >= N c + 1, in units, rounded down."""
    return max(0, rank - 1) * ALPHA_UNIT // max(1, size)


def _binomial_tail(rank: int, size: int, units: int) -> tuple[Decimal, Decimal]:
    """Return P(Bin(size, c) >= rank), rounded up, and its derivative per unit of c, for c below the cap."""
    with decimal.localcontext(DIGITS):
        c = Decimal(units) / ALPHA_UNIT
        term = Decimal(math.comb(size, rank)) * c**rank * (1 - c) ** (size - rank)
        slope = term * rank / units
        odds, total = c / (1 - c), term
        for j in range(rank, size):  # below the cap, terms decrease
            factor = odds * (size - j) / (j + 1)
            term *= factor
            total += term
            if term < total * NEGLIGIBLE:
                total += term * factor / (1 - factor)  # an upper bound on the omitted terms
                break
        return total * (1 + ROUNDING), slope


@lru_cache(maxsize=2**16)
def _exact_units(rank: int, size: int, failure: float) -> int:
    """Return the largest coverage c, in units, with P(Bin(size, c) >= rank) <= failure and c below the cap."""
    cap, allowed = _hoeffding_cap(rank, size), Decimal(repr(failure))
    if not cap or _holds(rank, size, cap, allowed):
        return cap
    start = _root(rank, size, cap, failure)
    low, high, step = 0, cap, 1  # the condition holds at `low` and fails at `high`
    while high - low > 1:  # exponential search from the start, then bisection; correct for any start
        middle = start if low < start < high else (low + high) // 2
        low, high = (middle, high) if _holds(rank, size, middle, allowed) else (low, middle)
        start, step = middle + (step if middle == low else -step), 2 * step
    return low


def _holds(rank: int, size: int, units: int, allowed: Decimal) -> bool:
    """Whether P(Bin(size, c) >= rank) <= allowed; in integers if decimals are too close to decide."""
    tail = _binomial_tail(rank, size, units)[0]
    if abs(tail - allowed) > 4 * ROUNDING * allowed:
        return tail <= allowed
    others = ALPHA_UNIT - units
    whole = sum(math.comb(size, j) * units**j * others ** (size - j) for j in range(rank, size + 1))
    return bool(whole <= Fraction(allowed) * ALPHA_UNIT**size)


def _root(rank: int, size: int, cap: int, failure: float) -> int:
    """Solve P(Bin(size, c) >= rank) = failure by scipy, accurate to about 1e-13, and one Newton step."""
    units = max(1, min(cap, math.floor(float(_inverse_tail([rank], size, failure)[0]) * ALPHA_UNIT)))
    tail, slope = _binomial_tail(rank, size, units)
    with decimal.localcontext(DIGITS):
        return units + math.floor((Decimal(repr(failure)) - tail) / slope)


def _safe_units(ranks: Sequence[int], size: int, failure: float) -> list[int]:
    """Return coverages in units, rounded outward by small margins of `failure` and of the coverage."""
    from scipy.special import betainc

    r, grid = np.array(ranks, dtype=np.float64), ALPHA_UNIT // COARSE
    # Fallback if scipy's error exceeds the margin: P(Bin(n, c) >= r) <= exp(-2n(r/n - c)^2).
    coarse = np.maximum(0, np.floor((r / size - math.sqrt(-math.log(failure) / (2 * size)) - MARGIN) * grid))
    if size <= FLOAT_SCORES:
        fine = np.floor(_inverse_tail(ranks, size, failure * (1 - MARGIN)) * grid)
        checked = betainc(r, size - r + 1, fine / grid) <= failure * (1 - MARGIN / 10)
        coarse = np.where(checked, fine, coarse)
    pairs = zip(ranks, coarse.astype(np.int64).tolist(), strict=True)
    return [min(_hoeffding_cap(rank, size), units * COARSE) for rank, units in pairs]


def _inverse_tail(ranks: Sequence[int], size: int, failure: float) -> Floats:
    # P(Bin(n, c) >= r) is the incomplete beta function I_c(r, n - r + 1).
    from scipy.special import betaincinv

    r = np.array(ranks, dtype=np.float64)
    return np.nan_to_num(np.asarray(betaincinv(r, size - r + 1, failure), dtype=np.float64))


def hoeffding_bentkus(rows: int, losses: Fraction, limit: Fraction) -> Decimal:
    """Bound the probability of a total loss this small of N rows with a mean loss above the limit; rounded up."""
    return min(Decimal(1), _hoeffding(rows, losses, limit), _bentkus(rows, losses, limit))


def means_at_most(rows: int, losses: Sequence[Fraction], failure: float) -> list[Fraction]:
    """Bound the mean loss from above, except with probability `failure`, given total losses of the rows; rounded up."""
    distinct = sorted(set(losses))
    guesses = np.minimum(_hoeffding_root(rows, distinct, failure), _bentkus_root(rows, distinct, failure))
    allowed, bounds = Decimal(repr(failure)), {}
    for lost, guess in zip(distinct, guesses.tolist(), strict=True):
        limit, step = math.ceil(guess * STEPS), 1
        while limit < STEPS and hoeffding_bentkus(rows, lost, Fraction(limit, STEPS)) > allowed:
            limit, step = limit + step, 2 * step
        bounds[lost] = Fraction(min(limit, STEPS), STEPS)
    return [bounds[lost] for lost in losses]


def mean_between(rows: int, losses: Fraction, failure: float) -> tuple[Fraction, Fraction]:
    """Bound the mean loss from below and above, except with probability `failure` for both bounds together.

    >>> [round(float(end), 4) for end in mean_between(100, Fraction(10), 0.05)]
    [0.0418, 0.1926]
    """
    above, kept_above = means_at_most(rows, [losses, rows - losses], failure / 2)
    return 1 - kept_above, above


def _hoeffding(rows: int, losses: Fraction, limit: Fraction) -> Decimal:
    if losses / rows >= limit:
        return Decimal(1)
    with decimal.localcontext(MORE_DIGITS):
        r = Decimal(losses.numerator) / (losses.denominator * rows)
        a = Decimal(limit.numerator) / limit.denominator
        distance = (1 - r) * ((1 - r) / (1 - a)).ln()
        if r:
            distance += r * (r / a).ln()
        return max(LEAST, (-rows * distance).exp() * (1 + ROUNDING))


def _bentkus(rows: int, losses: Fraction, limit: Fraction) -> Decimal:
    """Return e P(Bin(N, a) <= k) = e P(Bin(N, 1 - a) >= N - k); 1 if N - k is below the mean plus 1, or N too large."""
    rank = rows - math.ceil(losses)
    units = ALPHA_UNIT - math.floor(limit * ALPHA_UNIT)
    if rank * ALPHA_UNIT < rows * units + ALPHA_UNIT or rows > FLOAT_SCORES:
        return Decimal(1)
    if rows <= EXACT_SCORES:
        tail = _binomial_tail(rank, rows, units)[0]
    else:
        from scipy.special import betainc

        tail = Decimal(float(betainc(rank, rows - rank + 1, units / ALPHA_UNIT)) * (1 + MARGIN))
    with decimal.localcontext(MORE_DIGITS):
        return max(LEAST, Decimal(1).exp() * tail * (1 + ROUNDING))


def _hoeffding_root(rows: int, losses: Sequence[Fraction], failure: float) -> Floats:
    """Solve exp(-N kl(R, a)) = failure for a above R approximately, by bisection."""
    from scipy.special import rel_entr

    r = np.array([float(lost / rows) for lost in losses])
    low, high, wanted = r, np.ones(len(r)), -math.log(failure) / rows
    for _ in range(60):
        a = (low + high) / 2
        near = rel_entr(r, a) + rel_entr(1 - r, 1 - a) < wanted
        low, high = np.where(near, a, low), np.where(near, high, a)
    return high


def _bentkus_root(rows: int, losses: Sequence[Fraction], failure: float) -> Floats:
    """Solve e P(Bin(N, a) <= k) = failure for a approximately; 1 for too many rows or losses."""
    k = [math.ceil(lost) for lost in losses]
    if rows > FLOAT_SCORES:
        return np.ones(len(k))
    root = 1 - _inverse_tail([rows - lost for lost in k], rows, failure * (1 - MARGIN) / math.e)
    return np.where(np.array(k) < rows, root, 1.0)
