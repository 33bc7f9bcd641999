"""Answer only the rows that the model is sure of: how often is such an answer wrong?

Answered are the rows whose largest probability is at least t. The selective error is a ratio, wrong answers among
answered rows, so no mean of losses. But it is at most a if and only if the mean of a + answered (wrong - a) is at most
a, and that is a loss in [0, 1]: a binomial test among the answered rows is unproved where sites differ. It need not
fall with the threshold: Angelopoulos, Bates, Candes, Jordan and Lei, "Learn then test", 2021.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from fedconformal._base.arrays import Booleans, Floats, as_alpha, as_labels, as_probabilities
from fedconformal._base.names import abbreviate
from fedconformal.errors import InputError
from fedconformal.losses.loss import Loss, Scores, as_grid, as_threshold


@dataclass(frozen=True, kw_only=True)
class SelectiveError(Loss):
    """Wrong among the answered rows, to be at most `limit`: the risk to calibrate for.

    Scores are probabilities, the truth is one label a row. The answer is the top label, or none.

    Attributes:
        limit: how often an answer may be wrong; fixed before the scores are seen.

    >>> probs = [[0.9, 0.1], [0.6, 0.4], [0.5, 0.5]]
    >>> SelectiveError(limit=0.25).evaluate(probs, [0, 1, 0], thresholds=[0.5, 0.75])
    array([[0.  , 0.  ],
           [1.  , 0.25],
           [0.  , 0.25]])
    >>> SelectiveError(limit=0.25).predict(probs, 0.75)
    array([[ True, False],
           [False, False],
           [False, False]])
    """

    name = "selective-error"
    monotone = False
    means = "The share of answers that are wrong, among the rows that are answered,"
    safe = "no row is answered, so no answer is wrong"

    limit: float

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "limit", float(as_alpha(self.limit)))
        except InputError:
            raise InputError(f"limit is {abbreviate(self.limit)}, expected a number between 0 and 1") from None

    @property
    def only_limit(self) -> float:
        return self.limit

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        return (cls(limit=0.1),)

    def evaluate(self, scores: Any, truth: Any, *, thresholds: ArrayLike | None = None) -> Floats:
        """Return (n, G) losses, for (n, J) probabilities and (n,) labels."""
        probs, grid = as_probabilities(scores).astype(np.float32), as_grid(thresholds)
        labels = as_labels(truth, rows=len(probs), classes=probs.shape[1])
        return self.of_rows(probs, probs.argmax(axis=1) == labels, grid)

    def of_rows(self, scores: Scores, truth: Booleans, grid: Floats) -> Floats:
        """Do it where `truth` says of each row whether its top label is right."""
        answered = scores.max(axis=1)[:, None] >= grid
        losses: Floats = np.where(answered, np.where(truth, 0.0, 1.0)[:, None], self.limit)
        return losses

    def predict(self, scores: Any, threshold: float) -> Booleans:
        """Return (n, J) booleans: the top label of the rows that are answered."""
        return self.answer(as_probabilities(scores).astype(np.float32), as_threshold(threshold))

    def answer(self, scores: Scores, threshold: float) -> Booleans:
        if scores.ndim != 2:
            raise InputError(f"has shape {scores.shape}, expected (rows, classes)", where="probabilities")
        top = np.zeros(scores.shape, dtype=np.bool_)
        top[np.arange(len(scores)), scores.argmax(axis=1)] = scores.max(axis=1) >= np.float64(threshold)
        return top
