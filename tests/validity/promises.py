"""Each guarantee's promise on given sites, as its theorem states it, and the check that it is kept.

Nothing here is taken from the library: rule, band and mixture are written out a second time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

import fedconformal as fc
from tests.guarantees.plain_fractions import form, total
from tests.validity.integration import EveryCount, EveryMixture, Rule, WeightedCount, expected_coverage
from tests.validity.simulation import (
    REPETITIONS,
    Floats,
    Site,
    by_rows,
    calibrator,
    coverage_by_site,
    draws,
    mean,
    sizes,
    thresholds,
    with_next_rows,
)

INTEGRATION_ERROR = 1e-4


@dataclass(frozen=True, kw_only=True)
class Promise:
    """A guarantee on given sites: which counts are enough, and what coverage that promises to which mixtures."""

    guarantee: fc.Guarantee
    sites: tuple[Site, ...]
    alpha: float
    rule: Rule
    mixtures: tuple[Floats, ...]
    at_least: Fraction
    at_most: Fraction
    one_rank: float
    """The coverage that one score is worth; the check has to see it."""
    distinct: bool = True
    """Whether no two scores are equal; with ties the upper end does not hold."""

    def expected(self) -> list[float]:
        """Return the expected coverage under every mixture."""
        by_site = expected_coverage(self.sites, self.rule)
        return [float(mixture @ by_site) for mixture in self.mixtures]


def mixture(sites: Sequence[Site], alpha: float, *, distinct: bool = True) -> Promise:
    """Shares n_k / N: rank ceil((1 - alpha) N) + 1, and a band of one rank; one site: ceil((1 - alpha)(n + 1))."""
    N, K = sum(sizes(sites)), len(sites)
    whole, price = (N, 1) if K > 1 else (N + 1, 0)
    rank = rank_of(alpha, whole) + price
    return Promise(
        guarantee=fc.Mixture(),
        sites=tuple(sites),
        alpha=alpha,
        rule=WeightedCount((1,) * K, rank),
        mixtures=(by_rows(sites),),
        at_least=Fraction(rank - price, whole),
        at_most=Fraction(rank, whole),
        one_rank=1 / N,
        distinct=distinct,
    )


def fcp(sites: Sequence[Site], alpha: float, *, distinct: bool = True) -> Promise:
    """Theorem 1 of the paper: rank ceil((1 - alpha)(N + K)), and a band of K ranks."""
    N, K = sum(sizes(sites)), len(sites)
    rank = rank_of(alpha, N + K)
    return Promise(
        guarantee=fc.FCP(),
        sites=tuple(sites),
        alpha=alpha,
        rule=WeightedCount((1,) * K, rank),
        mixtures=(with_next_rows(sites),),
        at_least=Fraction(rank, N + K),
        at_most=Fraction(rank + K - 1, N + K),
        one_rank=1 / (N + K),
        distinct=distinct,
    )


def weighted_mixture(sites: Sequence[Site], alpha: float, weights: Sequence[str] | None = None) -> Promise:
    """Known weights lambda_k, or uniform ones.

    sum lambda_k m_k / n_k reaches 1 - alpha and the price, or sum lambda_k m_k / (n_k + 1) reaches 1 - alpha, whichever
    costs less.
    """
    shares = [Fraction(w) for w in weights] if weights else [Fraction(1, len(sites))] * len(sites)
    rows, price = form([shares], sizes(sites))
    worth = [share / n for share, n in zip(shares, rows, strict=True)]
    target = 1 - exact(alpha) + price
    whole = math.lcm(target.denominator, *(w.denominator for w in worth))
    common = math.gcd(*(int(w * whole) for w in worth))
    return Promise(
        guarantee=fc.Mixture(weights=tuple(map(float, shares)) if weights else "uniform"),
        sites=tuple(sites),
        alpha=alpha,
        rule=WeightedCount(tuple(int(w * whole) // common for w in worth), math.ceil(target * whole / common)),
        mixtures=(np.array([float(share) for share in shares]),),
        at_least=1 - exact(alpha),
        at_most=min(Fraction(1), 1 - exact(alpha) + (2 * price or total(worth))),
        one_rank=float(min(w for w in worth if w)),
    )


def one_site(sites: Sequence[Site], alpha: float, site: int) -> Promise:
    """Split conformal prediction at one site: rank ceil((1 - alpha)(n_k + 1)) out of n_k + 1, exactly."""
    n = sites[site].size
    rank = rank_of(alpha, n + 1)
    return Promise(
        guarantee=fc.OneSite(site=site),
        sites=tuple(sites),
        alpha=alpha,
        rule=WeightedCount(tuple(int(k == site) for k in range(len(sites))), rank),
        mixtures=(np.eye(len(sites))[site],),
        at_least=Fraction(rank, n + 1),
        at_most=Fraction(rank, n + 1),
        one_rank=1 / (n + 1),
    )


def every_site(sites: Sequence[Site], alpha: float) -> Promise:
    """Each site by itself: all counts reach their own rank; nothing is promised from above."""
    return Promise(
        guarantee=fc.EverySite(),
        sites=tuple(sites),
        alpha=alpha,
        rule=EveryCount(tuple(rank_of(alpha, n + 1) for n in sizes(sites))),
        mixtures=tuple(np.eye(len(sites))),
        at_least=1 - exact(alpha),
        at_most=Fraction(1),
        one_rank=1 / (max(sizes(sites)) + 1),
    )


def worst_case(
    guarantee: fc.WorstCase, sites: Sequence[Site], alpha: float, corners: Sequence[Sequence[Fraction]]
) -> Promise:
    """Every mixture of a set: the weighted count reaches 1 - alpha and the price of the set at each of its corners."""
    rows, price = form(corners, sizes(sites))
    return Promise(
        guarantee=guarantee,
        sites=tuple(sites),
        alpha=alpha,
        rule=EveryMixture(tuple(map(tuple, corners)), tuple(sizes(sites)), tuple(rows), 1 - exact(alpha) + price),
        mixtures=tuple(np.array([float(w) for w in corner]) for corner in corners),
        at_least=1 - exact(alpha),
        at_most=Fraction(1),
        one_rank=1 / (max(sizes(sites)) + 1),
    )


def check_kept(promise: Promise, *, seed: int, kind: str = "exact", repetitions: int = REPETITIONS) -> None:
    """Simulate: coverage is within the promised band, and is what integration expects."""
    calibrate = calibrator(promise.guarantee, promise.alpha, kind)
    drawn = draws(promise.sites, seed=seed, repetitions=repetitions)
    certificate = calibrate(drawn[0]).certificate
    assert certificate.coverage_at_least == float(promise.at_least)
    assert certificate.coverage_at_most == float(promise.at_most)
    by_site = coverage_by_site(promise.sites, thresholds(calibrate, drawn))
    for shares, expected in zip(promise.mixtures, promise.expected(), strict=True):
        check_mean(promise, shares @ by_site, expected)


def check_mean(promise: Promise, coverages: Floats, expected: float) -> None:
    """Compare simulated coverages with the band and with what is expected."""
    average, tolerance = mean(coverages)
    assert tolerance < 0.6 * promise.one_rank, f"a rank is not seen: {tolerance:.4f} against {promise.one_rank:.4f}"
    assert average >= promise.at_least - tolerance, f"{average:.4f} is below {float(promise.at_least):.4f}"
    if promise.distinct:
        assert average <= promise.at_most + tolerance, f"{average:.4f} is above {float(promise.at_most):.4f}"
    assert abs(average - expected) <= tolerance + INTEGRATION_ERROR, f"{average:.4f}, expected {expected:.4f}"


def exact(alpha: float) -> Fraction:
    """Read alpha as the decimal it was written as."""
    return Fraction(repr(alpha))


def rank_of(alpha: float, total: int) -> int:
    """Return ceil((1 - alpha) total), without rounding errors."""
    return math.ceil((1 - exact(alpha)) * total)
