"""Selective classification: the error rate among the rows with a confident prediction.

Rows with a largest probability of at least t are answered. The selective error, wrong answers among answered rows, is a
ratio and not a mean of losses. But it is at most a if and only if the mean of a + answered (wrong - a) is at most a,
and this is a loss in [0, 1]. (A binomial test among the answered rows is not proved if sites differ.)
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
    """Error rate among the answered rows, for calibration with `risk=limit`.

    Scores are probabilities, and the truth is one label per row. The answer is the top label, or none. The loss may
    rise with the threshold, so that calibration requires learn-then-test.

    Parameters
    ----------
    limit
        Largest error rate among the answered rows, fixed before the scores are seen.

    Examples
    --------
    >>> probs = [[0.9, 0.1], [0.6, 0.4], [0.5, 0.5]]
    >>> SelectiveError(limit=0.25).evaluate(probs, [0, 1, 0], thresholds=[0.5, 0.75])
    array([[0.  , 0.  ],
           [1.  , 0.25],
           [0.  , 0.25]])
    >>> SelectiveError(limit=0.25).predict(probs, 0.75)
    array([[ True, False],
           [False, False],
           [False, False]])

    References
    ----------
    Angelopoulos, Bates, Candes, Jordan and Lei, "Learn then test", 2021.
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
        """Return the losses; `truth` marks the rows whose top label is correct."""
        answered = scores.max(axis=1)[:, None] >= grid
        return np.asarray(np.where(answered, np.where(truth, 0.0, 1.0)[:, None], self.limit))

    def predict(self, scores: Any, threshold: float) -> Booleans:
        """Return (n, J) booleans: the top label of each answered row."""
        return self.answer(as_probabilities(scores).astype(np.float32), as_threshold(threshold))

    def answer(self, scores: Scores, threshold: float) -> Booleans:
        top = np.zeros(scores.shape, dtype=np.bool_)
        top[np.arange(len(scores)), scores.argmax(axis=1)] = scores.max(axis=1) >= np.float64(threshold)
        return top
