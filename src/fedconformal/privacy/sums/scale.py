"""The public edges between which a sums session counts scores, unless it goes on to the last bit.

4,096 cells, each up to and with its upper edge; every edge is an exact binary fraction. Edges are fourth powers on both
sides of 0 and of 1, where the scores of a sure model crowd, and eighths of octaves further out, up to 2^64. For scores
of numbers all edges are multiplied by a public power of two, the `reach`.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from fedconformal._base.arrays import Floats
from fedconformal._base.float_bits import Keys, keys_of
from fedconformal.errors import InputError

BITS = 12
QUARTER = 1 << BITS - 2
OCTAVES = 64
EIGHTHS = 8
MOST = 512
"""The largest exponent of a reach; minus it is the smallest."""


def exponent_of(reach: Any) -> int:
    """Return the exponent of the power of two at or above a public number that no threshold is expected to exceed.

    >>> exponent_of(100), exponent_of(0.25)
    (7, -2)
    """
    if isinstance(reach, bool) or not isinstance(reach, int | float) or not 2.0**-MOST <= reach <= 2.0**MOST:
        raise InputError(f"reach is {reach!r:.40}, expected a positive number that the threshold will not exceed")
    fraction, exponent = math.frexp(reach)
    return exponent - (fraction == 0.5)


@lru_cache(maxsize=4)
def edges(exponent: int = 0) -> Floats:
    """Return the upper edges of all cells, for a reach of two to the power of this.

    >>> edges()[[0, 1023, 2047, 3071]].tolist(), len(edges())
    ([-1.7293822569102705e+19, 0.0, 0.5, 1.0], 4096)
    >>> edges(7)[[1023, 2047, 3071]].tolist()
    [0.0, 64.0, 128.0]
    """
    half = np.arange(1, QUARTER + 1) ** 4 / (2 * QUARTER**4)
    near = np.arange(1, QUARTER // 2 + 1) ** 4 / (QUARTER // 2) ** 4
    far = np.ldexp(1 + np.tile(np.arange(1, EIGHTHS + 1) / EIGHTHS, OCTAVES), np.repeat(np.arange(OCTAVES), EIGHTHS))
    below = -np.concatenate([[0.0], near, far[:-1]])[::-1] + 0.0
    found = np.concatenate([below, half, 1 - half[:-1][::-1], [1.0], 1 + near, 2 * far[:-1]])
    return np.append(np.ldexp(found, exponent), np.finfo(np.float64).max)


@lru_cache(maxsize=4)
def _keys(exponent: int) -> Keys:
    return keys_of(edges(exponent))


def codes_of(keys: Keys, exponent: int = 0) -> Keys:
    """Return the number of the cell that each score is in, from the scores' keys.

    >>> codes_of(keys_of(np.array([-0.0, 0.3, 0.5, 1.0]))).tolist()
    [1023, 1925, 2047, 3071]
    """
    return np.searchsorted(_keys(exponent), keys).astype(np.uint64)
