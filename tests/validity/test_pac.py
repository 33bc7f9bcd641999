"""A PAC threshold falls short no more often than stated, for any sites.

Let q* be where the mixture's coverage reaches 1 - alpha. The threshold, the r-th smallest score, falls short
exactly if r scores lie below q*. So the failure rate is the upper tail of a sum of independent indicators with
chances F_k(q*-), a Poisson binomial; it is worked out and not simulated.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from scipy import optimize, stats

import fedconformal as fc
from tests.validity.lies import count_more
from tests.validity.promises import exact
from tests.validity.settings import EASY, HARD
from tests.validity.simulation import (
    STANDARD_ERRORS,
    Floats,
    Site,
    by_rows,
    calibrator,
    coverage_by_site,
    draws,
    sizes,
    thresholds,
    uniform,
)

ALPHA, FAILURE = 0.1, 0.05

FEDERATIONS: dict[str, tuple[Site, ...]] = {
    "alike": (Site(stats.norm(), 250), Site(stats.norm(), 250)),
    "shifted": tuple(Site(stats.norm(shift), 100) for shift in (0, 0.5, 1, 1.5, 2)),
    "apart": (Site(EASY, 300), Site(uniform(0.5, 2.5), 150), Site(HARD, 50)),
    "one of ten is hopeless": (Site(EASY, 449), Site(HARD, 51)),
    "small": (Site(stats.cauchy(), 20), Site(HARD, 15), Site(stats.norm(), 10)),
    "large": (Site(stats.t(3), 4000), Site(EASY, 1500)),
}


def chances(sites: Sequence[Site], alpha: float) -> Floats:
    """Return F_k(q*) where the mixture covers 1 - alpha; the laws are continuous."""
    short = lambda q: float(by_rows(sites) @ coverage_by_site(sites, np.array(q))) - (1 - alpha)  # noqa: E731
    return coverage_by_site(sites, np.array(optimize.brentq(short, -1e3, 1e3, xtol=1e-14)))


def failure_rate(sites: Sequence[Site], alpha: float, rank: int) -> float:
    """Return the chance that at least `rank` scores lie below q*."""
    law = np.ones(1)
    for site, chance in zip(sites, chances(sites, alpha), strict=True):
        law = np.convolve(law, stats.binom.pmf(np.arange(site.size + 1), site.size, chance))
    return float(law[rank:].sum())


def rank_of(sites: Sequence[Site], alpha: float = ALPHA, failure: float = FAILURE) -> int:
    return fc.PAC(failure=failure).rank(exact(alpha), sizes(sites))[0]


@pytest.mark.parametrize(("alpha", "failure"), [(0.1, 0.05), (0.2, 0.01), (0.1, 0.7), (0.37, 0.3)])
@pytest.mark.parametrize("sites", FEDERATIONS.values(), ids=FEDERATIONS)
def test_it_fails_no_more_often_than_stated(sites: tuple[Site, ...], alpha: float, failure: float) -> None:
    assert failure_rate(sites, alpha, rank_of(sites, alpha, failure)) <= failure + 1e-9


@pytest.mark.parametrize("name", ["alike", "small", "large"])
def test_a_rank_less_fails_too_often_on_alike_sites(name: str) -> None:
    alike = tuple(Site(stats.norm(), n) for n in sizes(FEDERATIONS[name]))
    slack = 1 if name != "large" else 2  # above 5,000 scores tails are rounded outward
    assert failure_rate(alike, ALPHA, rank_of(alike)) <= FAILURE < failure_rate(alike, ALPHA, rank_of(alike) - slack)


def check_failure_rate(sites: tuple[Site, ...], repetitions: int = 500) -> None:
    """Calibrate as a user does, and count how often coverage comes out below 1 - alpha."""
    calibrate = calibrator(fc.PAC(failure=FAILURE), ALPHA)
    q = thresholds(calibrate, draws(sites, seed=41, repetitions=repetitions))
    rate = float(np.mean(by_rows(sites) @ coverage_by_site(sites, q) < 1 - ALPHA))
    expected = failure_rate(sites, ALPHA, rank_of(sites))
    tolerance = STANDARD_ERRORS * (expected * (1 - expected) / repetitions) ** 0.5
    assert abs(rate - expected) <= tolerance, f"{rate:.4f}, expected {expected:.4f}"
    assert rate <= FAILURE + tolerance


SMALL = {"alike": (Site(stats.norm(), 40), Site(stats.norm(), 24)), "different": FEDERATIONS["small"]}


@pytest.mark.parametrize("sites", SMALL.values(), ids=SMALL)
def test_simulated_failures(sites: tuple[Site, ...]) -> None:
    check_failure_rate(sites)


def test_a_rank_too_low_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    count_more(monkeypatch, fc.PAC, [0], capped=False)
    with pytest.raises(AssertionError, match="expected"):
        check_failure_rate(SMALL["alike"])


def test_without_hoeffdings_condition_it_fails() -> None:
    """Nine easy scores of ten: all lie below q*, always, and rank 9 never covers 90%."""
    sites = (Site(EASY, 9), Site(uniform(2, 3), 1))
    assert stats.binom.sf(8, 10, 0.9) < 0.8  # the binomial tail alone would be content with rank 9
    q = draws(sites, seed=42, repetitions=200)
    ninth = np.array([np.sort(np.concatenate(scores))[8] for scores in q])
    assert (by_rows(sites) @ coverage_by_site(sites, ninth) < 0.9).all()
    assert rank_of(sites, 0.1, 0.8) == 10
    tenth = np.array([np.concatenate(scores).max() for scores in q])
    assert (by_rows(sites) @ coverage_by_site(sites, tenth) >= 0.9).all()


def test_it_holds_for_each_alpha_and_not_for_all_at_once() -> None:
    """The draws that fail at one alpha are not those that fail at another: together they are more than stated."""
    size, alphas = 100, [Fraction(i, 20) for i in range(1, 20)]
    scores = np.sort(np.random.default_rng(5).random((20_000, size)), axis=1)  # their coverage is the score itself
    ranks = [fc.PAC(failure=FAILURE).rank(alpha, [size])[0] for alpha in alphas]
    short = np.stack(
        [scores[:, rank - 1] < float(1 - alpha) for alpha, rank in zip(alphas, ranks, strict=True) if rank <= size]
    )
    tolerance = STANDARD_ERRORS * (FAILURE / len(scores)) ** 0.5
    assert short.mean(axis=1).max() <= FAILURE + tolerance
    assert short.any(axis=0).mean() > 3 * FAILURE
