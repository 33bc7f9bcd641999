"""The scores times -1, as a lower end needs them: counts stay bounds, and none is below the smallest score."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedconformal as fc
from fedconformal._base.arrays import Floats
from fedconformal.summaries.batch import SummaryBatch
from fedconformal.summaries.ranks import RankSummary, scheduled_ranks
from tests.contracts.tools import checks, probes, refused, true_counts, vectors

SIGNED = fc.Signed(lower=0.25)


def check_mirrored(summary: fc.Summary, scores: Floats) -> None:
    """Demand counts of -s that bracket the truth, rise, and end with all of them."""
    found = -summary
    q = probes(0.0 - scores, found.points.tolist())
    truth = true_counts(0.0 - scores, q)
    lower, upper = found.bounds(q)
    assert (lower <= truth).all()
    assert (truth <= upper).all()
    assert found.lower_counts[-1] == len(scores)
    assert (np.diff(found.lower_counts) >= 0).all()
    assert (np.diff(found.points) >= 0).all()
    assert np.array_equal(found.bounds(found.points)[0] >= found.lower_counts, np.ones(len(found.points), dtype=bool))
    assert found.sizes == summary.sizes


@pytest.mark.parametrize("kind", ["exact", "ranks"])
@given(vectors(40), vectors(20), st.sampled_from([None, 0.1, 0.6]))
@checks(40)
def test_counts_are_bracketed(kind: str, scores: Floats, more: Floats, alpha: float | None) -> None:
    site = fc.Summary.of_scores(scores, kind=kind, alpha=alpha, score=SIGNED, site="a")
    check_mirrored(site, scores)
    other = fc.Summary.of_scores(more, kind=kind, alpha=alpha, score=SIGNED, site="b")
    pooled = fc.Summary.from_bytes(fc.pool([site, other]).to_bytes())
    check_mirrored(pooled, np.append(scores, more))


@pytest.mark.parametrize("kind", ["ddsketch", "tdigest"])
def test_sketches_have_no_lower_end(kind: str) -> None:
    with refused("no certain lower end; send ranks or exact"):
        _ = -fc.Summary.of_scores([0.5], kind=kind, score=SIGNED)


def test_both_tails_are_fine() -> None:
    alpha, n = 0.1, 10_000
    site = fc.Summary.of_scores(np.arange(n) / 1.0, alpha=alpha, score=fc.Signed())
    assert isinstance(site, RankSummary)
    for summary in (site, (-site)):
        place = np.searchsorted(summary.lower_counts, 0.95 * n)
        assert summary.lower_counts[place] - 0.95 * n <= 10
        assert summary.lower_counts[place + 1] - summary.lower_counts[place - 1] <= 30
    assert site.lower[0] == 1
    assert len(site.points) <= 100
    assert len(site.to_bytes()) < 900


def test_a_site_that_hides_its_smallest_score_is_refused() -> None:
    plain = fc.Summary.of_scores(np.arange(500) / 1.0, site="a")
    with refused("site 'a'", "smallest score", "Signed"):
        _ = -plain


def test_batches_follow_the_same_ranks() -> None:
    rng = np.random.default_rng(3)
    sites = [fc.Summary.of_scores(rng.normal(size=n), alpha=0.2, score=SIGNED, site=f"s{n}") for n in (700, 701, 50)]
    together = SummaryBatch.from_bytes([site.to_bytes() for site in sites])
    for site, found in zip(sites, together, strict=True):
        assert isinstance(site, RankSummary)
        assert isinstance(found, RankSummary)
        assert np.array_equal(found.lower, site.lower)
        assert found.gap == site.gap


@given(st.integers(1, 400), st.integers(1, 60), st.sampled_from(["0.1", "0.5", None]), st.sampled_from(["1/4", "1/2"]))
@checks(60)
def test_first_and_last_rank_are_always_sent(n: int, points: int, alpha: str | None, lower: str) -> None:
    ranks = scheduled_ranks(n, points, None if alpha is None else Fraction(alpha), Fraction(lower))
    assert (ranks[0], ranks[-1]) == (1, n)
    assert (np.diff(ranks) > 0).all()
    assert len(ranks) <= max(2, points)
