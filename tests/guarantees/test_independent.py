"""The bound of `Independent` against whole fractions, the figures of the derivation, and its outward rounding."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedconformal as fc
from fedconformal._base.arrays import ALPHA_UNIT
from fedconformal.guarantees import independent
from fedconformal.guarantees.planning import feasible, missing
from fedconformal.guarantees.ranked import EXACT_SCORES, FLOAT_SCORES
from tests.contracts.tools import checks


def at_least(rank: int, size: int, chance: Fraction) -> Fraction:
    """Return P(Bin(size, chance) >= rank)."""
    terms = (math.comb(size, j) * chance**j * (1 - chance) ** (size - j) for j in range(rank, size + 1))
    return sum(terms, Fraction(0))


def mean_of_the_smaller(rank: int, size: int) -> Fraction:
    """Return E[min(B, m)], B ~ Beta(r, N + 1 - r) and m = (r - 1)/N."""
    if rank < 2:
        return Fraction(0)
    m = Fraction(rank - 1, size)
    return m * (1 - at_least(rank, size, m)) + Fraction(rank, size + 1) * at_least(rank + 1, size + 1, m)


@given(st.integers(1, 60), st.data())
@checks(150)
def test_the_promise_is_the_bound_to_the_last_unit(size: int, data: st.DataObject) -> None:
    rank = data.draw(st.integers(0, size))
    found, bound = fc.Independent().promised([rank], [size]), mean_of_the_smaller(rank, size)
    assert found <= bound < found + Fraction(3, ALPHA_UNIT)


@pytest.mark.parametrize(
    ("sizes", "rank"), [([20] * 10, 183), ([10] * 100, 905), ([5] * 300, 1356), ([1000] * 5, 4510)]
)
def test_the_ranks_of_the_derivation(sizes: list[int], rank: int) -> None:
    assert fc.Independent().rank(Fraction(1, 10), sizes) == (rank, sum(sizes) + 1)
    assert fc.Independent().promised([rank - 1], [sum(sizes)]) < Fraction(9, 10)
    assert fc.Independent().at_least(Fraction(1, 10), sizes) == Fraction(9, 10)


def test_it_rises_with_the_rank_and_never_exceeds_the_share() -> None:
    for size in (7, 300, EXACT_SCORES, EXACT_SCORES + 1, 10**6, FLOAT_SCORES + 1):
        ranks = sorted({0, 1, 2, size // 2, size - 2, size - 1, size})
        units = fc.Independent().units(ranks, size)
        assert all(one < more for one, more in pairwise(units[1:]))
        assert all(found <= max(0, rank - 1) * ALPHA_UNIT // size for rank, found in zip(ranks, units, strict=True))
        assert fc.Independent().units([size + 5], size) == units[-1:]


def test_floats_and_scarfs_bound_are_below_the_decimals(monkeypatch: pytest.MonkeyPatch) -> None:
    ranks = np.unique(np.linspace(2, 3000, 40).astype(int)).tolist()
    exact = np.array([independent._decimal_units(rank, 3000) for rank in ranks]) / ALPHA_UNIT
    floats = np.array([independent._float_units(rank, 3000) for rank in ranks]) / ALPHA_UNIT
    monkeypatch.setattr(independent, "FLOAT_SCORES", 0)
    scarf = np.array([independent._float_units(rank, 3000) for rank in ranks]) / ALPHA_UNIT
    assert (floats <= exact).all()
    assert (floats >= exact - 3e-6).all()
    assert (scarf <= exact + 1e-15).all()
    assert (scarf >= exact - 0.3 * np.sqrt(exact * (1 - exact) / 3000) - 1e-6).all()


@pytest.mark.parametrize("size", [FLOAT_SCORES - 1, FLOAT_SCORES + 1])
def test_no_jump_where_scipy_ends(size: int) -> None:
    rank = fc.Independent().rank(Fraction(1, 10), [size])[0]
    assert 0 < rank / size - 0.9 < 3e-6


def test_how_many_rows_it_takes() -> None:
    needed = missing(fc.Independent(), Fraction(1, 10), [1])
    size = 1 + needed[0]
    assert feasible(fc.Independent(), Fraction(1, 10), [size])
    assert size == 14
    assert not feasible(fc.Independent(), Fraction(1, 10), [size - 1])


def test_one_calibration_may_miss_more_and_by_how_much() -> None:
    (limit,) = fc.Independent().miss_limits(Fraction(1, 10), [400, 600], 0.05)
    rank = fc.Independent().rank(Fraction(1, 10), [1000])[0]
    assert limit.shares == (Fraction(2, 5), Fraction(3, 5))
    assert limit.rate == pytest.approx(float(1 - fc.PAC(failure=0.05).promised([rank], [1000])), abs=1e-9)
