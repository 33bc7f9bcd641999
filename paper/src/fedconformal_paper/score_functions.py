"""The score functions that the paper compares, and the sizes of their sets.

The paper does not say which of its scores are randomised. Coverage and size in its table by set size are those of APS
without and of RAPS with randomisation, so both kinds of RAPS are shown; the star marks the randomised one.
"""

from __future__ import annotations

from dataclasses import replace

from fedconformal._base.arrays import Booleans
from fedconformal.scores import APS, LAC, RAPS, Score
from fedconformal_paper.trials import RandomHalves

SCORES: dict[str, Score] = {
    "LAC": LAC(),
    "APS": APS(),
    "RAPS": RAPS(),
    "RAPS*": RAPS(randomized=True),
}
SCORED = ("cifar100", "fitz17k-disease")
"""The data sets on which the paper compares scores."""
PRINTED = ("LAC", "APS", "RAPS")
RANDOMISED = "RAPS* is randomised. The paper does not say whether its RAPS is; its numbers are closer to RAPS*."


def scores_for(dataset: str) -> dict[str, Score]:
    """Return the scores as the paper uses them on a data set: on Fitzpatrick17k a rank costs a hundredth.

    >>> scores_for("fitz17k-disease")["RAPS"].penalty
    1e-05
    """
    if not dataset.startswith("fitz17k"):
        return SCORES
    return {name: replace(score, penalty=1e-5) if isinstance(score, RAPS) else score for name, score in SCORES.items()}


def sets_of(trial: RandomHalves, score: Score, alpha: float, kind: str) -> Booleans:
    """Predict the test rows' sets with a score."""
    (threshold,) = trial.thresholds(score, [alpha], kind=kind)
    return trial.sets(score, threshold)
