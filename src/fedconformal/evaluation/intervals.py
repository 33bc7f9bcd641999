"""Exact binomial intervals (Clopper and Pearson, 1934)."""

from __future__ import annotations

import numpy as np

from fedconformal.validation import Floats, Integers


def clopper_pearson(hits: Integers, trials: Integers, *, confidence: float = 0.95) -> tuple[Floats, Floats]:
    """Return the interval of success rates that these counts do not rule out.

    >>> low, high = clopper_pearson(np.array([9, 10]), np.array([10, 10]))
    >>> low.round(4), high.round(4)
    (array([0.555 , 0.6915]), array([0.9975, 1.    ]))
    """
    from scipy.special import betaincinv

    tail = (1 - confidence) / 2
    misses = trials - hits
    low = np.where(hits > 0, betaincinv(np.maximum(hits, 1), misses + 1, tail), 0.0)
    high = np.where(misses > 0, betaincinv(hits + 1, np.maximum(misses, 1), 1 - tail), 1.0)
    return low, high
