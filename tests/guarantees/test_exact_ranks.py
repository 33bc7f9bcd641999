"""Ranks in whole numbers: floats round some of them up, and one rank too many or too few is a wrong promise."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedconformal as fc
from fedconformal._base.arrays import as_alpha
from fedconformal.guarantees.guarantee import ceil_rank
from tests.contracts.tools import checks

DECIMALS = ["0.1", "0.2", "0.3", "0.05", "0.01", "0.15", "0.7", "0.9", "0.001", "0.025", "0.123456789012345", "0.45"]


def whole_rank(decimal: str, total: int) -> int:
    """Compute ceil((1 - alpha) total) from the digits of alpha alone."""
    digits = decimal.removeprefix("0.")
    unit = int(10 ** len(digits))
    return -(-(unit - int(digits)) * total // unit)


@pytest.mark.parametrize("decimal", DECIMALS)
def test_ranks_against_the_digits(decimal: str) -> None:
    alpha = as_alpha(float(decimal))
    assert alpha == as_alpha(decimal) == Fraction(decimal)
    totals = [*range(1, 400), 10**6, 10**9 - 1, 10**12 - 1, 10**12, 10**12 + 7]
    assert [ceil_rank(alpha, total) for total in totals] == [whole_rank(decimal, total) for total in totals]


@given(st.integers(1, 10**15 - 1), st.integers(1, 10**12))
@checks(300)
def test_a_rank_is_the_least_that_is_enough(units: int, total: int) -> None:
    alpha = Fraction(units, 10**15)
    rank = ceil_rank(alpha, total)
    assert Fraction(rank, total) >= 1 - alpha > Fraction(rank - 1, total)


@pytest.mark.parametrize("decimal", ["0.1", "0.2", "0.3", "0.7", "0.05", "0.15", "0.9"])
@pytest.mark.parametrize("sites", [1, 2, 5])
def test_ranks_of_guarantees(decimal: str, sites: int) -> None:
    for per_site in (9, 19, 20, 39, 59):
        n, swapped = sites * per_site, int(sites > 1)
        for guarantee, whole, price in ((fc.Mixture(), n + 1 - swapped, swapped), (fc.FCP(), n + sites, 0)):
            assert guarantee.rank(Fraction(decimal), [per_site] * sites) == (whole_rank(decimal, whole) + price, whole)
