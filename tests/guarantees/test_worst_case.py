"""The worst case over sets of mixtures, against their corners."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedconformal as fc
from tests.contracts.tools import checks, refused
from tests.guarantees.plain_fractions import corners, of_mixtures

SIZES = [20, 7, 11, 3]
TENTH = Fraction(1, 10)


counts_of_sites = st.tuples(*(st.integers(0, n) for n in SIZES)).map(list)


@given(counts_of_sites, st.lists(st.tuples(st.integers(0, 5), st.integers(0, 15)), min_size=4, max_size=4))
@checks(30)
def test_box(counts: list[int], bounds: list[tuple[int, int]]) -> None:
    lower = [Fraction(low, 20) for low, _ in bounds]
    upper = [Fraction(low + room, 20) for low, room in bounds]
    guarantee = fc.WorstCase(box=(list(map(float, lower)), [min(1.0, float(high)) for high in upper]))
    if sum(upper) < 1:
        with refused("no weights fit the bounds"):
            guarantee.bind((), SIZES)
        return
    assert guarantee.promised(counts, SIZES) == of_mixtures(corners(lower, upper), counts, SIZES)


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
        ({"contamination": float("nan")}, "contamination"),
        ({"box": 0.3}, "box: expected (lower, upper)"),
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
        (fc.WorstCase(box=(0.6, 1)), "must add up to at most 1 (here 1.2)"),
        (fc.WorstCase(box=(0, 0.4)), "to at least 1 (here 0.8)"),
        (fc.WorstCase(box=((0.1, 0.6), (0.9, 0.5))), "must not be above its upper one"),
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
