"""P-values of risks: the numbers, rounding to the safe side, and the chance of a small one."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from fedconformal.guarantees.bounded_mean import hoeffding_bentkus, means_at_most

TENTH = Fraction(1, 10)


def p_value(total: Fraction | int, size: int, limit: Fraction) -> Decimal:
    return hoeffding_bentkus(size, Fraction(total), limit)


@pytest.mark.parametrize(
    ("size", "total", "limit", "known"),
    [
        (50, "2.3", "0.1", 0.3703115126),
        (200, "10.5", "0.1", 0.04563868293),
        (100, "0", "0.05", 0.005920529220),
        (50, "6", "0.1", 1),
    ],
)
def test_known_numbers(size: int, total: str, limit: str, known: float) -> None:
    assert float(p_value(Fraction(total), size, Fraction(limit))) == pytest.approx(known, rel=1e-9)


def formula(total: float, size: int, limit: float) -> float:
    from scipy.special import xlogy
    from scipy.stats import binom

    mean = min(total / size, limit)
    divergence = xlogy(mean, mean / limit) + xlogy(1 - mean, (1 - mean) / (1 - limit))
    return float(min(1, math.exp(-size * divergence), math.e * binom.cdf(math.ceil(total), size, limit)))


@pytest.mark.parametrize("size", [1, 2, 7, 50, 500, 5_000, 5_001, 100_000])
def test_never_below_the_formula_and_close_to_it(size: int) -> None:
    for limit, part in itertools.product((0.01, 0.1, 0.5, 0.9), (0, 0.3, 0.5, 0.8, 0.97, 1.0)):
        total = part * limit * size
        found, known = float(p_value(Fraction(total), size, Fraction(limit))), formula(total, size, limit)
        assert found >= known * (1 - 1e-10)
        assert found <= max(known * (1 + 2e-6), 1e-15)


def test_rounded_up_exactly() -> None:
    """Without losses Hoeffding's is (1 - a)^N, a whole fraction."""
    for size in (1, 10, 333, 20_000):
        assert Fraction(p_value(0, size, TENTH)) >= Fraction(9, 10) ** size


def test_rises_with_the_losses_and_falls_with_the_limit() -> None:
    by_total = [p_value(Fraction(total, 8), 100, TENTH) for total in range(100)]
    by_limit = [p_value(5, 100, Fraction(limit, 1000)) for limit in range(1, 1000)]
    assert by_total == sorted(by_total)
    assert by_limit == sorted(by_limit, reverse=True)


def test_the_smallest_limit_that_is_kept() -> None:
    for total, size in ((0, 30), (Fraction(5, 2), 100), (100, 1000), (30, 30), (3, 10_000)):
        [found] = means_at_most(size, [Fraction(total)], 0.05)
        assert found == 1 or p_value(total, size, found) <= Decimal("0.05")
        assert p_value(total, size, found - Fraction(1, 10**6)) > Decimal("0.05")


@pytest.mark.parametrize("chances", [[0.1] * 12, [0.0] * 6 + [0.2] * 6, [0.01] * 11 + [0.99], [0.3, 0.0] * 6])
def test_small_by_chance_no_more_often_than_it_says(chances: list[float]) -> None:
    """Losses of 0 and 1 with unequal chances, every outcome by its exact probability; the risk is the limit."""
    limit = Fraction(str(round(sum(chances) / len(chances), 12)))
    counts = np.array([1.0])
    for chance in chances:
        counts = np.convolve(counts, [1 - chance, chance])
    values = [float(p_value(count, len(chances), limit)) for count in range(len(counts))]
    for level in values:
        assert counts[[value <= level for value in values]].sum() <= level + 1e-12
