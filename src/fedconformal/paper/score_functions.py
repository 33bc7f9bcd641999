"""The score functions that the paper compares, and the sizes of their sets.

The paper does not say which of its scores are randomised. Coverage and size in its table by set size are those of APS
without and of RAPS with randomisation, so both kinds of RAPS are shown; the star marks the randomised one.
"""

from __future__ import annotations

from fedconformal.paper.trials import Trial
from fedconformal.scores import APS, LAC, RAPS, Score
from fedconformal.validation import Booleans

SCORES: dict[str, Score] = {
    "LAC": LAC(),
    "APS": APS(),
    "RAPS": RAPS(),
    "RAPS*": RAPS(randomized=True),
}
PRINTED = ("LAC", "APS", "RAPS")
RANDOMISED = "RAPS* is randomised. The paper does not say whether its RAPS is; its numbers lie closer to RAPS*."


def sets_of(trial: Trial, name: str, alpha: float, kind: str) -> Booleans:
    """Predict the test rows' sets with a score by its name."""
    (threshold,) = trial.thresholds(SCORES[name], [alpha], kind=kind)
    return trial.sets(SCORES[name], threshold)
