"""From a site's predictions and true numbers to its summary.

Numbers are not rounded before they are scored, as probabilities are: a difference that matters may be in the last
digits of large numbers. The summary says whether the predictions came in float32, so that a predictor can round alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import ArrayLike

from fedconformal._base.arrays import Floats, as_array
from fedconformal.scores import RegressionScore
from fedconformal.summaries.summary import Summary


def score_predictions(predictions: ArrayLike, y: ArrayLike, score: RegressionScore) -> tuple[Floats, dict[str, Any]]:
    """Return the scores of a site's rows, and what a summary is to say of them.

    >>> from fedconformal import Residual
    >>> score_predictions([1.0, 2.0], [1.5, 2.5], Residual())
    (array([0.5, 0.5]), {'score': Residual(), 'precision': None})
    """
    precision = "float32" if as_array(predictions, "predictions").dtype == "float32" else None
    return score.evaluate(predictions, y), {"score": score, "precision": precision}


def summarize_predictions(
    predictions: ArrayLike,
    y: ArrayLike,
    kind: str = "ranks",
    *,
    score: RegressionScore,
    alpha: Any = None,
    site: str | None = None,
    parameters: Mapping[str, Any] | None = None,
    **about: Any,
) -> Summary:
    """Score a site's rows and summarise the scores; `about` is what else `summarize` takes of their origin.

    >>> from fedconformal import CQR
    >>> site = summarize_predictions([[1.0, 2.0], [1.0, 3.0]], [2.5, 2.5], score=CQR(), site="clinic-a")
    >>> site, site.count_at_most(0.0)
    (<ranks summary of 2 scores from site 'clinic-a'>, (1, 1))
    """
    scores, found = score_predictions(predictions, y, score)
    return Summary.of_scores(scores, kind=kind, alpha=alpha, site=site, parameters=parameters, **found, **about)
