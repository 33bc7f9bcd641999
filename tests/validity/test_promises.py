"""Every guarantee keeps its promise, at both ends of its band.

On every federation the simulated coverage is within the promised band and equal to its integral. A rank that
is off by one moves it by about 2%, about twice what the check lets pass.
"""

from __future__ import annotations

import pytest

from tests.validity.promises import INTEGRATION_ERROR, Promise, check_kept
from tests.validity.settings import ALL, THEOREM_1, WEIGHTS

CASES = [
    pytest.param(promise, id=f"{group}: {name}") for group, found in ALL.items() for name, promise in found.items()
]


@pytest.mark.parametrize("promise", CASES)
def test_simulated_coverage_is_as_promised(promise: Promise) -> None:
    check_kept(promise, seed=1)


@pytest.mark.parametrize("promise", CASES)
def test_expected_coverage_is_within_the_band(promise: Promise) -> None:
    for expected in promise.expected():
        assert expected >= promise.at_least - INTEGRATION_ERROR
        assert expected <= promise.at_most + INTEGRATION_ERROR or not promise.distinct


def test_small_rank_summaries_lose_nothing() -> None:
    check_kept(THEOREM_1["different sites"], seed=2, kind="ranks")


def test_both_ends_of_the_band_are_reached() -> None:
    lower, upper = THEOREM_1["one big easy site"], THEOREM_1["one big hard site"]
    assert lower.expected() == pytest.approx([lower.at_least], abs=INTEGRATION_ERROR)
    assert upper.expected() == pytest.approx([upper.at_most], abs=INTEGRATION_ERROR)
    lower = WEIGHTS["uniform, lower end"]
    assert lower.expected() == pytest.approx([lower.at_least], abs=INTEGRATION_ERROR)
