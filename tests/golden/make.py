"""The golden predictor: every later release must read it and predict the same."""

from __future__ import annotations

from pathlib import Path

import fedconformal as fc

HERE = Path(__file__).parent

PROBS = [[0.75, 0.125, 0.125], [0.25, 0.5, 0.25], [0.125, 0.25, 0.625], [0.5, 0.5, 0.0], [1.0, 0.0, 0.0]]
LABELS = [0, 1, 1, 0, 0]


def sites() -> list[fc.Summary]:
    """Summarise the rows of both sites."""
    score = fc.RAPS(penalty=0.125)
    scores = score.evaluate(PROBS * 4, LABELS * 4)
    return [
        fc.Summary.of_scores(
            scores[start : start + 10], alpha=0.2, score=score, site=site, model="m-1", temperature=1.5
        )
        for start, site in ((0, "clinic-a"), (10, "Köln"))
    ]


def predictor() -> fc.Predictor:
    """Make what predictor.json holds, but for the versions it was made with."""
    return fc.calibrate(sites(), alpha=0.2, exact=True)
