"""Every guarantee keeps its promise, at both ends of its band.

On every federation the simulated coverage is within the promised band and equal to its integral. A rank that
is off by one moves it by about 2%, about twice what the check lets pass.
"""

from __future__ import annotations

import pytest

from tests.validity.promises import INTEGRATION_ERROR, Promise, check_kept
from tests.validity.settings import ALL, MIXTURE, THEOREM_1

CASES = [
    pytest.param(promise, id=f"{group}: {name}") for group, found in ALL.items() for name, promise in found.items()
]
SIMULATED = [
    pytest.param(promise, id=f"{group}: {name}", marks=[pytest.mark.slow] if place > 1 else [])
    for group, found in ALL.items()
    for place, (name, promise) in enumerate(found.items())
]
"""Two of each group in every run, all of them in `make prove`."""


@pytest.mark.parametrize("promise", SIMULATED)
def test_simulated_coverage_is_as_promised(promise: Promise) -> None:
    check_kept(promise, seed=1)


@pytest.mark.parametrize("promise", CASES)
def test_expected_coverage_is_within_the_band(promise: Promise) -> None:
    for expected in promise.expected():
        assert expected >= promise.at_least - INTEGRATION_ERROR
        assert expected <= promise.at_most + INTEGRATION_ERROR or not promise.distinct


def test_small_rank_summaries_lose_nothing() -> None:
    check_kept(MIXTURE["different sites"], seed=2, kind="ranks")
    check_kept(THEOREM_1["different sites"], seed=2, kind="ranks")


def test_both_ends_of_the_band_are_reached() -> None:
    lower, upper = THEOREM_1["one big easy site"], THEOREM_1["one big hard site"]
    assert lower.expected() == pytest.approx([lower.at_least], abs=INTEGRATION_ERROR)
    assert upper.expected() == pytest.approx([upper.at_most], abs=INTEGRATION_ERROR)


def test_independent_sites_come_close_to_both_ends() -> None:
    """One rank is worth 1/N; hostile sites reach the lower end (test_hostile_sites.py)."""
    for name in ("alike sites", "one big easy site"):
        promise = MIXTURE[name]
        (expected,) = promise.expected()
        assert promise.at_least <= expected < promise.at_least + 0.4 * promise.one_rank
    promise = MIXTURE["fifty sites of one row"]
    (expected,) = promise.expected()
    assert promise.at_most - 0.1 * promise.one_rank < expected <= promise.at_most
