"""The logarithm of a mixture of bets against "the miss rate is at most a", in a form that stays exact.

Who bets at every row on a miss rate p > a, and spreads the stake over p as Beta(1/2, 1/2) truncated to (a, 1), has

    E = 2/Z integral from asin(sqrt a) to pi/2 of (sin^2 x / a)^S (cos^2 x / (1 - a))^F dx,   Z = 2 acos(sqrt a),

after S misses and F hits, with p = sin^2 x. The powers leave the range of floats, and for large counts so do the
digits of gamma functions. But the integrand has one peak, whose height is known, and its logarithm is concave: it
falls by t h^2 or more at a distance h from the peak, after t rows. So Gauss's rule on either side of the peak gives
the integral for one row and for 2^50 rows alike, and for every limit, in the same time.

Robbins, "Statistical methods related to the law of the iterated logarithm", 1970, has the mixture; Howard, Ramdas,
McAuliffe and Sekhon, "Time-uniform, nonparametric, nonasymptotic confidence sequences", 2021, the inequality that
makes it a test at all times at once.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from fedconformal._base.arrays import Floats

DEPTH = 45.0
"""Where the logarithm of the integrand is this far below its peak, nothing is left to add."""

NODES, WEIGHTS = (np.array(half) for half in np.polynomial.legendre.leggauss(56))
DISTANCES = 1 - (0.5 - NODES / 2) ** 4
"""Distances from the peak as shares of the whole: dense at the far end, where powers below one are not smooth."""
SHARES = WEIGHTS * 2 * (0.5 - NODES / 2) ** 3

ODD = 1 / (2 * np.arange(9, 0, -1) + 1)
"""What the odd powers of the series of atanh are multiplied by, the highest first."""

BLOCK = 2048
"""Integrals that are worked out at a time."""

LEAST, STEPS = 1e-150, 100
"""Rates below this count as none; and how often Newton's step is taken at the most, towards the end of an interval."""


def log_e(misses: ArrayLike, hits: ArrayLike, limit: float) -> Floats:
    """Return ln E after these misses and hits, against a miss rate of at most `limit`.

    It is off by at most 2e-13 (1 + |ln E|) + 1e-15 sqrt(t (1 + |ln E|)) after t rows, for t up to 2^50 and limits from
    1e-9 to 1 - 1e-9; that is 1e-10 after a thousand million rows. Where losses leave less than one miss or less than
    one hit, but more than none, it is off by at most 1e-6. tests/monitoring/test_beta.py compares it with 40 digits.

    >>> np.exp(log_e([0, 1, 4], [1, 1, 4], 0.1)).round(9)
    array([ 0.42212036,  1.65575928, 20.44154175])
    >>> float(log_e(5, 5000, 0.3).round(8))
    -8.77580809
    """
    shape, s, f = _flat(misses, hits)
    out = np.empty(len(s))
    for start in range(0, len(s), BLOCK):
        some = slice(start, start + BLOCK)
        out[some] = _log_e(s[some], f[some], limit)
    return out.reshape(shape)


def rates(misses: ArrayLike, hits: ArrayLike, level: float) -> Floats:
    """Return the lower end of the rates p with ln B(S + 1/2, F + 1/2) - ln pi - S ln p - F ln(1 - p) < ln(1 / level).

    >>> rates([0, 10, 100], [100, 90, 900], 0.05).round(4)
    array([0.    , 0.0291, 0.0689])

    The logarithm is convex in ln p, so that Newton's steps from below stay below.
    """
    shape, s, f = _flat(misses, hits)
    some = np.flatnonzero(s)
    out, s, f = np.zeros(len(s)), s[some], f[some]
    left, right = np.arctan2(np.sqrt(s), np.sqrt(f)), np.arctan2(np.sqrt(f), np.sqrt(s))
    enough = -math.log(level) - np.log(_around(s, f, left, right) * 2 / math.pi)
    with np.errstate(over="ignore"):  # by a tiny share of one miss
        at = np.maximum(np.log(s / (s + f)) - enough / s - 1, math.log(LEAST))  # ln p, below the end
    for _ in range(STEPS):
        p = np.exp(at)
        over = divergence(s, f, p, 1 - p) - enough
        step = np.maximum(over, 0) * (1 - p) / np.maximum(s - (s + f) * p, LEAST)
        if not (at + step > at).any():
            break
        at += step
    out[some] = np.where(at > math.log(LEAST), np.exp(at), 0)
    return out.reshape(shape)


def at_most(s: Floats, f: Floats, a: float) -> Floats:
    """Return a little more than ln E, without an integral, where misses are more than the limit's share.

    By Stirling's bounds B(S + 1/2, F + 1/2) <= sqrt(2 pi / t) (S / t)^S (F / t)^F, and the bets not truncated win more.
    """
    t, excess = s + f, s * (1 - a) - f * a
    likelier = s * np.log1p(excess / (t * a)) + f * np.log1p(-np.minimum(excess / (t * (1 - a)), 1 - 2.0**-53))
    above = np.log(np.pi / 2 / t) / 2 - math.log(math.atan2(math.sqrt(1 - a), math.sqrt(a)))
    return likelier + above + 1e-6


