"""The robust guarantees against their definitions, and what they say of themselves."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedconformal as fc
from fedconformal.certificates.text import shortfall
from tests.contracts.tools import checks, refused

TENTH = Fraction(1, 10)


@st.composite
def counted(draw: st.DrawFn) -> tuple[list[int], list[int], int]:
    """Draw sizes, also zero as of a class that a site lacks, counts and a number of liars."""
    sizes = draw(st.lists(st.integers(0, 30), min_size=1, max_size=6))
    counts = [draw(st.integers(0, n)) for n in sizes]
    return counts, sizes, draw(st.integers(0, len(sizes) - 1))


@given(counted(), st.sampled_from([1, 1, 2, 5, 9]), st.integers(1, 12))
@checks(300)
def test_it_is_the_least_share_over_all_sets_of_honest_sites(
    case: tuple[list[int], list[int], int], unit: int, most_scores: int
) -> None:
    """Counts of which `unit` make a row; a site that has more than `most_scores` is scaled down, rounded down."""
    parts, sizes, liars = case
    parts = [min(part, n * unit) for part, n in zip(parts, sizes, strict=True)]
    for cap in (None, most_scores):
        weights = [min(n, cap or n) for n in sizes]
        held = [m * w // max(1, n) for m, w, n in zip(parts, weights, sizes, strict=True)]
        sets = list(combinations(range(len(sizes)), len(sizes) - liars))
        tops = [Fraction(max(0, sum(held[k] for k in honest) - unit), unit) for honest in sets]
        shares = [top / (sum(weights[k] for k in honest) or 1) for top, honest in zip(tops, sets, strict=True)]
        robust = fc.Robust(liars=liars, most_scores=cap)
        assert robust.promised_many(np.array(parts)[:, None], sizes, unit) == [min(shares)]


def test_a_site_that_claims_too_much_weighs_as_one_that_does_not() -> None:
    robust = fc.Robust(liars=1, most_scores=100)
    honest = [95] * 29
    claimed = robust.promised([*honest, 0], [100] * 29 + [2**32])
    assert claimed == robust.promised([*honest, 0], [100] * 30) == fc.Robust(liars=1).promised([*honest, 0], [100] * 30)
    assert fc.Robust(liars=1).promised([*honest, 0], [100] * 29 + [2**32]) < Fraction(1, 10**5)
    full = robust.promised([100] * 29 + [2**32], [100] * 29 + [2**32])
    assert full == Fraction(2899, 2900)


@pytest.mark.parametrize(
    ("alpha", "sites", "most"), [("0.1", 30, 2), ("0.2", 30, 4), ("0.5", 30, 9), ("0.1", 10, 0), ("0.1", 12, 1)]
)
def test_huge_scores_of_about_k_alpha_sites_are_withstood(alpha: str, sites: int, most: int) -> None:
    for liars in (most, most + 1):
        huge = fc.Robust(liars=liars).promised([0] * liars + [10**6] * (sites - liars), [10**6] * sites)
        assert (huge >= 1 - Fraction(alpha)) == (liars <= most)


def test_the_slack_is_the_largest_share_of_uncounted_scores() -> None:
    assert fc.Robust(liars=1).band(TENTH, [4, 9], [1, 2]).slack == Fraction(1, 4)


def test_the_shortfall_counts_the_honest_sites() -> None:
    words = shortfall(fc.Robust(liars=1), TENTH, [2] * 5, [])  # ten rows at four honest sites take three each
    assert "1 more at site number 1, 1 more at site number 2" in words
    few = fc.Robust(liars=1, most_scores=4)
    assert "most_scores is 4, needed: 5 or more" in shortfall(few, TENTH, [99] * 3, [])  # ten at two honest sites


@pytest.mark.parametrize("liars", [-1, 1.0, True, "1", None])
def test_bad_numbers_of_liars_are_refused(liars: object) -> None:
    with refused(param="liars"):
        fc.Robust(liars=liars)  # type: ignore[arg-type]
    with refused(param="liars"):
        fc.QuantileOfQuantiles(liars=liars)  # type: ignore[arg-type]


def test_somebody_must_be_honest() -> None:
    sites = [fc.Summary.of_scores([0.1, 0.2]) for _ in range(3)]
    for guarantee in (fc.Robust(liars=3), fc.QuantileOfQuantiles(liars=3, least_scores=2)):
        with refused("3 liars among 3 sites leave no honest site"):
            fc.calibrate(sites, guarantee=guarantee)
    with refused(param="most_scores"):
        fc.Robust(liars=1, most_scores=0)
    with refused("most_scores cannot be combined with a promise by class"):
        fc.Robust(liars=1, most_scores=9).bind((), [1, 10], "class")
