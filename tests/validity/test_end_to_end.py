"""From probabilities to prediction sets: every score, at the certified alpha and at others, keeps the promise.

A score that differs in one bit between calibration and prediction, or a promise curve that rounds up, would
lose coverage here.
"""

from __future__ import annotations

import pytest

import fedconformal as fc
from tests.validity.classification import ALPHA, SIZES, coverage
from tests.validity.promises import rank_of

ALPHAS = [ALPHA, 0.44, 0.5, 0.6]
TOTAL = sum(SIZES)

SCORES = [
    fc.LAC(),
    fc.APS(),
    fc.APS(randomized=True),
    fc.RAPS(),
    fc.RAPS(randomized=True, random_state=1, penalty=0.1),
]


def check_sets_cover(score: fc.Score, dtype: str) -> None:
    """Compare the coverage of the sets at several alphas with the band of the mixture."""
    found = coverage(score, lambda p, probs: p.predict_set(probs, alpha=ALPHAS, allow_empty=True), seed=18, dtype=dtype)
    for alpha, (average, tolerance) in zip(ALPHAS, found, strict=True):
        least = rank_of(alpha, TOTAL) / TOTAL
        assert tolerance < 0.8 / TOTAL
        assert average >= least - tolerance, f"{average:.4f} is below {least:.4f} at alpha={alpha}"
        # Of scores without a stated precision, sets hold what float32 gives and what float64 gives: two draws of U.
        twice = dtype == "float64" and getattr(score, "randomized", False)
        assert average <= least + (3 if twice else 1) / TOTAL + tolerance


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("score", SCORES, ids=str)
def test_sets_cover(score: fc.Score, dtype: str) -> None:
    check_sets_cover(score, dtype)


def test_forcing_the_top_label_in_keeps_the_lower_end() -> None:
    ((average, tolerance),) = coverage(fc.RAPS(), lambda p, probs: p.predict_set(probs)[:, :, None], seed=19)
    assert average >= 1 - ALPHA - tolerance
