"""P-values of the true label are super-uniform: P(p <= a) <= a for every a.

They come from strict counts and stand-ins for the test row; one stand-in too few and small p-values come up
too often.
"""

from __future__ import annotations

import numpy as np
import pytest

import fedconformal as fc
from tests.validity.classification import coverage

LEVELS = np.array([0.04, 0.2, 0.36, 0.4, 0.44, 0.48, 0.6, 0.9])


def check_p_values(score: fc.Score) -> None:
    """Compare the chance of a p-value at or below each level with the level."""
    found = coverage(score, lambda p, probs: p.predict_p(probs)[:, :, None] <= LEVELS, seed=20)
    for level, (chance, tolerance) in zip(LEVELS, found, strict=True):
        assert chance <= level + tolerance, f"p <= {level} has probability {chance:.4f}"


@pytest.mark.parametrize("score", [fc.LAC(), fc.RAPS(randomized=True)], ids=str)
def test_p_values_are_super_uniform(score: fc.Score) -> None:
    check_p_values(score)
