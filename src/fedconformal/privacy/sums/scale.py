"""The public edges between which a sums session counts scores, unless it goes on to the last bit.

4,096 cells, each up to and with its upper edge, so a score is never above the edge of its cell. A quarter of them is
for scores of at most 0, one each for those up to 1/2 and up to 1, and one for those above 1. Edges are fourth powers on
both sides of 0 and of 1, where the scores of a sure model crowd: a step is .002 at 1/2, and 2% of the distance at .001
from either end. Further out edges are eighths of octaves, up to 2^64, and the last one is the largest float. Every edge
is an exact binary fraction, so all sites count in the same cells on any machine.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from fedconformal._base.arrays import Floats
from fedconformal._base.float_bits import Keys, keys_of

BITS = 12
QUARTER = 1 << BITS - 2
OCTAVES = 64
EIGHTHS = 8


@cache
def edges() -> Floats:
    """Return the upper edges of all cells.

    >>> edges()[[0, 1023, 2047, 3071]].tolist(), len(edges())
    ([-1.7293822569102705e+19, 0.0, 0.5, 1.0], 4096)
    """
    half = np.arange(1, QUARTER + 1) ** 4 / (2 * QUARTER**4)
    near = np.arange(1, QUARTER // 2 + 1) ** 4 / (QUARTER // 2) ** 4
    far = np.ldexp(1 + np.tile(np.arange(1, EIGHTHS + 1) / EIGHTHS, OCTAVES), np.repeat(np.arange(OCTAVES), EIGHTHS))
    below = -np.concatenate([[0.0], near, far[:-1]])[::-1] + 0.0
    above = np.concatenate([1 + near, 2 * far[:-1], [np.finfo(np.float64).max]])
    return np.concatenate([below, half, 1 - half[:-1][::-1], [1.0], above])


@cache
def _keys() -> Keys:
    return keys_of(edges())


def codes_of(keys: Keys) -> Keys:
    """Return the number of the cell that each score is in, from the scores' keys.

    >>> codes_of(keys_of(np.array([-0.0, 0.3, 0.5, 1.0]))).tolist()
    [1023, 1925, 2047, 3071]
    """
    return np.searchsorted(_keys(), keys).astype(np.uint64)
