"""The PAC rank against sums of binomial chances in whole fractions."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import fedconformal as fc
from fedconformal._base.arrays import ALPHA_UNIT
from fedconformal.certificates.text import shortfall
from fedconformal.guarantees import binomial
from fedconformal.guarantees.binomial import DIGITS, EXACT_SCORES, _exact_units, _safe_units
from fedconformal.guarantees.guarantee import feasible
from tests.contracts.tools import alphas, checks, refused


def chance(rank: int, size: int, coverage: Fraction) -> Fraction:
    """Return P(Bin(size, coverage) >= rank)."""
    terms = (math.comb(size, j) * coverage**j * (1 - coverage) ** (size - j) for j in range(rank, size + 1))
    return sum(terms, Fraction(0))


@given(st.integers(1, 40), st.data(), st.sampled_from([0.05, 0.001, 0.3, 0.8, 0.123456789, 1e-15]))
@checks(150)
def test_the_promise_is_the_largest_that_holds(size: int, data: st.DataObject, failure: float) -> None:
    rank = data.draw(st.integers(0, size))
    guarantee = fc.PAC(failure=failure)

    def holds(coverage: Fraction) -> bool:
        return chance(rank, size, coverage) <= Fraction(repr(failure)) and rank >= size * coverage + 1

    found = guarantee.promised([rank], [size])
    assert found == 0 or holds(found)
    assert not holds(found + Fraction(1, ALPHA_UNIT))


@given(st.lists(st.integers(1, 30), min_size=1, max_size=4), alphas, st.sampled_from([0.05, 0.01, 0.5]))
@checks(60)
def test_the_rank_is_the_smallest_that_holds(sizes: list[int], alpha: Fraction, failure: float) -> None:
    N = sum(sizes)
    rank, out_of = fc.PAC(failure=failure).rank(alpha, sizes)
    assert out_of == N + 1
    fit = [
        r for r in range(1, N + 2) if r >= N * (1 - alpha) + 1 and chance(r, N, 1 - alpha) <= Fraction(repr(failure))
    ]
    assert rank == fit[0]
    assert feasible(fc.PAC(failure=failure), alpha, sizes) == (rank <= N)


@pytest.mark.parametrize(("size", "failure"), [(100, 0.05), (2000, 0.001), (6000, 0.05), (10**7, 0.001)])
def test_the_rank_at_larger_sizes(size: int, failure: float) -> None:
    rank = fc.PAC(failure=failure).rank(Fraction(1, 10), [size])[0]
    assert stats.binom.sf(rank - 1, size, 0.9) <= failure
    assert stats.binom.sf(rank - (2 if size <= EXACT_SCORES else 3), size, 0.9) > failure


@pytest.mark.parametrize("start", [-5, 1, 10**14, 5 * 10**14, 2 * 10**15])
def test_a_poor_start_costs_few_steps_and_changes_nothing(monkeypatch: pytest.MonkeyPatch, start: int) -> None:
    right = [_exact_units(rank, 60, 0.05) for rank in range(61)]
    asked = 0

    def counted(rank: int, size: int, units: int, allowed: Decimal) -> bool:
        nonlocal asked
        asked += 1
        assert asked <= 61 * 150  # unit by unit it would be 1e14
        return holds(rank, size, units, allowed)

    holds = binomial._holds
    monkeypatch.setattr(binomial, "_holds", counted)
    monkeypatch.setattr(binomial, "_root", lambda *_: start)
    assert [_exact_units.__wrapped__(rank, 60, 0.05) for rank in range(61)] == right


def test_rounding_outward_gives_away_little() -> None:
    for failure in (0.05, 1e-6, 0.9):
        ranks = [*range(50, 3000, 50), 1, 2999]
        exact = [_exact_units(rank, 3000, failure) for rank in ranks]
        safe = _safe_units(ranks, 3000, failure)
        given_away = np.array(exact) - np.array(safe)
        assert given_away.min() >= 0
        assert given_away.max() < 10**8  # 1e-7 of coverage


@pytest.mark.parametrize("off", [1.5, 100])
def test_should_scipy_be_off_the_promise_still_holds(monkeypatch: pytest.MonkeyPatch, off: float) -> None:
    inverse = binomial._inverse_tail
    monkeypatch.setattr(binomial, "_inverse_tail", lambda ranks, size, failure: inverse(ranks, size, off * failure))
    size, ranks = 10**5, [10, 50_000, 90_000, 99_990]
    promised = np.array(_safe_units(ranks, size, 0.005)) / ALPHA_UNIT
    assert (stats.binom.sf(np.array(ranks) - 1, size, promised) <= 0.005).all()
    assert (np.array(ranks) / size - promised < 0.006).all()  # and little is given away


def test_the_known_least_number_of_scores() -> None:
    """59 scores for 95% confidence in 95% coverage: the textbook number of non-parametric tolerance limits."""
    twentieth = Fraction(1, 20)
    assert feasible(fc.PAC(failure=0.05), twentieth, [30, 29])
    assert not feasible(fc.PAC(failure=0.05), twentieth, [30, 28])
    assert shortfall(fc.PAC(failure=0.05), twentieth, [20, 20], ()).endswith("19 more in all, at any site")


@pytest.mark.parametrize(("failure", "rank"), [(0.028, 2), (0.001, 3)])
def test_a_tail_that_is_exactly_the_failure_rate_is_enough(failure: float, rank: int) -> None:
    tenth = Fraction(1, 10)
    assert chance(rank, 3, tenth) == Fraction(repr(failure))
    assert fc.PAC(failure=failure).promised([rank], [3]) == tenth
    # Too close for 40 places to tell, so whole numbers decide.
    assert not binomial._holds(rank, 3, ALPHA_UNIT // 10, DIGITS.subtract(Decimal(repr(failure)), Decimal("1e-33")))


def test_hoeffdings_condition_is_kept() -> None:
    tenth = Fraction(1, 10)
    assert chance(9, 10, 1 - tenth) < Fraction(8, 10)  # so that the tail alone would be content with rank 9
    assert fc.PAC(failure=0.8).rank(tenth, [10]) == (10, 11)


@pytest.mark.parametrize("failure", [0, 1, -0.1, 1.5, 1e-16, float("nan"), "x", None, True])
def test_bad_failures(failure: Any) -> None:
    with refused("failure is "):
        fc.PAC(failure=failure)
