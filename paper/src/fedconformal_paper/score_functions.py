"""Score functions compared in the paper, and their sets.

As in the authors' code (src/conformal.py), RAPS is randomised and APS is not, which the paper does not state.
"""

from __future__ import annotations

from dataclasses import replace

from fedconformal._base.arrays import Booleans
from fedconformal.scores import APS, LAC, RAPS, Score
from fedconformal_paper.trials import RandomHalves

SCORES: dict[str, Score] = {
    "LAC": LAC(),
    "APS": APS(),
    "RAPS": RAPS(randomized=True),
}
SCORED = ("cifar100", "fitz17k-disease")
"""The data sets on which the paper compares scores."""
RANDOMISED = "RAPS is randomised, APS is not, as in the authors' code."


def scores_for(dataset: str) -> dict[str, Score]:
    """Return the paper's scores for a data set: on Fitzpatrick17k the rank penalty is a hundredth.

    >>> scores_for("fitz17k-disease")["RAPS"].penalty
    1e-05
    """
    if not dataset.startswith("fitz17k"):
        return SCORES
    return {name: replace(score, penalty=1e-5) if isinstance(score, RAPS) else score for name, score in SCORES.items()}


def sets_of(trial: RandomHalves, score: Score, alpha: float, kind: str) -> Booleans:
    """Return the sets of the test rows with a score."""
    (threshold,) = trial.thresholds(score, [alpha], kind=kind)
    return trial.sets(score, threshold)
