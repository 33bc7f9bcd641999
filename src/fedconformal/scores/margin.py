"""Margin score: the largest probability of another label minus that of the label."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedconformal._base.arrays import Floats, Integers, Probabilities
from fedconformal.scores.score import Score, of_own_label


@dataclass(frozen=True, kw_only=True)
class Margin(Score):
    """Largest probability of the other labels minus the label's own; negative for the top label.

    Examples
    --------
    >>> Margin().evaluate_all([[0.25, 0.625, 0.125]])
    array([[ 0.375, -0.375,  0.5  ]])

    References
    ----------
    Lofstrom, Bostrom, Linusson and Johansson, "Bias reduction through conditional conformal prediction", 2015.
    """

    name = "margin"
    top_first = True

    def of_labels(self, probs: Probabilities, labels: Integers) -> Floats:
        return _over(probs, of_own_label(probs, labels)[:, None])[:, 0]

    def of_all(self, probs: Probabilities) -> Floats:
        return _over(probs, probs)

    def largest(self, classes: int) -> float:
        """Return the score of a label with probability zero if another label has probability one."""
        return 1.0


def _over(probs: Probabilities, own: Probabilities) -> Floats:
    """Subtract each entry from the largest other one: the row's largest, or the second largest for the largest."""
    if probs.shape[1] == 1:
        return np.subtract(0.0, own, dtype=np.float64)
    second, first = np.partition(probs, -2, axis=1)[:, -2:].T
    other = np.where(own < first[:, None], first[:, None], second[:, None])
    return np.asarray(np.subtract(other, own, dtype=np.float64))
