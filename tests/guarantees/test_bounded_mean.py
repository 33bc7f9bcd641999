"""Hoeffding and Bentkus: known values, and never a p-value that is too small."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from fedconformal.guarantees.binomial import hoeffding_bentkus, mean_between, means_at_most
from tests.contracts.tools import checks


@pytest.mark.parametrize(
    ("rows", "losses", "limit", "p"),
    [
        (50, "2.3", "0.1", "0.3703115126"),
        (200, "10.5", "0.1", "0.0456386829"),
        (100, "0", "0.05", "0.0059205292"),
        (50, "6", "0.1", "1.0000000000"),
    ],
)
def test_known_values(rows: int, losses: str, limit: str, p: str) -> None:
    assert f"{hoeffding_bentkus(rows, Fraction(losses), Fraction(limit)):.10f}" == p


def plain(rows: int, losses: float, limit: float) -> float:
    """Return the textbook formula in floats."""
    mean = min(losses / rows, limit)
    kl = (mean * np.log(mean / limit) if mean else 0.0) + (1 - mean) * np.log((1 - mean) / (1 - limit))
    return float(min(1, np.exp(-rows * kl), np.e * binom.cdf(np.ceil(losses), rows, limit)))


@given(st.integers(1, 20_000), st.floats(0, 1), st.integers(1, 999))
@checks(200)
def test_it_is_the_textbook_formula_rounded_up(rows: int, share: float, thousandths: int) -> None:
    losses, limit = Fraction(share) * rows / 2, Fraction(thousandths, 1000)
    found, expected = float(hoeffding_bentkus(rows, losses, limit)), plain(rows, float(losses), float(limit))
    assert found >= expected * (1 - 1e-8)
    # Near the mean the binomial part is taken for one: it is more than one, or the other part is the smaller.
    assert found == pytest.approx(expected, rel=2e-6, abs=1e-290) or losses > rows * limit - 2


@pytest.mark.parametrize("rows", [1, 10, 333, 20_000])
def test_without_losses_it_is_a_power_rounded_up(rows: int) -> None:
    assert Fraction(hoeffding_bentkus(rows, Fraction(0), Fraction(1, 10))) >= Fraction(9, 10) ** rows


@pytest.mark.parametrize(("rows", "failure"), [(1, 0.2), (9, 1e-9), (120, 0.05), (7000, 1e-9), (2**40, 0.05)])
def test_the_bound_is_the_smallest_limit_that_is_rejected(rows: int, failure: float) -> None:
    losses = [Fraction(rows * i, 8) for i in range(9)]
    found = means_at_most(rows, losses, failure)
    assert found == sorted(found)
    for lost, mean in zip(losses, found, strict=True):
        assert lost / rows <= mean <= 1
        assert mean == 1 or hoeffding_bentkus(rows, lost, mean) <= Fraction(repr(failure))
        below = mean - Fraction(1, 10**6)
        assert below <= 0 or hoeffding_bentkus(rows, lost, below) > Fraction(repr(failure)) * Fraction(99, 100)


@pytest.mark.parametrize("chances", [[0.1] * 30, [0.9] * 5 + [0.02] * 25, [0.5, 0.3] * 15])
def test_unlike_rows_are_bounded(chances: list[float]) -> None:
    """The bound fails no more often than it may, also where rows are not alike; for losses 0 and 1, exactly."""
    of_sum = np.ones(1)
    for chance in chances:
        of_sum = np.convolve(of_sum, [1 - chance, chance])
    bounds = means_at_most(len(chances), [Fraction(k) for k in range(len(chances) + 1)], 0.1)
    failed = sum(p for p, bound in zip(of_sum, bounds, strict=True) if bound < sum(chances) / len(chances))
    assert failed <= 0.1


def test_both_ends() -> None:
    low, high = mean_between(100, Fraction(30), 0.05)
    assert low < Fraction(3, 10) < high
    assert mean_between(100, Fraction(70), 0.05) == (1 - high, 1 - low)
    assert mean_between(5, Fraction(0), 0.05)[0] == 0
    assert mean_between(5, Fraction(5), 0.05)[1] == 1
