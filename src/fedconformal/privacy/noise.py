"""Discrete noise for the cells of a histogram: a site's own, or its share of noise that all sites add together.

Replacing a row moves one count from a cell to another, an L1 distance of two, so discrete Laplace noise of scale
2 / epsilon in every cell is epsilon-private. Its draws are OpenDP's, exact and from the system's source of randomness.

That noise is the difference of two geometric draws, and a geometric draw is the sum of n draws from the Polya
(negative binomial) law with 1/n in the place of its count: so n sites that each add the difference of two Polya draws
add discrete Laplace noise together (Goryczka and Xiong, "A comprehensive comparison of multiparty secure additions with
differential privacy", 2015). OpenDP has no such law; but a geometric total divided among n sites by Polya's urn gives
each of them just that. A site draws a total of its own and keeps its part, and every step is a choice between whole
numbers, so that nothing is rounded.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedconformal._base.arrays import Integers
from fedconformal.errors import requires_extra

MOVED = 2
"""The L1 distance between the histograms of data sets that differ in one row."""


@lru_cache(maxsize=16)
def laplace(epsilon: Fraction) -> Any:
    """Return OpenDP's mechanism, whose own account of the privacy spent must not exceed epsilon."""
    with requires_extra("dp"):
        import opendp.prelude as dp
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int)
    return least_noise(lambda scale: dp.m.make_laplace(*space, scale=scale), MOVED / float(epsilon), MOVED, epsilon)


def least_noise(make: Callable[[float], Any], scale: float, moved: int, epsilon: Fraction) -> Any:
    """Return the mechanism of the least scale, from this one on, whose account for rows that move so far is epsilon."""
    while True:
        mechanism = make(scale)
        if mechanism.map(moved) <= epsilon:
            return mechanism
        scale = math.nextafter(scale, math.inf)


def shares(cells: int, epsilon: Fraction, sites: int) -> Integers:
    """Draw a site's share of the noise: what `sites` of them add up to is discrete Laplace noise.

    >>> shares(5, Fraction(1), sites=3).shape
    (5,)
    """
    drawn = np.array(laplace(epsilon)([0] * (2 * cells)), dtype=np.int64)
    # Given its sign, a discrete Laplace draw is geometric: k from 0 on, or -1 - k from -1 on.
    plus, minus = from_urn(np.where(drawn < 0, -1 - drawn, drawn), sites).reshape(2, cells)
    found: Integers = plus - minus
    return found


def from_urn(totals: Integers, sites: int) -> Integers:
    """Divide each total among the sites by Polya's urn, and return what the first of them gets.

    Ball i + 1 goes to the first site with probability (k + 1/n) / (i + 1) if it has k of the i before.
    """
    kept = np.zeros(len(totals), dtype=np.int64)
    left = np.arange(len(totals))
    ball = 0
    while len(left := left[totals[left] > ball]):
        ball += 1
        kept[left] += below(sites * ball, len(left)) < (sites * kept[left] + 1).astype(np.uint64)
    return kept


def below(limit: int, count: int) -> NDArray[np.uint64]:
    """Draw whole numbers below a limit, all equally likely, from the system's source of randomness.

    >>> int(below(6, 1000).max())
    5
    """
    drawn = np.frombuffer(os.urandom(8 * count), dtype=np.uint64)
    even = 2**64 - 2**64 % limit
    while even < 2**64 and len(again := np.flatnonzero(drawn >= np.uint64(even))):  # else the low ones are too likely
        drawn = drawn.copy()
        drawn[again] = np.frombuffer(os.urandom(8 * len(again)), dtype=np.uint64)
    return drawn % np.uint64(limit)
