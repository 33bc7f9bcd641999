"""Bounds on the miss rate of one calibration: numbers by hand, exact enumeration, and every guarantee."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

import fedconformal as fc
from fedconformal.certificates import text
from fedconformal.guarantees.binomial import rank_bound, shares_bound
from tests.contracts.tools import SITES, guarantee_examples

TENTH = Fraction(1, 10)


def test_the_numbers() -> None:
    assert rank_bound(901, 1000, 0.05) == pytest.approx(0.1159245114, abs=1e-10)
    shares = [Fraction(1, 5), Fraction(3, 10), Fraction(1, 2)]
    assert shares_bound(TENTH, [50, 100, 30], shares, 0.1) == pytest.approx(
        0.1 + math.sqrt(math.log(10) * (0.04 / 50 + 0.09 / 100 + 0.25 / 30) / 2), abs=1e-10
    )


@pytest.mark.parametrize(("rank", "size", "failure"), [(2, 2, 0.25), (7, 10, 0.025), (46, 50, 0.05), (200, 200, 0.01)])
def test_it_is_rounded_outward(rank: int, size: int, failure: float) -> None:
    found = rank_bound(rank, size, failure)
    assert found >= 1 - stats.beta.ppf(failure, rank, size + 1 - rank) - 1e-13
    assert stats.binom.sf(rank - 1, size, 1 - found) <= failure * (1 + 1e-9)
    assert rank_bound(size + 1, size, failure) == 1


def test_shares_by_rows_are_a_rank() -> None:
    sizes = [20_000, 2000, 200]
    for guarantee, rank in ((fc.Mixture(), 19_981), (fc.FCP(), 19_983)):  # .9 * 22,200 + 1 and .9 * 22,203
        (found,) = guarantee.miss_rate_bounds(TENTH, sizes, 0.025)
        assert found.rate == rank_bound(rank, sum(sizes), 0.025)
        assert found.shares == tuple(Fraction(n, sum(sizes)) for n in sizes)
    (one,) = fc.Mixture().miss_rate_bounds(TENTH, [99], 0.025)
    assert one.rate == rank_bound(90, 99, 0.025)


def test_a_share_without_rows_has_no_limit() -> None:
    assert shares_bound(TENTH, [50, 0], [Fraction(9, 10), TENTH], 0.1) == 1
    assert shares_bound(TENTH, [50, 0], [Fraction(1), Fraction(0)], 0.1) < 0.26


def test_no_more_draws_are_unlucky() -> None:
    """Exactly, over all draws: two sites of scores 0 and 1, or all ones of which are hard."""
    sizes, failure = [6, 3], 0.2
    (limit,) = fc.Mixture(weights=(0.25, 0.75)).miss_rate_bounds(Fraction(2, 5), sizes, failure)
    for easy in np.linspace(0, 1, 11):
        for hard in np.linspace(0, 1, 11):
            # Scores are 0 with these chances, else 1: at the threshold 0 the mixture's miss rate is known.
            miss = 1 - (0.25 * easy + 0.75 * hard)
            unlucky = sum(
                stats.binom.pmf(a, 6, easy) * stats.binom.pmf(b, 3, hard)
                for a in range(7)
                for b in range(4)
                if Fraction(a, 4 * 7) + Fraction(3 * b, 4 * 4) >= Fraction(3, 5)  # 1/28 + 3/16 is less than 1/4
            )
            assert miss <= limit.rate or unlucky <= failure + 1e-12


def test_pac_is_alpha_itself_at_its_own_failure() -> None:
    for failure, expected in ((0.05, 0.1), (0.2, 0.1)):
        assert fc.PAC(failure=0.05).miss_rate_bounds(TENTH, [300, 200], failure)[0].rate == expected
    assert 0.1 < fc.PAC(failure=0.05).miss_rate_bounds(TENTH, [300, 200], 0.025)[0].rate < 0.11
    assert fc.PAC(failure=0.05).miss_rate_bounds(TENTH, [5, 5], 0.025)[0].rate == 1


def test_every_site_by_its_own_scores() -> None:
    found = fc.EverySite().miss_rate_bounds(TENTH, [50, 100], 0.025)
    assert [limit.site for limit in found] == [0, 1]
    assert [limit.rate for limit in found] == [rank_bound(46, 50, 0.0125), rank_bound(91, 100, 0.0125)]
    assert fc.WorstCase().miss_rate_bounds(TENTH, [50, 100], 0.025) == found
    assert fc.WorstCase(contamination=0.1).miss_rate_bounds(TENTH, [50, 100], 0.025) == []


@pytest.mark.parametrize("guarantee", guarantee_examples(), ids=repr)
def test_every_guarantee_has_limits_or_says_why_not(guarantee: Any) -> None:
    sizes = [80, 60, 90]
    bound = guarantee.bind(SITES, sizes)
    wide, narrow = (bound.miss_rate_bounds(Fraction(1, 5), sizes, failure) for failure in (0.01, 0.1))
    for more, less in zip(wide, narrow, strict=True):
        assert 0 < less.rate <= more.rate <= 1
        assert more.shares is None or (sum(more.shares) == 1 and len(more.shares) == 3)
    assert wide or len(text.why_no_bound(bound)) > 30
    if guarantee.name == "new-site" or hasattr(guarantee, "liars"):
        assert wide == []
