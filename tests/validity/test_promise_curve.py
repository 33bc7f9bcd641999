"""With many scores the promise curve keeps 1,024 points; what it says of other alphas stays true.

At any alpha the scores at or below the curve's threshold reach the target rank; at the usual alphas they
reach it exactly.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

import fedconformal as fc
from fedconformal.calibration.search import PromiseCurve
from tests.contracts.tools import one_curve
from tests.validity.promises import exact, rank_of
from tests.validity.simulation import Site, draws, sizes

SITES = (Site(stats.norm(), 4000), Site(stats.cauchy(), 1500), Site(stats.beta(2, 8), 300))
N = sum(sizes(SITES))


@pytest.mark.parametrize("certified", [0.1, 0.0123])
def test_the_target_rank_is_reached_at_any_alpha(certified: float) -> None:
    (scores,) = draws(SITES, seed=21, repetitions=1)
    curve = one_curve(
        fc.calibrate([fc.Summary.of_scores(s, kind="exact") for s in scores], alpha=certified, exact=True)
    )
    together = np.sort(np.concatenate(scores))
    assert len(curve.thresholds) <= 1024 < len(together)
    for alpha in [*np.random.default_rng(22).random(300).round(6).tolist(), certified, 0.01, 0.05, 0.2, 0.5]:
        rank = rank_of(alpha, N) + 1
        reached = np.count_nonzero(together <= curve.threshold(exact(alpha))) if rank <= N else N
        assert rank <= reached + max(0, rank - N)
        if alpha in (certified, 0.01, 0.05, 0.2, 0.5):
            assert reached == rank


def test_a_coverage_that_is_a_hair_short_is_not_enough() -> None:
    """Promises are rounded down, so two thirds are not reached by 0.666666666666666."""
    curve = PromiseCurve(np.array([0.5, 0.7]), np.array([666_666_666_666_666, 666_666_666_666_667]))
    assert curve.threshold(Fraction(1, 3)) == 0.7
    assert PromiseCurve(curve.thresholds[:1], curve.promised[:1]).threshold(Fraction(1, 3)) == math.inf
