"""Ranks and shares: the paper's shares, n_k + 1, need rank ceil((1 - alpha)(N + K)), and n_k / N does not.

One site has many easy scores, the others one hard score each, and the hard test rows are all missed. Under shares
n_k + 1 a site of one row counts twice, and rank r covers exactly r / (N + K): the ranks of one pool, from N + 1, cover
.883 at .9. Under shares n_k / N the same rank covers as much as it promises.

All rows weigh alike under shares n_k / N, so it does not matter whose they are: sites may come pooled. The paper's
theorem counts sites, so a pool says how many it holds.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import fedconformal as fc
from tests.validity.promises import rank_of
from tests.validity.settings import BIG_EASY_SITE, EASY, HARD
from tests.validity.simulation import (
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

FULL_SIZE = (Site(EASY, 1000), *[Site(HARD, 1)] * 20)
FEDERATIONS = [pytest.param(BIG_EASY_SITE, 0.2, 500, id="small"), pytest.param(FULL_SIZE, 0.1, 100, id="full size")]
federations = pytest.mark.parametrize(("sites", "alpha", "repetitions"), FEDERATIONS)


def covered_by_rank(sites: tuple[Site, ...], rank: int) -> float:
    """Return r / (N + K): the coverage of the paper's shares where the hard rows are all missed."""
    return rank / (sum(sizes(sites)) + len(sites))


@federations
@pytest.mark.parametrize("way", ["apart", "pooled", "pooled as one site"])
def test_the_paper_covers_its_shares(sites: tuple[Site, ...], alpha: float, repetitions: int, way: str) -> None:
    """Unless a pool forgets K."""

    def pooled(scores: list[Floats]) -> fc.Predictor:
        parts = [np.concatenate(scores)] if way == "pooled as one site" else scores
        summary = fc.pool([fc.Summary.of_scores(part, kind="exact") for part in parts])
        return fc.calibrate([summary], alpha=alpha, guarantee=fc.FCP(), exact=True)

    calibrate = calibrator(fc.FCP(), alpha) if way == "apart" else pooled
    q = thresholds(calibrate, draws(sites, seed=3, repetitions=repetitions))
    coverage, tolerance = mean(with_next_rows(sites) @ coverage_by_site(sites, q))
    counted = 1 if way == "pooled as one site" else len(sites)
    rank = rank_of(alpha, sum(sizes(sites)) + counted)
    assert coverage == pytest.approx(covered_by_rank(sites, rank), abs=tolerance)
    assert (coverage >= 1 - alpha - tolerance) == (counted > 1)


@federations
def test_the_mixture_covers_shares_by_rows_and_not_the_papers(
    sites: tuple[Site, ...], alpha: float, repetitions: int
) -> None:
    N, easy = sum(sizes(sites)), sites[0].size
    rank = rank_of(alpha, N) + 1
    q = thresholds(calibrator(fc.Mixture(), alpha), draws(sites, seed=3, repetitions=repetitions))
    coverage, tolerance = mean(with_next_rows(sites) @ coverage_by_site(sites, q))
    assert coverage == pytest.approx(covered_by_rank(sites, rank), abs=tolerance)
    assert coverage < 1 - alpha - 2 * tolerance
    coverage, tolerance = mean(by_rows(sites) @ coverage_by_site(sites, q))
    assert coverage == pytest.approx(easy / N * rank / (easy + 1), abs=tolerance)
    assert coverage >= 1 - alpha - tolerance


def test_the_figures_of_the_full_size_case() -> None:
    assert round(covered_by_rank(FULL_SIZE, rank_of(0.1, 1041)), 4) == 0.9001
    assert round(covered_by_rank(FULL_SIZE, rank_of(0.1, 1021)), 3) == 0.883
    assert round(covered_by_rank(FULL_SIZE, rank_of(0.1, 1020) + 1), 3) == 0.883


@pytest.mark.parametrize("kind", ["exact", "ranks"])
def test_three_messages_are_300_sites(kind: str) -> None:
    """Three poolers of a hundred sites each; half of the sites have one hard score."""
    many = tuple(site for n in (2, 3, 4) * 50 for site in (Site(EASY, n), Site(HARD, 1)))
    N, K = sum(sizes(many)), len(many)
    for scores in draws(many, seed=10, repetitions=3):
        apart = [fc.Summary.of_scores(s, kind=kind) for s in scores]
        pooled = [fc.pool(apart[start : start + 100]) for start in (0, 100, 200)]
        for guarantee, rank, out_of in (
            (fc.Mixture(), math.ceil(N / 2) + 1, N),
            (fc.FCP(), math.ceil((N + K) / 2), N + K),
        ):
            for sent in (apart, pooled, [fc.pool(pooled)]):
                result = fc.calibrate(sent, alpha=0.5, guarantee=guarantee, exact=True)
                promise = result.certificate.promises[0]
                assert (result.certificate.sites, promise.rank, promise.rank_out_of) == (K, rank, out_of)
                assert result.threshold == np.sort(np.concatenate(scores))[rank - 1]
