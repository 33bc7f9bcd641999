"""The cells in which scores are counted: no score is above the edge of its own, whatever the score."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedconformal._base.float_bits import keys_of
from fedconformal.privacy.sums.scale import BITS, MOST, codes_of, edges, exponent_of
from tests.contracts.tools import checks

LARGEST = float(np.finfo(np.float64).max)
CORNERS = [-0.0, 0.0, 0.5, 1.0, 2.0, -1.0, 5e-324, 2.2e-308, 1e-12, 2**-41, 1e300, 2.0**64, LARGEST]
SPECIAL = sorted(
    {s for x in CORNERS for y in (x, -x) for s in (y, math.nextafter(y, 9e307), math.nextafter(y, -9e307))}
)


def test_edges_are_exact_and_rise() -> None:
    found = edges()
    assert len(found) == 2**BITS
    assert (np.diff(found) > 0).all()
    assert found[-1] == LARGEST
    assert not np.signbit(found[found == 0]).any()
    for i in range(1, 1025):
        assert Fraction(found[1023 + i]) == Fraction(i**4, 2**41)
        assert Fraction(found[3071 - i]) == 1 - Fraction(i**4, 2**41)
    for i in range(1, 513):
        assert Fraction(found[3071 + i]) == 1 + Fraction(i**4, 2**36)
        assert Fraction(found[1023 - i]) == -Fraction(i**4, 2**36)
    assert {Fraction(x).denominator for x in found[3583:]} == {1, 2, 4}
    assert {Fraction(x).denominator for x in found[:512]} == {1, 2, 4, 8}


@given(
    st.lists(st.one_of(st.sampled_from(SPECIAL), st.floats(allow_nan=False, allow_infinity=False)), min_size=1),
    st.sampled_from([0, 7, -3, MOST, -MOST]),
)
@checks(300)
def test_a_score_is_in_its_cell(scores: list[float], exponent: int) -> None:
    found = edges(exponent)
    for score, code in zip(scores, codes_of(keys_of(np.array(scores)), exponent).tolist(), strict=True):
        assert Fraction(score) <= Fraction(found[code])
        assert code == 0 or Fraction(score) > Fraction(found[code - 1])


@pytest.mark.parametrize("exponent", [7, -3, MOST, -MOST])
def test_a_reach_multiplies_every_edge(exponent: int) -> None:
    assert [Fraction(edge) for edge in edges(exponent)[:-1]] == [
        Fraction(edge) * Fraction(2) ** exponent for edge in edges()[:-1]
    ]
    assert edges(exponent)[-1] == LARGEST
    assert exponent_of(2.0**exponent) == exponent == exponent_of(max(0.9 * 2.0**exponent, 2.0**-MOST))


def test_the_largest_and_the_smallest_scores_have_a_cell() -> None:
    assert codes_of(keys_of(np.array([-LARGEST, LARGEST]))).tolist() == [0, 2**BITS - 1]
    assert set(codes_of(keys_of(edges())).tolist()) == set(range(2**BITS))
