"""Certified rank summaries never let the threshold fall below the target rank, whatever becomes of them.

The true counts reach the target in every repetition: plain, tilted, sent, merged and pooled.
"""

from __future__ import annotations

import pytest

import fedconformal as fc
from tests.validity import certified
from tests.validity.certified import ALPHA, PROMISES, Summarise, check_certified
from tests.validity.promises import Promise
from tests.validity.simulation import draws

APART = [certified.plain, certified.tilted, certified.tilted_elsewhere, certified.sent, certified.merged]
TOGETHER = [certified.pooled, certified.pooled_twice]


@pytest.mark.parametrize("promise", PROMISES.values(), ids=PROMISES)
@pytest.mark.parametrize("summarise", APART)
def test_the_target_is_always_reached(promise: Promise, summarise: Summarise) -> None:
    check_certified(promise, summarise, seed=13)


@pytest.mark.parametrize("name", ["mixture", "mixture, ties", "mixture of one", "alike", "fcp"])
@pytest.mark.parametrize("summarise", TOGETHER)
def test_pooled_summaries_reach_it_too(name: str, summarise: Summarise) -> None:
    check_certified(PROMISES[name], summarise, seed=14)


def test_these_summaries_really_leave_scores_out() -> None:
    (scores,) = draws(certified.DIFFERENT, seed=16, repetitions=1)
    for summarise in [*APART, *TOGETHER]:
        assert all(summary.gap > 0 for summary in summarise(scores))
        assert sum(len(summary.points) for summary in summarise(scores)) < sum(map(len, scores))


def test_a_tilted_summary_costs_little() -> None:
    # Crowding the ranks around 1 - alpha keeps the counts close to the target of 630.9.
    (scores,) = draws(certified.ONE, seed=17, repetitions=1)
    result = fc.calibrate(certified.tilted(scores), alpha=ALPHA, exact=True)
    assert 631 <= (scores[0] <= result.threshold).sum() <= 634
