"""Least ambiguous set-valued classifiers (LAC): one minus the probability of the label."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from fedconformal._base.arrays import Booleans, Floats, Integers, Probabilities
from fedconformal.scores.score import Rule, Score, of_own_label


@dataclass(frozen=True, kw_only=True)
class LAC(Score):
    """One minus the probability of the label, the score with the smallest sets on average.

    Examples
    --------
    >>> LAC().evaluate([[0.25, 0.75], [0.5, 0.5]], [0, 1])
    array([0.75, 0.5 ])
    >>> LAC().predict_set([[0.25, 0.75], [0.5, 0.5]], 0.5)
    array([[False,  True],
           [ True,  True]])

    References
    ----------
    Sadinle, Lei and Wasserman, "Least ambiguous set-valued classifiers with bounded error levels", 2019.
    """

    name = "lac"
    top_first = True

    def of_labels(self, probs: Probabilities, labels: Integers) -> Floats:
        return np.subtract(1.0, of_own_label(probs, labels), dtype=np.float64)

    def of_all(self, probs: Probabilities) -> Floats:
        return np.subtract(1.0, probs, dtype=np.float64)

    def largest(self, classes: int) -> float:
        """Return the score of a label with probability zero."""
        return 1.0

    def rule(self, limit: Floats) -> Rule:
        """Return a comparison with the least conforming probability, in the precision of the input."""
        if limit.ndim:
            return super().rule(limit)
        highest = float(limit)

        def fill(probs: Probabilities, sets: Booleans) -> None:
            np.greater_equal(probs, least_probability(highest, probs.dtype), out=sets)

        return fill


@lru_cache(maxsize=256)
def least_probability(limit: float, dtype: np.dtype[Any]) -> np.floating[Any]:
    """Return the least p >= 0 with 1 - p <= limit, exactly as `of_all` computes it, by bisection over bit patterns."""
    bits = np.dtype(f"i{dtype.itemsize}")
    low, high = -1, int(np.array(np.inf, dtype=dtype).view(bits))
    while high - low > 1:
        between = (low + high) // 2
        if 1.0 - float(np.array(between, dtype=bits).view(dtype)) <= limit:
            high = between
        else:
            low = between
    least: np.floating[Any] = np.array([high], dtype=bits).view(dtype)[0]
    return least
