"""The rank of a label among the probabilities: sets of nearly one size.

Angelopoulos, Bates, Jordan and Malik, "Uncertainty sets for image classifiers using conformal prediction", 2021,
compare with it as "top-k". A score that looks at the rank and the largest probability alone belongs here too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedconformal._base.arrays import Floats, Integers, Probabilities
from fedconformal.scores.aps import APS, count_true
from fedconformal.scores.score import Rule, Score, of_own_label


@dataclass(frozen=True, kw_only=True)
class TopK(APS):
    """The rank of the label, 1 for the most probable one, ties by class index.

    With `randomized=True` a share U of the last step is taken off, one U a row, as for `APS`.

    >>> TopK().evaluate_all([[0.25, 0.5, 0.25]])
    array([[2., 1., 3.]])
    """

    name = "topk"

    def of_labels(self, probs: Probabilities, labels: Integers) -> Floats:
        """Score one label a row: everything more probable is ahead of it, and so is an equal one before it."""
        own = of_own_label(probs, labels)[:, None]
        ahead = (probs > own) | ((probs == own) & (np.arange(probs.shape[1]) < labels[:, None]))
        return self.by_rank(count_true(ahead) + np.float64(1), probs.max(axis=1), self.draws(probs))

    def of_all(self, probs: Probabilities) -> Floats:
        order = np.argsort(-probs, axis=1, kind="stable")
        ranks = np.empty(probs.shape)
        np.put_along_axis(ranks, order, np.arange(1.0, probs.shape[1] + 1)[None], axis=1)
        return self.by_rank(ranks, probs.max(axis=1)[:, None], self.draws(probs)[:, None])

    def rule(self, limit: Floats) -> Rule:
        """Score every label and compare: the sums of APS have no part in it."""
        return Score.rule(self, limit)

    def largest(self, classes: int) -> float:
        """Return the score of the last label of a row that is sure of its first."""
        return float(self.by_rank(np.array([float(classes)]), np.ones(1), np.zeros(1))[0])

    def by_rank(self, ranks: Floats, top: Probabilities, draws: Floats) -> Floats:
        """Return the score of a rank in a row whose largest probability is `top`; `draws` are zero if not random."""
        return ranks - draws
