"""From a site's rows to its summary: score them as every predictor will, and say so.

Probabilities are rounded to float32 before they are scored, and predictors do the same. So it does not matter whether
a model's output came as float32 or as float64, here or later: a score that depends on that loses coverage at ties.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedconformal._base.arrays import Floats, Integers, Probabilities
from fedconformal._base.classes import as_class_indices
from fedconformal._base.frames import in_order, table_of
from fedconformal.scores import Score
from fedconformal.summaries.origin import Classes, as_classes
from fedconformal.summaries.summary import Summary

PRECISION = "float32"


def read_rows(
    probs: Any, labels: ArrayLike, classes: int | Sequence[str] | None = None
) -> tuple[Probabilities, Integers, Classes]:
    """Return the probabilities as they are scored, the positions of the labels, and the classes.

    Classes have names if they are given, or if the columns have names; then columns and labels are matched by name.

    >>> read_rows([[0.75, 0.25], [0.5, 0.5]], ["no", "yes"], classes=["no", "yes"])[1:]
    (array([0, 1]), ('no', 'yes'))
    """
    found = classes if classes is not None else table_of(probs)[0]
    known = None if found is None else as_classes(found)
    matrix = in_order(probs, known).astype(np.float32)
    known = matrix.shape[1] if known is None else known
    return matrix, as_class_indices(labels, rows=len(matrix), classes=known), known


def score_rows(
    probs: Any, labels: ArrayLike, score: Score, classes: int | Sequence[str] | None = None
) -> tuple[Floats, dict[str, Any]]:
    """Return the scores of a site's rows, and what a summary is to say of them."""
    matrix, truth, known = read_rows(probs, labels, classes)
    return score.evaluate(matrix, truth), {"score": score, "classes": known, "precision": PRECISION}


def summarize_rows(
    probs: Any,
    labels: ArrayLike,
    kind: str = "ranks",
    *,
    score: Score,
    by_class: bool = False,
    classes: int | Sequence[str] | None = None,
    **about: Any,
) -> Summary:
    """Score a site's rows and summarise the scores; `about` is what `summarize` takes.

    >>> from fedconformal import LAC
    >>> site = summarize_rows([[0.75, 0.25], [0.5, 0.5]], [0, 1], "exact", score=LAC(), site="clinic-a")
    >>> site.count_at_most(0.25), site.origin.classes, site.origin.precision
    ((1, 1), 2, 'float32')
    """
    from fedconformal.summaries import summarize

    matrix, truth, known = read_rows(probs, labels, classes)
    scores, said = score_rows(matrix, truth, score)
    held: dict[str, Any] = {"labels": truth, "by_class": True} if by_class else {}
    return summarize(scores, kind, **{**said, "classes": known}, **held, **about)