def divergence(s: Floats, f: Floats, a: float | Floats, b: float | Floats) -> Floats:
    """Return t kl(S / t, a) = S ln(S / t a) + F ln(F / t b) for a = 1 - b below S / t, and 0 above.

    >>> divergence(np.array([10.0, 1.0]), np.array([90.0, 99.0]), 0.05, 0.95).round(6)
    array([2.065422, 0.      ])
    """
    excess, t = np.maximum(s * b - f * a, 0), np.maximum(s + f, LEAST)
    x, y = excess / (t * a), excess / (t * b)
    with np.errstate(over="ignore"):  # where x is large, and this is not taken
        small = excess * y / a + s * less_log1p(np.minimum(x, 1)) + f * less_log1p(-np.minimum(y, 1 / 2))
    hits_part = np.where(y < 1 / 2, np.log1p(-np.minimum(y, 1 / 2)), np.log(np.maximum(f, LEAST) / (t * b)))
    return np.where(np.maximum(x, y) < 1 / 2, small, s * np.log1p(x) + f * hits_part)


def less_log1p(x: Floats) -> Floats:
    """Return ln(1 + x) - x, also where both nearly cancel.

    >>> less_log1p(np.array([1e-8, 1.0])).round(20)
    array([-5.00000000e-17, -3.06852819e-01])
    """
    near = np.abs(x) < 1 / 4
    r = np.where(near, x, 0) / (2 + np.where(near, x, 0))
    close = 2 * r**3 * np.polyval(ODD, r * r) - x * r
    return np.where(near, close, np.log1p(np.where(near, 0, x)) - x)


def _flat(misses: ArrayLike, hits: ArrayLike) -> tuple[tuple[int, ...], Floats, Floats]:
    s, f = np.broadcast_arrays(np.asarray(misses, dtype=np.float64), np.asarray(hits, dtype=np.float64))
    return s.shape, s.ravel(), f.ravel()


def _log_e(s: Floats, f: Floats, a: float) -> Floats:
    b, t = 1 - a, s + f
    whole = math.atan2(math.sqrt(b), math.sqrt(a))
    excess = s * b - f * a
    out, many = np.empty(len(s)), excess > 0
    if many.any():  # where the peak is above the limit
        s_, f_ = s[many], f[many]
        apart = excess[many] / (np.sqrt(t[many]) * (np.sqrt(s_ * b) + np.sqrt(f_ * a)))
        area = _around(s_, f_, np.arcsin(np.minimum(apart, 1)), np.arctan2(np.sqrt(f_), np.sqrt(s_)))
        out[many] = divergence(s_, f_, a, b) + np.log(area)
    if not many.all():  # where it is highest at the limit itself
        few = ~many
        out[few] = np.log(_beyond(s[few], f[few], a, b, excess[few], whole))
    return out - math.log(whole)


def _around(s: Floats, f: Floats, left: Floats, right: Floats) -> Floats:
    """Integrate on both sides of the peak at sin^2 x = S / t, where the integrand counts as one."""
    t = s + f
    sin2, cos2, double = s / t, f / t, 2 * np.sqrt(s / t) * np.sqrt(f / t)
    slope = np.where(f > 0, 0.0, t)  # S / sin^2 x - F / cos^2 x
    areas = [
        _area(s, f, sin2, cos2, double, slope, np.minimum(reach, np.sqrt(DEPTH / t)), side)
        for reach, side in ((left, -1), (right, 1))
    ]
    return areas[0] + areas[1]


def _beyond(s: Floats, f: Floats, a: float, b: float, excess: Floats, whole: float) -> Floats:
    """Integrate from the limit on, where the integrand is one and falls from there."""
    steepness = np.maximum(-2 * excess / math.sqrt(a * b), LEAST)
    cut = np.minimum(DEPTH / steepness, np.sqrt(DEPTH / np.maximum(s + f, LEAST)))
    ones = np.ones(len(s))
    slope, double = excess / a / b, 2 * math.sqrt(a * b) * ones
    return _area(s, f, a * ones, b * ones, double, slope, np.minimum(cut, whole), 1)


def _area(
    s: Floats, f: Floats, sin2: Floats, cos2: Floats, double: Floats, slope: Floats, reach: Floats, side: int
) -> Floats:
    """Integrate to one side of x, given sin^2 x, cos^2 x, sin 2x and by how much the logarithm rises with sin^2 there.

    sin^2(x + h) - sin^2 x = sin h sin(2x + h), from which both powers are worked out without a loss.
    """
    h = side * reach[:, None] * DISTANCES
    sine = np.sin(h)
    more = sine * (double[:, None] * np.cos(h) + (cos2 - sin2)[:, None] * sine)
    up, down = (
        np.where(count > 0, sign / np.maximum(np.where(count > 0, share, 1), LEAST), 0)[:, None] * more
        for count, share, sign in ((s, sin2, 1), (f, cos2, -1))
    )
    with np.errstate(divide="ignore"):  # at the far end
        powers = s[:, None] * less_log1p(np.maximum(up, -1)) + f[:, None] * less_log1p(np.maximum(down, -1))
    return reach * (np.exp(slope[:, None] * more + powers) @ SHARES)
