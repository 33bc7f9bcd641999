"""From a site's rows to its summary: score them as every predictor will, and say so.

Probabilities are rounded to float32 before they are scored, and predictors do the same. So it does not matter whether
a model's output came as float32 or as float64, here or later: a score that depends on that loses coverage at ties.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedconformal._base.arrays import Floats, as_matrix
from fedconformal.scores import Score
from fedconformal.summaries.summary import Summary

PRECISION = "float32"


def score_rows(probs: ArrayLike, labels: ArrayLike, score: Score) -> tuple[Floats, dict[str, Any]]:
    """Return the scores of a site's rows, and what a summary is to say of them."""
    matrix = as_matrix(probs, "probabilities").astype(np.float32)
    scores = score.evaluate(matrix, labels)
    return scores, {"score": score, "classes": matrix.shape[1], "precision": PRECISION}


def summarize_rows(
    probs: ArrayLike, labels: ArrayLike, kind: str = "ranks", *, score: Score, by_class: bool = False, **about: Any
) -> Summary:
    """Score a site's rows and summarise the scores; `about` is what `summarize` takes.

    >>> from fedconformal import LAC
    >>> site = summarize_rows([[0.75, 0.25], [0.5, 0.5]], [0, 1], "exact", score=LAC(), site="clinic-a")
    >>> site.count_at_most(0.25), site.origin.classes, site.origin.precision
    ((1, 1), 2, 'float32')
    """
    from fedconformal.summaries import summarize

    scores, said = score_rows(probs, labels, score)
    held: dict[str, Any] = {"labels": labels, "by_class": True} if by_class else {}
    return summarize(scores, kind, **said, **held, **about)
