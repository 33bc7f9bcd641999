"""Noise that sites add together: every share, and their sum, against the law that it should have."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from fedconformal._base.arrays import Floats, Integers
from fedconformal.privacy.noise import MOVED, below, from_urn, mechanism, shares


def fits(drawn: Integers, law: Floats, first: int) -> float:
    """Return the p-value of a chi-square test; `law` is for the values from `first` on, the rest is lumped together."""
    inside = (drawn >= first) & (drawn < first + len(law))
    seen = np.append(np.bincount(drawn[inside] - first, minlength=len(law)), (~inside).sum())
    expected = np.append(law, 1 - law.sum()) * len(drawn)
    common = expected >= 5
    seen = np.append(seen[common], seen[~common].sum())
    expected = np.append(expected[common], expected[~common].sum())
    return float(stats.chisquare(seen[expected > 0], expected[expected > 0]).pvalue)


def discrete_laplace(p: float, most: int) -> Floats:
    law: Floats = (1 - p) / (1 + p) * p ** np.abs(np.arange(-most, most + 1.0))
    return law


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(1, 3)])
def test_opendp_accounts_for_no_more_than_epsilon(epsilon: Fraction) -> None:
    assert 0.999 * epsilon < mechanism("laplace", epsilon).map(MOVED) <= epsilon


@pytest.mark.parametrize("sites", [1, 2, 7])
def test_an_urn_gives_polya_draws(sites: int) -> None:
    p = math.exp(-1 / 2)
    totals = np.random.default_rng(sites).geometric(1 - p, size=60_000) - 1
    kept = from_urn(totals, sites)
    law = stats.nbinom.pmf(np.arange(20), 1 / sites, 1 - p)
    assert fits(kept, law, 0) > 1e-6
    assert (kept <= totals).all()
    if sites > 1:  # the same test sees the law of one site more
        assert fits(kept, stats.nbinom.pmf(np.arange(20), 1 / (sites + 1), 1 - p), 0) < 1e-6


@pytest.mark.long
@pytest.mark.parametrize(("epsilon", "sites"), [(Fraction(1), 3), (Fraction(2), 5)])
def test_shares_add_up_to_discrete_laplace_noise(epsilon: Fraction, sites: int) -> None:
    draws = 8000
    together = shares(draws * sites, epsilon, sites).reshape(sites, draws)
    p = math.exp(-float(epsilon) / MOVED)
    assert fits(together.sum(axis=0), discrete_laplace(p, 25), -25) > 1e-6
    # One share too few is not enough, and the test sees it.
    assert fits(together[1:].sum(axis=0), discrete_laplace(p, 25), -25) < 1e-6


def test_a_single_share_is_the_difference_of_two_polya_draws() -> None:
    p, sites = math.exp(-1 / 2), 4
    one = stats.nbinom.pmf(np.arange(60), 1 / sites, 1 - p)
    law: NDArray[np.float64] = np.convolve(one, one[::-1])
    assert fits(shares(12_000, Fraction(1), sites), law[59 - 15 : 59 + 16], -15) > 1e-6


@pytest.mark.parametrize("limit", [1, 6, 255, 3 * 2**62])
def test_whole_numbers_are_equally_likely(limit: int) -> None:
    drawn = below(limit, 20_000)
    assert int(drawn.max()) < limit
    bins = min(limit, 6)
    # Of words below 2^64, those from 3 * 2^62 on would come out a second time as low numbers.
    seen = np.bincount(np.array([int(d) * bins // limit for d in drawn]), minlength=bins)
    assert bins == 1 or stats.chisquare(seen).pvalue > 1e-6
