"""Least ambiguous classes: one minus the label's probability.

Sadinle, Lei and Wasserman, "Least ambiguous set-valued classifiers with bounded error levels", 2019.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedconformal.scores.base import Score
from fedconformal.validation import Floats, Integers, Probabilities


@dataclass(frozen=True, kw_only=True)
class LAC(Score):
    """One minus the probability of the label: the smallest sets on average.

    >>> LAC().evaluate([[0.25, 0.75], [0.5, 0.5]], [0, 1])
    array([0.75, 0.5 ])
    >>> LAC().predict_set([[0.25, 0.75], [0.5, 0.5]], 0.5)
    array([[False,  True],
           [ True,  True]])
    """

    name = "lac"

    def of_labels(self, probs: Probabilities, labels: Integers) -> Floats:
        """Score one label a row."""
        return np.subtract(1.0, probs[np.arange(len(probs)), labels], dtype=np.float64)

    def of_all(self, probs: Probabilities) -> Floats:
        """Score every label."""
        return np.subtract(1.0, probs, dtype=np.float64)
