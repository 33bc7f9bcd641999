"""The worst case over sets of mixtures, against vertices counted out by hand and against scipy's linear programs."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize

import fedconformal as fc
from tests.contracts.tools import checks, refused
from tests.guarantees.plain_fractions import of_mixtures

SIZES = [20, 7, 11, 3]
TENTH = Fraction(1, 10)


def expected(counts: list[int], bounds: list[tuple[float, float]]) -> float:
    """Let scipy find both prices of a set, and what the counts promise by the one that is smaller."""

    def least(values: list[float]) -> float:
        found = optimize.linprog(values, A_eq=np.ones((1, len(values))), b_eq=[1], bounds=bounds)
        assert found.status == 0
        return float(found.fun)

    largest = max(-least([-float(j == k) / n for j in range(len(SIZES))]) for k, n in enumerate(SIZES))
    stand_ins = -least([-1 / (n + 1) for n in SIZES])
    if abs(largest - stand_ins) < 1e-9:
        largest = stand_ins
    swap, paper = ([m / (n + more) for m, n in zip(counts, SIZES, strict=True)] for more in (0, 1))
    return max(0.0, least(swap) - largest) if largest <= stand_ins else least(paper)


counts_of_sites = st.tuples(*(st.integers(0, n) for n in SIZES)).map(list)


@given(counts_of_sites, st.integers(0, 20))
@checks(30)
def test_contamination(counts: list[int], twentieths: int) -> None:
    share, total = Fraction(twentieths, 20), sum(SIZES)
    mixtures = [[(1 - share) * n / total + share * (j == k) for j, n in enumerate(SIZES)] for k in range(len(SIZES))]
    found = fc.WorstCase(contamination=twentieths / 20).promised(counts, SIZES)
    assert found == of_mixtures(mixtures, counts, SIZES)
    lower = [float((1 - share) * n / total) for n in SIZES]
    assert expected(counts, [(low, 1) for low in lower]) == pytest.approx(float(found), abs=1e-9)


@given(counts_of_sites, st.lists(st.tuples(st.integers(0, 5), st.integers(0, 15)), min_size=4, max_size=4))
@checks(30)
def test_box(counts: list[int], bounds: list[tuple[int, int]]) -> None:
    lower = [low / 20 for low, _ in bounds]
    upper = [(low + room) / 20 for low, room in bounds]
    guarantee = fc.WorstCase(box=(lower, upper))
    if sum(low + room for low, room in bounds) < 20:
        with refused("box: the lower bounds add up to"):
            guarantee.bind((), SIZES)
        return
    found = expected(counts, list(zip(lower, upper, strict=True)))
    assert float(guarantee.promised(counts, SIZES)) == pytest.approx(found, abs=1e-9)


def test_the_same_set_in_several_forms() -> None:
    """The same set, said in several ways, promises the very same fraction."""
    rng = np.random.default_rng(3)
    sizes = [9] * 5  # equal sites: the proportional mixture is the uniform one
    contaminated, floor = fc.WorstCase(contamination=0.3), fc.WorstCase(box=(0.14, 1))
    whole, all_of_it = fc.WorstCase(box=(0, 1)), fc.WorstCase()
    for counts in rng.integers(0, 10, size=(50, 5)).tolist():
        assert contaminated.promised(counts, sizes) == floor.promised(counts, sizes)
        assert whole.promised(counts, sizes) == all_of_it.promised(counts, sizes)
        assert all_of_it.promised(counts, sizes) == fc.EverySite().promised(counts, sizes)
        for none in (fc.WorstCase(contamination=0), fc.WorstCase(box=(0.2, 0.2))):
            assert none.promised(counts, sizes) == fc.Mixture().promised(counts, sizes)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"contamination": 0.1, "box": (0, 1)}, "takes one set of mixtures, got contamination and box"),
        ({"contamination": 1.5}, "contamination is 1.5"),
        ({"contamination": "x"}, "contamination"),
        ({"contamination": True}, "contamination"),
        ({"contamination": float("nan")}, "contamination"),
        ({"box": 0.3}, "box: expected (lower, upper)"),
        ({"box": (0.5, 0.2)}, "box: a lower bound is above"),
        ({"box": ((0.1, 0.6), 0.5)}, "box: a lower bound is above"),
        ({"box": (0.3, (0.4, 0.2))}, "box: a lower bound is above"),
        ({"box": (0, 2)}, "box is 2"),
    ],
    ids=str,
)
def test_bad_sets(parameters: dict[str, Any], words: str) -> None:
    with refused(words):
        fc.WorstCase(**parameters)


@pytest.mark.parametrize(
    ("guarantee", "words"),
    [
        (fc.WorstCase(box=((0.1, 0.1, 0.1), 1)), "box: 3 bounds were given for 2 sites"),
        (fc.WorstCase(box=(0.6, 1)), "box: the lower bounds add up to 1.2"),
        (fc.WorstCase(box=(0, 0.4)), "the upper to 0.8"),
    ],
    ids=str,
)
def test_sets_that_do_not_fit_the_sites(guarantee: fc.Guarantee, words: str) -> None:
    with refused(words):
        fc.calibrate([fc.Summary.of_scores(range(k, k + 30), site=str(k)) for k in range(2)], guarantee=guarantee)


def test_a_site_that_cannot_carry_weight_needs_no_scores() -> None:
    guarantee = fc.WorstCase(box=((0, 0.2, 0.2), (0, 1, 1)))
    assert guarantee.missing(TENTH, [1, 4, 2]).scores == {1: 4, 2: 6}  # 0.8/8 at the most


def test_decimals_are_read_as_decimals() -> None:
    single: Any = np.float32(0.1)
    assert fc.WorstCase(contamination=single) == fc.WorstCase(contamination=0.1)
    assert fc.WorstCase(contamination=0.1).promised([9], [9]) == Fraction(9, 10)


def test_finite_where_the_paper_is_infinite() -> None:
    """Ten sites of 200 scores, alpha and contamination both 0.1."""
    sizes = [200] * 10
    assert math.ceil((sum(sizes) + len(sizes)) * (1 - TENTH) / (1 - TENTH)) == 2010 > sum(sizes)  # their rank
    rng = np.random.default_rng(0)
    sites = [fc.Summary.of_scores(rng.normal(k / 5, size=200), kind="exact", site=f"s{k}") for k in range(10)]
    result = fc.calibrate(sites, alpha=0.1, guarantee=fc.WorstCase(contamination=0.1))
    assert result.threshold < np.inf
