"""The logarithm of a mixture of bets against "the miss rate is at most a", in a form that stays exact.

Who bets at every row on a miss rate p > a, and spreads the stake over p as Beta(1/2, 1/2) truncated to (a, 1), has

    E = B(S + 1/2, F + 1/2) I_{1-a}(F + 1/2, S + 1/2) / (Z a^S (1 - a)^F),   Z = 2 acos(sqrt a),

after S misses and F hits. I is the regularised incomplete beta function. Where hits prevail it is tiny, and both it and
the powers leave the range of floats; a series of positive terms gives E itself there. Where misses prevail, one minus
the other tail is no loss. Robbins, "Statistical methods related to the law of the iterated logarithm", 1970, has the
mixture; Howard, Ramdas, McAuliffe and Sekhon, "Time-uniform, nonparametric, nonasymptotic confidence sequences", 2021,
the inequality that makes it a test at all times at once.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from fedconformal._base.arrays import Floats

ENOUGH = 2.0**-60
"""Terms of a series smaller than this share of its sum are left out."""

HALVINGS = 64
"""Of where the end of an interval can be; then floats leave nothing to halve."""

BLOCK = 512
"""Terms of a series that are worked out at a time."""


def log_e(misses: ArrayLike, hits: ArrayLike, limit: float) -> Floats:
    """Return ln E after these misses and hits, against a miss rate of at most `limit`.

    >>> np.exp(log_e([0, 1, 4], [1, 1, 4], 0.1)).round(9)
    array([ 0.42212036,  1.65575928, 20.44154175])
    >>> float(log_e(5, 5000, 0.3).round(8))
    -8.77580809
    """
    s, f = np.broadcast_arrays(np.asarray(misses, dtype=np.float64), np.asarray(hits, dtype=np.float64))
    shape, s, f = s.shape, s.ravel(), f.ravel()
    z = math.log(2 * math.acos(math.sqrt(limit)))
    out = np.empty(len(s))
    few = (1 - limit) * (s + f + 1) < f + 1.5
    tail = _series(1 - limit, f[few], s[few])
    out[few] = 0.5 * (math.log(limit) + math.log1p(-limit)) - np.log(f[few] + 0.5) - z + np.log(tail)
    s, f = s[~few], f[~few]
    powers = s * math.log(limit) + f * math.log1p(-limit)
    # I_a(S + 1/2, F + 1/2), the tail that is left out.
    lead = (s + 0.5) * math.log(limit) + (f + 0.5) * math.log1p(-limit) - np.log(s + 0.5) - log_beta(s + 0.5, f + 0.5)
    other = np.exp(lead) * _series(limit, s, f)
    out[~few] = log_beta(s + 0.5, f + 0.5) + np.log1p(-other) - z - powers
    return out.reshape(shape)


def rates(misses: ArrayLike, hits: ArrayLike, level: float) -> Floats:
    """Return the lower end of the rates p with ln B(S + 1/2, F + 1/2) - ln pi - S ln p - F ln(1 - p) < ln(1 / level).

    >>> rates([0, 10, 100], [100, 90, 900], 0.05).round(4)
    array([0.    , 0.0291, 0.0689])
    """
    s, f = np.broadcast_arrays(np.asarray(misses, dtype=np.float64), np.asarray(hits, dtype=np.float64))
    shape, s, f = s.shape, s.ravel(), f.ravel()
    some = np.flatnonzero(s)
    out, s, f = np.zeros(len(s)), s[some], f[some]
    whole = log_beta(s + 0.5, f + 0.5) - math.log(math.pi)
    low, high = np.zeros(len(s)), s / (s + f)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        against = whole - s * np.log(middle) - f * np.log1p(-np.where(f > 0, middle, 0.0))
        far = against >= -math.log(level)
        low, high = np.where(far, middle, low), np.where(far, high, middle)
    out[some] = low
    return out.reshape(shape)


def log_beta(a: Floats, b: Floats) -> Floats:
    """Return ln B(a, b), element by element."""
    return np.array(
        [math.lgamma(x) + math.lgamma(y) - math.lgamma(x + y) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    )


def _series(x: float, own: Floats, other: Floats) -> Floats:
    """Return sum_j prod_{i<j} x (own + other + 1 + i) / (own + 3/2 + i), whose first factor is below one."""
    total, term, start = np.ones(len(own)), np.ones(len(own)), 0
    open_ = np.arange(len(own))
    while len(open_):
        i = np.arange(start, start + BLOCK)
        ratio = x * ((own + other)[open_, None] + 1 + i) / (own[open_, None] + 1.5 + i)
        terms = term[open_, None] * np.cumprod(ratio, axis=1)
        total[open_] += terms.sum(axis=1)
        term[open_] = terms[:, -1]
        open_ = open_[terms[:, -1] > ENOUGH * total[open_]]
        start += BLOCK
    return total
