"""The robust guarantees against their definitions, and what they say of themselves."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedconformal as fc
from fedconformal.guarantees.planning import feasible, shortfall
from tests.contracts.tools import alphas, checks, maybe_infeasible, refused

TENTH = Fraction(1, 10)


@st.composite
def counted(draw: st.DrawFn) -> tuple[list[int], list[int], int]:
    """Draw sizes, counts and a number of liars."""
    sizes = draw(st.lists(st.integers(1, 30), min_size=1, max_size=6))
    counts = [draw(st.integers(0, n)) for n in sizes]
    return counts, sizes, draw(st.integers(0, len(sizes) - 1))


@given(counted())
@checks(300)
def test_it_is_the_least_share_over_all_sets_of_honest_sites(case: tuple[list[int], list[int], int]) -> None:
    counts, sizes, liars = case
    shares = [
        Fraction(sum(counts[k] for k in honest), sum(sizes[k] + 1 for k in honest))
        for honest in combinations(range(len(sizes)), len(sizes) - liars)
    ]
    assert fc.Robust(liars=liars).promised(counts, sizes) == min(shares)


@given(counted(), alphas)
@checks(300)
def test_it_is_the_rule_of_the_smallest_differences(case: tuple[list[int], list[int], int], alpha: Fraction) -> None:
    counts, sizes, liars = case
    differences = sorted(m - (1 - alpha) * (n + 1) for m, n in zip(counts, sizes, strict=True))
    enough = sum(differences[: len(sizes) - liars]) >= 0
    assert (fc.Robust(liars=liars).promised(counts, sizes) >= 1 - alpha) == enough


def test_without_liars_it_is_the_mixture() -> None:
    counts, sizes = [9, 4, 7], [10, 5, 10]
    assert fc.Robust(liars=0).promised(counts, sizes) == fc.Mixture().promised(counts, sizes)


def test_whole_numbers_beyond_64_bits_are_exact() -> None:
    sizes = [2**32, 2**32 - 5, 7, 2**31]
    counts = [2**32 - 2**20, 2**32 - 2**19, 6, 2**31 - 1]
    found = fc.Robust(liars=1).promised(counts, sizes)
    sets = combinations(range(4), 3)
    assert found == min(Fraction(sum(counts[k] for k in s), sum(sizes[k] + 1 for k in s)) for s in sets)


def test_a_site_that_claims_too_much_weighs_as_one_that_does_not() -> None:
    robust = fc.Robust(liars=1, most_scores=100)
    honest = [95] * 29
    claimed = robust.promised([*honest, 0], [100] * 29 + [2**32])
    assert claimed == robust.promised([*honest, 0], [100] * 30) == fc.Robust(liars=1).promised([*honest, 0], [100] * 30)
    assert fc.Robust(liars=1).promised([*honest, 0], [100] * 29 + [2**32]) < Fraction(1, 10**5)
    full = robust.promised([100] * 29 + [2**32], [100] * 29 + [2**32])
    assert full == Fraction(100, 101)


@pytest.mark.parametrize(
    ("alpha", "sites", "expected"), [("0.1", 30, 2), ("0.2", 30, 4), ("0.5", 30, 9), ("0.1", 10, 0), ("0.1", 11, 1)]
)
def test_it_withstands_as_many_as_the_formula_says(alpha: str, sites: int, expected: int) -> None:
    sizes = [10**6] * sites
    a = Fraction(alpha)
    most = fc.Robust(liars=1).withstands(a, sizes)
    bound = sites * a / (1 + a)
    assert most in (int(bound), int(bound) - (bound == int(bound)))  # with finite sizes equality is just not enough
    assert abs(most - expected) <= (bound == int(bound))
    for liars in (most, most + 1):
        huge = fc.Robust(liars=liars).promised([0] * liars + [10**6] * (sites - liars), sizes)
        assert (huge >= 1 - a) == (liars <= most)


@given(st.lists(st.integers(1, 40), min_size=2, max_size=6), alphas)
@checks(200)
def test_no_choice_of_liars_breaks_what_it_withstands(sizes: list[int], alpha: Fraction) -> None:
    most = fc.Robust(liars=1).withstands(alpha, sizes)
    for liars in range(1, len(sizes)):
        worst = min(
            fc.Robust(liars=liars).promised([0 if k in who else n for k, n in enumerate(sizes)], sizes)
            for who in combinations(range(len(sizes)), liars)
        )
        assert (worst >= 1 - alpha) == (liars <= most)


def test_the_shortfall_says_how_many_liars_there_may_be() -> None:
    words = shortfall(fc.Robust(liars=1), TENTH, [5] * 30, [])
    assert "more than 0 of these 30 sites" in words
    assert "+inf" in words
    assert "most_scores is 8, needed: 9 or more" in shortfall(fc.Robust(liars=1, most_scores=8), TENTH, [99] * 9, [])
    assert not feasible(fc.Robust(liars=1, most_scores=8), TENTH, [99] * 9)
    assert feasible(fc.Robust(liars=1, most_scores=9), TENTH, [99] * 9)


@pytest.mark.parametrize("liars", [-1, 1.0, True, "1", None])
def test_bad_numbers_of_liars_are_refused(liars: object) -> None:
    with refused("liars is", "whole number"):
        fc.Robust(liars=liars)  # type: ignore[arg-type]
    with refused("liars is", "whole number"):
        fc.QuantileOfQuantiles(liars=liars)  # type: ignore[arg-type]


def test_somebody_must_be_honest() -> None:
    sites = [fc.summarize([0.1, 0.2]) for _ in range(3)]
    for guarantee in (fc.Robust(liars=3), fc.QuantileOfQuantiles(liars=3, least_scores=2)):
        with refused("3 liars among 3 sites leave nobody honest"):
            fc.calibrate(sites, guarantee=guarantee)
    with refused("most_scores is 0"):
        fc.Robust(liars=1, most_scores=0)
    with refused("a site has more than most_scores=9, which does not go by class"):
        fc.Robust(liars=1, most_scores=9).in_class([1, 10])


def test_more_liars_cost_more() -> None:
    rng = np.random.default_rng(2)
    sites = [fc.summarize(rng.random(60), "exact") for _ in range(12)]
    with maybe_infeasible():
        found = [fc.calibrate(sites, guarantee=fc.Robust(liars=f)).threshold for f in range(6)]
    assert found == sorted(found)
    assert found[0] < found[-1]
