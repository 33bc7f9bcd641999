"""Floats as whole numbers in the same order, so that a threshold can be found digit by digit.

The bits of an IEEE-754 double, read as a whole number, rise with its size; turning the sign around for positive
numbers and everything for negative ones makes them rise from the lowest to the highest.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedconformal._base.arrays import Floats

SIGN = np.uint64(1 << 63)

Keys = NDArray[np.uint64]


def keys_of(scores: Floats) -> Keys:
    """Return keys in the order of the scores; -0.0 is 0.0.

    >>> keys_of(np.array([-1.0, 0.0, 1.0])).tolist() == sorted(keys_of(np.array([1.0, -1.0, -0.0])).tolist())
    True
    """
    bits = (scores + 0.0).view(np.uint64)
    return np.where(bits & SIGN, ~bits, bits | SIGN)


def scores_of(keys: Keys) -> Floats:
    """Return the scores of keys."""
    found: Floats = np.where(keys & SIGN, keys ^ SIGN, ~keys).view(np.float64) + 0.0
    return found


def score_of(key: int) -> float:
    """Return the score of a key."""
    return float(scores_of(np.array([key], dtype=np.uint64))[0])
