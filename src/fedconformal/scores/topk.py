"""Top-k score: the rank of a label, with sets of nearly constant size; base class of scores by rank."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedconformal._base.arrays import Floats, Integers, Probabilities
from fedconformal.scores.aps import APS, count_true
from fedconformal.scores.score import Rule, Score, of_own_label


@dataclass(frozen=True, kw_only=True)
class TopK(APS):
    """Rank of the label by probability, from 1, ties by class index.

    Parameters
    ----------
    randomized, random_state
        As in `APS`: the randomised score subtracts U from the rank.

    Examples
    --------
    >>> TopK().evaluate_all([[0.25, 0.5, 0.25]])
    array([[2., 1., 3.]])

    References
    ----------
    Angelopoulos, Bates, Jordan and Malik, "Uncertainty sets for image classifiers using conformal prediction", 2021.
    """

    name = "topk"

    def of_labels(self, probs: Probabilities, labels: Integers) -> Floats:
        """Score one label per row: one plus the more probable labels and the ties with a smaller class index."""
        own = of_own_label(probs, labels)[:, None]
        ahead = (probs > own) | ((probs == own) & (np.arange(probs.shape[1]) < labels[:, None]))
        return self.by_rank(count_true(ahead) + np.float64(1), probs.max(axis=1), self.draws(probs))

    def of_all(self, probs: Probabilities) -> Floats:
        order = np.argsort(-probs, axis=1, kind="stable")
        ranks = np.empty(probs.shape)
        np.put_along_axis(ranks, order, np.arange(1.0, probs.shape[1] + 1)[None], axis=1)
        return self.by_rank(ranks, probs.max(axis=1)[:, None], self.draws(probs)[:, None])

    def rule(self, limit: Floats) -> Rule:
        """Score every label and compare: the rule of APS is for sums."""
        return Score.rule(self, limit)

    def largest(self, classes: int) -> float:
        """Return the score of the last label if the top label has probability one."""
        return float(self.by_rank(np.array([float(classes)]), np.ones(1), np.zeros(1))[0])

    def by_rank(self, ranks: Floats, top: Probabilities, draws: Floats) -> Floats:
        """Return the score of a rank in a row with largest probability `top`; `draws` are zero if not randomised."""
        return ranks - draws
