"""The checks of this directory go red when the rank is one too low, and when a lower count is one too high.

The mistake is planted in the library; the very same checking functions must then fail, and say which bound
was missed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import fedconformal as fc
from fedconformal.summaries.ranks import RankSummary
from tests.validity import test_certified_ranks as certified
from tests.validity.integration import WeightedCount
from tests.validity.lies import MISSED, count_more
from tests.validity.promises import Promise, check_kept
from tests.validity.settings import ALL
from tests.validity.simulation import calibrator
from tests.validity.test_end_to_end import SCORES, check_p_values, check_sets_cover
from tests.validity.test_shared_patients import check_finite_population, check_same_patients_everywhere

CASES = [
    pytest.param(promise, id=f"{group}: {name}", marks=[pytest.mark.slow] if place else [])
    for group, found in ALL.items()
    for place, (name, promise) in enumerate(found.items())
]
"""The first of each group in every run, all of them in `make prove`."""


def lightest_site(promise: Promise) -> list[int] | slice:
    """Return the site whose scores are worth least; where each site has a rank of its own, all of them."""
    if not isinstance(promise.rule, WeightedCount):
        return slice(None)
    weights = promise.rule.weights
    return [weights.index(min(weight for weight in weights if weight))]


@pytest.mark.parametrize("promise", CASES)
def test_a_rank_too_low_is_seen(monkeypatch: pytest.MonkeyPatch, promise: Promise) -> None:
    count_more(monkeypatch, type(promise.guarantee), lightest_site(promise), capped=False)
    with pytest.raises(AssertionError, match=MISSED):
        check_kept(promise, seed=1)


def test_a_rank_too_low_is_seen_with_shared_patients(monkeypatch: pytest.MonkeyPatch) -> None:
    count_more(monkeypatch, fc.FCP, [0], capped=False)
    with pytest.raises(AssertionError, match=MISSED):
        check_same_patients_everywhere(calibrator(fc.FCP(), 0.1))
    with pytest.raises(AssertionError, match=MISSED):
        check_finite_population(calibrator(fc.FCP(), 0.3))


@pytest.mark.parametrize("score", [SCORES[0], SCORES[-1]], ids=str)
def test_a_rank_too_low_is_seen_end_to_end(monkeypatch: pytest.MonkeyPatch, score: fc.Score) -> None:
    count_more(monkeypatch, fc.Mixture, [0], capped=False)
    with pytest.raises(AssertionError, match=MISSED):
        check_sets_cover(score, "float32")


def test_a_rank_too_low_is_seen_in_p_values(monkeypatch: pytest.MonkeyPatch) -> None:
    count_more(monkeypatch, fc.Mixture, [0], capped=False)
    with pytest.raises(AssertionError, match=MISSED):
        check_p_values(fc.LAC())


# Where several sites send coarse summaries, the scores that one leaves out can hide a count too many of
# another. A single site hides nothing, and summaries that keep most scores hide little.
@pytest.mark.parametrize(
    ("name", "summarise"),
    [
        *[(name, certified.merged) for name, promise in certified.PROMISES.items() if promise.distinct],
        *[(name, certified.tilted) for name in ("mixture of one", "uniform", "one site", "every site")],
        *[(name, certified.plain) for name in ("mixture of one", "uniform", "one site", "every site")],
        ("mixture of one", certified.pooled),
    ],
)
def test_a_lower_count_too_high_is_seen(
    monkeypatch: pytest.MonkeyPatch, name: str, summarise: certified.Summarise
) -> None:
    bounds = RankSummary.bounds

    def one_more(self: RankSummary, q: NDArray[np.float64]) -> Any:
        lower, upper = bounds(self, q)
        return np.minimum(lower + 1, self.n), upper

    monkeypatch.setattr(RankSummary, "bounds", one_more)
    monkeypatch.setattr(RankSummary, "lower_counts", fc.Summary.lower_counts)  # made from the bounds
    with pytest.raises(AssertionError, match="are not enough"):
        certified.check_certified(certified.PROMISES[name], summarise, seed=13)
