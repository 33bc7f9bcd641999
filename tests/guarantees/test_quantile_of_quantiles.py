"""Quantiles of quantiles: pairs, names and means against their definitions, and what liars can do by claiming sizes."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

import fedconformal as fc
from fedconformal.certificates.text import shortfall
from fedconformal.guarantees.quantile_of_quantiles import Ranks, mean_miss
from tests.contracts.tools import checks, refused

TENTH = Fraction(1, 10)


def pair_of(alpha: Fraction, n: int, honest: int) -> tuple[int, int]:
    """Return the first pair (l, k) of the chain that promises enough: l rises at the median, then k."""
    middle = (honest + 1) // 2
    chain = [*((level, middle) for level in range(1, n + 1)), *((n, k) for k in range(middle + 1, honest + 1))]
    return next((level, k) for level, k in chain if mean_miss(((level, n),), k, honest) <= alpha)


def test_who_lies_must_not_follow_from_the_scores() -> None:
    """If the ten sites with the largest names lie low, the threshold is the k-th of thirty names, not of twenty."""
    level, among = pair_of(TENTH, 20, 20)
    assert 1 - mean_miss(((level, 20),), among, 20) >= 0.9
    assert 1 - mean_miss(((level, 20),), among, 30) == pytest.approx(0.8854, abs=5e-5)


@pytest.mark.parametrize(
    ("m", "n", "pair", "coverage"), [(5, 10, (10, 3), 0.92563), (10, 10, (10, 5), 0.91949), (10, 20, (19, 5), 0.90791)]
)
def test_known_pairs(m: int, n: int, pair: tuple[int, int], coverage: float) -> None:
    assert pair_of(TENTH, n, m) == pair
    for liars in (0, 3):  # with f liars the pair is that of the honest sites, and f more names must be below
        guarantee, (level, named) = fc.QuantileOfQuantiles(liars=liars, least_scores=n), (pair[0], pair[1] + liars)
        counts = [level] * named + [0] * (m + liars - named)
        assert float(guarantee.promised(counts, [n] * (m + liars))) == pytest.approx(coverage, abs=6e-6)
        assert guarantee.promised([*counts[1:], 0], [n] * (m + liars)) == 0


@pytest.mark.parametrize("alpha", ["0.1", "0.04", "0.03"])
def test_the_threshold_is_the_named_one(alpha: str) -> None:
    """The first pair of the chain that is enough, k above the median as well; f more names have to be below it."""
    scores = np.random.default_rng(0).random((13, 20))
    pair, guarantee = pair_of(Fraction(alpha), 20, 10), fc.QuantileOfQuantiles(liars=3, least_scores=20)
    assert (pair[1] > 5) == (alpha != "0.1")
    result = fc.calibrate(
        [fc.Summary.of_scores(part, kind="exact") for part in scores], alpha=alpha, guarantee=guarantee, exact=True
    )
    named = np.sort(np.sort(scores, axis=1)[:, pair[0] - 1])
    assert result.threshold == named[pair[1] + 3 - 1]


MIXED: Ranks = ((10, 12), (17, 20), (27, 33), (37, 47), (47, 60))


@pytest.mark.parametrize(
    "ranks", [((10, 20),), MIXED, ((19, 20), (3_885_920_397, 2**32))], ids=["one", "mixed", "huge"]
)
@pytest.mark.parametrize(("among", "honest"), [(3, 6), (10, 20), (6, 6)])
def test_the_mean_is_bounded_from_above_and_closely(ranks: Ranks, among: int, honest: int) -> None:
    """1 - B exceeds s ever more rarely as s rises, so sums over many pieces bound the mean from both sides."""
    s = np.linspace(0, 1, 200_001)
    above = np.min([special.betainc(n - rank + 1, rank, s) for rank, n in ranks], axis=0)
    missed = 1 - special.betainc(honest - among + 1, among, above)
    least, most = missed[1:].mean(), missed[:-1].mean()
    found = mean_miss(ranks, among, honest)
    assert found >= least
    assert found <= most + (1e-6 if len(ranks) == 1 else 0.015)  # two of 128 pieces


@given(st.data(), st.integers(2, 8), st.integers(1, 30), st.integers(0, 3))
@checks(150)
def test_liars_can_only_raise_the_threshold(data: st.DataObject, sites: int, n: int, tiny: int) -> None:
    """For any claims, and with honest sites that are too small: the honest ones alone promise as much."""
    liars = data.draw(st.integers(1, 4))
    counts = [data.draw(st.integers(0, n)) for _ in range(sites)]
    claims = data.draw(st.lists(st.one_of(st.integers(1, 40), st.integers(1, 2**32)), min_size=liars, max_size=liars))
    sent = [data.draw(st.sampled_from([0, claim // 2, claim])) for claim in claims]
    with_liars = fc.QuantileOfQuantiles(liars=liars, least_scores=n)
    alone = fc.QuantileOfQuantiles(liars=0, least_scores=n)
    small = [n - 1] * tiny if n > 1 else []
    promised = with_liars.promised([*counts, *small, *sent], [n] * sites + [*small, *claims])
    assert promised <= alone.promised([*counts, *small], [n] * sites + small)


@pytest.mark.parametrize(("sites", "alpha"), [(9, "0.2"), (12, "0.01"), (30, "0.1"), (100, "0.05")])
def test_a_third_is_withstood_from_one_over_alpha_scores_on(sites: int, alpha: str) -> None:
    n = int(1 / Fraction(alpha))
    for liars in (sites // 3, sites // 3 + 1):
        guarantee = fc.QuantileOfQuantiles(liars=liars, least_scores=n)
        huge = guarantee.promised([0] * liars + [n] * (sites - liars), [n] * sites)
        assert (huge >= 1 - Fraction(alpha)) == (liars == sites // 3)


def test_liars_do_not_choose_the_ranks() -> None:
    sites = [fc.Summary.of_scores(np.arange(20) + k / 10, kind="exact") for k in range(9)]
    with refused("quantile-of-quantiles: liars would choose the ranks", "give least_scores", "before calibration"):
        fc.calibrate(sites, guarantee=fc.QuantileOfQuantiles(liars=1))
    with refused("give least_scores"):
        fc.QuantileOfQuantiles(liars=1).promised([1, 1, 1], [2, 2, 2])


@pytest.mark.parametrize("least", [0, -1, 1.0, True, "9", 2**60 + 1, 10**400])
def test_bad_least_scores_are_refused(least: Any) -> None:
    with refused(param="least_scores"):
        fc.QuantileOfQuantiles(liars=1, least_scores=least)


def test_a_larger_least_is_asked_for() -> None:
    """With three scores no share above three quarters has a rank, however many scores the sites have."""
    words = shortfall(fc.QuantileOfQuantiles(liars=1, least_scores=3), TENTH, [1000] * 9, [])
    assert words == "least_scores is 3, needed: 8 or more"
    assert "7 more at site number 1" in shortfall(fc.QuantileOfQuantiles(liars=1, least_scores=20), TENTH, [13] * 9, [])
