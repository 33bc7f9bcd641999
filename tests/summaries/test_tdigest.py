"""t-digest: read as fastdigest reads it, close to the exact threshold, and for good reason not certified."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from fastdigest import TDigest
from hypothesis import given

import fedconformal as fc
from fedconformal._base.arrays import Floats
from fedconformal.certificates import text
from fedconformal.summaries.tdigest import CENTROIDS, POOLED, TDigestSummary
from tests.contracts.tools import checks, vectors
from tests.summaries.test_format import check_decoded


def digest(scores: Any, **about: Any) -> TDigestSummary:
    summary = fc.Summary.of_scores(scores, kind="tdigest", **about)
    assert isinstance(summary, TDigestSummary)
    return summary


def theirs(summary: TDigestSummary) -> TDigest:
    """Put the same means into fastdigest, which merges nothing at 0."""
    weights: Any = summary.weights.astype(np.float64)
    means: Any = summary.means
    return TDigest.from_values(means, weights, max_centroids=0)


SHAPES: dict[str, Callable[[np.random.Generator, int], Floats]] = {
    "uniform": lambda rng, n: rng.random(n),
    "normal": lambda rng, n: rng.normal(size=n),
    "near one": lambda rng, n: 1 - rng.beta(0.1, 5, n),
    "two humps": lambda rng, n: np.where(rng.random(n) < 0.5, rng.normal(0, 0.1, n), rng.normal(5, 1, n)),
    "heavy tail": lambda rng, n: rng.lognormal(0, 2, n),
}


# --- the same as fastdigest ---


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("n", [101, 20_000])
def test_scores_are_gathered_and_counted_as_fastdigest_does(shape: str, n: int) -> None:
    """Its cdf runs from 0 to 1 as ranks run from 0 to n - 1; beyond the outer means it knows nothing.

    Of equal means it takes the first, so these are left out.
    """
    rng = np.random.default_rng(n)
    scores: Any = SHAPES[shape](rng, n)
    expected, summary = np.array(TDigest.from_values(scores, max_centroids=CENTROIDS).centroids), digest(scores)
    assert summary.weights.tolist() == expected[:, 1].tolist()
    assert np.allclose(summary.means, expected[:, 0], rtol=1e-12, atol=0)
    assert (summary.smallest, summary.largest) == (scores.min(), scores.max())
    inside = rng.uniform(summary.means[0], summary.means[-1], 500)
    inside = np.sort(np.append(inside, rng.choice(summary.means[1:-1], 200)))
    inside = inside[[np.count_nonzero(summary.means == q) <= 1 for q in inside]]
    other = theirs(summary)
    positions = np.array([other.cdf(q) for q in inside.tolist()]) * (n - 1)
    lower, upper = summary.bounds(inside)
    assert np.array_equal(lower, upper)
    assert (np.abs(lower - (np.floor(positions + 1e-6) + 1)) <= (np.abs(positions - np.round(positions)) < 1e-5)).all()


@pytest.mark.parametrize("alpha", [0.3, 0.02, 0.0001])
def test_the_threshold_of_many_scores_is_the_quantile_of_a_rank_nearby(alpha: float) -> None:
    n = 200_000
    summary = digest(np.random.default_rng(4).normal(size=n))
    result = fc.calibrate([summary], alpha=alpha, exact=True)
    rank, other = result.certificate.promises[0].rank, theirs(summary)
    assert rank is not None
    above = other.quantile(min(1.0, (rank - 1) / (n - 1) + min(1 / 4000, alpha / 40)))
    assert other.quantile((rank - 1 - 1e-3) / (n - 1)) <= result.threshold
    assert result.threshold <= max(above, summary.largest if alpha < 0.001 else above)
    assert len(summary.points) < 5000


@given(vectors(CENTROIDS))
@checks(60)
def test_few_scores_are_all_there(scores: Floats) -> None:
    summary = digest(scores)
    assert np.array_equal(summary.means, np.sort(scores))
    exact = fc.Summary.of_scores(scores, kind="exact")
    for q in np.unique(scores).tolist():
        assert summary.count_at_most(q) == exact.count_at_most(q)


def test_equal_scores_stay_equal() -> None:
    rng = np.random.default_rng(0)
    for scores in (np.full(1000, 0.1), rng.integers(0, 3, 1000) / 10 + 0.1):
        summary = TDigestSummary.merge([digest(scores)] * 3, sizes=(3000,))
        assert set(np.unique(scores)) <= set(summary.means)
        assert summary.means[0] == scores.min()
        assert summary.means[-1] == scores.max()
        assert summary.count_at_most(0.0999999) == (0, 0)


@pytest.mark.parametrize("scale", [1.7e308, 1e300, 1e-300, 5e-324])
def test_numbers_of_any_size(scale: float) -> None:
    rng = np.random.default_rng(1)
    scores = np.clip(rng.normal(size=3000), -1, 1) * scale
    summary = TDigestSummary.merge([digest(scores[:2000]), digest(scores[2000:])], sizes=(3000,))
    assert np.isfinite(summary.means).all()
    counts_at, _ = summary.bounds(np.sort(scores))
    exact, _ = fc.Summary.of_scores(scores, kind="exact").bounds(np.sort(scores))
    if scale > 1e-320:
        inside = (np.sort(scores) > -scale) & (np.sort(scores) < scale)
        assert (np.abs(counts_at - exact)[inside] < 0.02 * 3000).all()
    check_decoded(summary, summary.to_bytes())


# --- size ---


def test_a_site_sends_a_hundred_means_and_a_pool_five_thousand() -> None:
    rng = np.random.default_rng(2)
    parts = [digest(rng.random(1000), site=f"s{k}") for k in range(60)]
    assert all(90 <= len(part.means) <= CENTROIDS for part in parts)
    assert len(digest(rng.random(1000), score=fc.RAPS(), site="clinic-a", temperature=1.5).to_bytes()) < 1750
    pooled = fc.pool(parts)
    assert isinstance(pooled, TDigestSummary)
    assert 4900 <= len(pooled.means) <= POOLED
    assert pooled.sizes == (1000,) * 60
    few = fc.pool(parts[:3])
    assert isinstance(few, TDigestSummary)
    assert few.weights.sum() == 3000


# --- how good it is, and how it is not ---


def test_nothing_bounds_its_error() -> None:
    """Two scales in one centroid: the count between them is anything."""
    rng = np.random.default_rng(0)
    scores = np.concatenate([10.0 ** rng.uniform(-300, 0, 10_000)])
    summary = digest(scores)
    q = np.sort(scores)[4000:6000]
    assert (np.abs(summary.bounds(q)[0] - np.arange(4001, 6001)) > 0.005 * 10_000).any()


def test_one_estimate_makes_all_an_estimate() -> None:
    rng = np.random.default_rng(6)
    sites = [fc.Summary.of_scores(rng.random(300), kind=kind, site=kind) for kind in ("exact", "ranks", "tdigest")]
    mixed = fc.calibrate(sites, alpha=0.1).certificate
    assert (mixed.status, mixed.coverage_at_least, mixed.coverage_at_most) == ("estimated", 0.0, 1.0)
    assert "are estimated to hold" in text.sentence(mixed)
    assert fc.calibrate(sites[:2], alpha=0.1).certificate.status == "certified"
