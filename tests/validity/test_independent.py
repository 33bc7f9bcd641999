"""`Independent` keeps its promise on average, whatever the sites; the rank that ignores that sites differ does not.

Expected coverage is integrated, not simulated, so a shortfall of a tenth of a rank is seen.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from scipy import stats

import fedconformal as fc
from fedconformal._base.arrays import Integers
from tests.validity.integration import WeightedCount, expected_coverage
from tests.validity.lies import miscount
from tests.validity.promises import INTEGRATION_ERROR, exact
from tests.validity.settings import DIFFERENT, EASY, HARD
from tests.validity.simulation import Site, calibrator, coverage_by_client, draws, mean, sizes, thresholds, uniform

PATTERNS: dict[str, tuple[Site, ...]] = {
    "alike": (Site(stats.norm(), 30),) * 3,
    "different": DIFFERENT,
    "a big easy site and hard rows": (Site(EASY, 80), *[Site(HARD, 1)] * 20),
    "a big hard site and easy rows": (Site(HARD, 80), *[Site(EASY, 1)] * 20),
    "sites of one row": tuple(Site(stats.norm(k % 3), 1) for k in range(24)),
    "unequal": (Site(stats.t(2), 70), Site(uniform(0.5, 2.5), 20), Site(stats.cauchy(1), 3)),
    "as many hard rows as may be missed": (Site(EASY, 72), Site(HARD, 8)),
    "one more hard row": (Site(EASY, 72), Site(HARD, 9)),
    "half and half": (Site(EASY, 40), Site(HARD, 40)),
    "shifted": tuple(Site(stats.norm(shift), 20) for shift in (0, 1, 2, 3)),
}


@cache
def mean_coverage(sites: tuple[Site, ...], rank: int) -> float:
    """Return the expected coverage of the mixture in proportion to n_k at the rank-th smallest score."""
    shares = np.array(sizes(sites)) / sum(sizes(sites))
    return float(shares @ expected_coverage(sites, WeightedCount((1,) * len(sites), rank)))


@pytest.mark.parametrize("alpha", [0.1, 0.2, 0.35])
@pytest.mark.parametrize("sites", PATTERNS.values(), ids=PATTERNS)
def test_every_rank_covers_what_it_promises(sites: tuple[Site, ...], alpha: float) -> None:
    size = sum(sizes(sites))
    for rank in {fc.Independent().rank(exact(alpha), sizes(sites))[0], size // 2, size - 1, size}:
        if rank <= size:
            promised = fc.Independent().promised([rank], [size])
            assert mean_coverage(sites, rank) >= float(promised) - INTEGRATION_ERROR


@pytest.mark.parametrize(("size", "rank"), [(5, 4), (10, 8), (19, 18), (39, 36), (100, 99)])
def test_one_rank_less_falls_short(size: int, rank: int) -> None:
    """Only as many easy rows as the rank counts: that covers what the rank promises, and not what the next does."""
    covered = mean_coverage((Site(EASY, rank), Site(HARD, size - rank)), rank)
    assert covered == pytest.approx(rank / (rank + 1) * rank / size, abs=INTEGRATION_ERROR)
    here, next_one = (float(fc.Independent().promised([found], [size])) for found in (rank, rank + 1))
    assert here <= covered + INTEGRATION_ERROR
    assert covered < next_one - INTEGRATION_ERROR


def test_the_rank_for_alike_sites_falls_short() -> None:
    """Red without the price: ceil((1 - alpha)(N + 1)) = 18 of 19 rows, of which one is hard."""
    sites = (Site(EASY, 18), Site(HARD, 1))
    assert fc.Exchangeable().rank(Fraction(1, 10), sizes(sites)) == (18, 20)
    assert mean_coverage(sites, 18) < 0.9 - INTEGRATION_ERROR
    assert fc.Independent().rank(Fraction(1, 10), sizes(sites))[0] == 19


def test_a_count_too_many_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def one_more(counts: Integers, sizes: list[int]) -> Integers:
        more = counts.copy()
        more[0] += 1
        return more

    miscount(monkeypatch, fc.Independent, one_more)
    with pytest.raises(AssertionError, match="below"):
        check_mean_of_users((Site(EASY, 18), Site(HARD, 1)), 0.07)


def check_mean_of_users(sites: tuple[Site, ...], alpha: float) -> None:
    """Calibrate as a user does, and compare the mean coverage with the promise and with what is expected."""
    q = thresholds(calibrator(fc.Independent(), alpha), draws(sites, seed=7, repetitions=500))
    shares = np.array(sizes(sites)) / sum(sizes(sites))
    average, tolerance = mean(shares @ coverage_by_client(sites, q))
    assert average >= 1 - alpha - tolerance, f"{average:.4f} is below {1 - alpha:.4f}"
    rank = fc.Independent().rank(exact(alpha), sizes(sites))[0]
    assert abs(average - mean_coverage(sites, rank)) <= tolerance + INTEGRATION_ERROR


@pytest.mark.parametrize("name", ["a big easy site and hard rows", "different"])
def test_simulated_as_a_user_does(name: str) -> None:
    check_mean_of_users(PATTERNS[name], 0.2)
