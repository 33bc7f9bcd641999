"""Noise at each site: its law, its margins, and histograms that leave a site with it."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import msgspec
import numpy as np
import pytest
from scipy import stats

import fedconformal as fc
from fedconformal._base.arrays import Floats, Integers, keys_of
from fedconformal.privacy.local_dp import NoisyHistogram, calibrate_locally, noisy_histogram
from fedconformal.privacy.noise import MOVED, NoisyPlan, below, from_urn, in_cells, margins, shares
from fedconformal.summaries.format import ProvenanceHeader
from tests.contracts.tools import maybe_infeasible, refused

GRID = [*np.linspace(0.05, 1, 20).tolist(), math.inf]


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


@pytest.mark.parametrize("sites", [1, 7])
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


@pytest.mark.parametrize("limit", [1, 6, 255, 3 * 2**62])
def test_whole_numbers_are_equally_likely(limit: int) -> None:
    drawn = below(limit, 20_000)
    assert int(drawn.max()) < limit
    bins = min(limit, 6)
    # Of words below 2^64, those from 3 * 2^62 on would come out a second time as low numbers.
    seen = np.bincount(np.array([int(d) * bins // limit for d in drawn]), minlength=bins)
    assert bins == 1 or stats.chisquare(seen).pvalue > 1e-6


def test_replacing_a_row_moves_one_count() -> None:
    quiet = [noisy_histogram(part, epsilon=1000, site="a", grid=GRID).counts for part in ([0.1, 0.2], [0.1, 0.9])]
    assert (
        np.abs(np.array(quiet[0]) - np.array(quiet[1])).sum() == MOVED
    )  # at this epsilon there is no noise to speak of
    edges = noisy_histogram([0.05, 0.0501, 5.0], epsilon=1000, site="a", grid=GRID)
    assert (edges.counts[0], edges.counts[1], edges.counts[-1]) == (1, 1, 1)  # a score on an edge is at or below it


def test_what_leaves_a_site_has_that_noise_in_every_cell() -> None:
    fine, scores = np.append(np.linspace(0, 1, 4095), math.inf), np.random.default_rng(2).random(500)
    sent = [noisy_histogram(scores, epsilon=1, site="a", grid=fine).counts for _ in range(3)]
    noise = np.concatenate(np.array(sent) - in_cells(keys_of(scores), fine))
    p = math.exp(-1 / 2)
    assert fits(noise, discrete_laplace(p, 25), -25) > 1e-6


def test_the_margins_allow_for_the_noise_of_every_site() -> None:
    sites = [noisy_histogram(np.linspace(0, 1, 2000), epsilon=1, site=f"{k}", grid=GRID) for k in range(3)]
    privacy = calibrate_locally(sites).certificate.privacy
    assert privacy is not None
    one, three = (
        margins(Fraction(1), len(GRID), Fraction(draws), Fraction(privacy["failure"])).max() for draws in (1, 3)
    )
    assert one < three == privacy["margin"]


def test_each_candidate_is_wrong_no_more_often_than_its_share() -> None:
    """Any of 255 candidates may be the first to be taken, so each has a 255th of the failure rate."""
    cells, draws, failure = 256, 100_000, Fraction(1, 4)
    asked = margins(Fraction(1), cells, Fraction(1), failure, at=cells // 2)[0]
    # The noise of half of the cells is the difference of two negative binomial draws.
    noise = np.random.default_rng(3).negative_binomial(cells // 2, 1 - math.exp(-1 / MOVED), size=(4, draws))
    errors = (noise[0] - noise[1] - noise[2] + noise[3]) / 2
    assert (errors > asked).mean() <= failure / (cells - 1)
    assert (errors > asked / 2).mean() > failure / (cells - 1)


def test_what_the_counts_add_up_to_beyond_the_scores_is_taken_off() -> None:
    """Of 130 counts for 100 scores, 30 are noise: a third of it is taken off the first of three candidates."""
    plan = NoisyPlan(
        grid=np.array([0.5, 1, math.inf]),
        rank=90,
        covered=Fraction(89, 100),
        failure=Fraction(1, 64),
        margins=np.array([5, 5]),
    )
    assert plan.threshold([105, 21, 4], 100) == 0.5  # 105 - 10 is 90 + 5
    assert plan.threshold([104, 22, 4], 100) == 1
    assert plan.threshold([70, 44, 16], 100) == math.inf
    assert plan.threshold([95, 0, 5], 100) == 0.5
    assert plan.promised == Fraction(63, 64) * Fraction(89, 100)


def test_refusals() -> None:
    a, b = (noisy_histogram([0.1, 0.2], epsilon=1, site=name, grid=GRID) for name in "ab")
    with refused("each once"):
        calibrate_locally([a, a])
    with refused("another grid or epsilon"):
        calibrate_locally([a, noisy_histogram([0.1], epsilon=2, site="c", grid=GRID)])
    other = noisy_histogram(
        [0.1], epsilon=1, site="c", grid=GRID, provenance=fc.Summary.of_scores([0.1], model="m").provenance
    )
    with refused("'a' and 'c' do not go together"):
        calibrate_locally([a, other])
    with maybe_infeasible():
        assert calibrate_locally([a, b], alpha=1e-15).threshold == math.inf


def test_a_histogram_is_read_strictly() -> None:
    found = noisy_histogram([0.1, 0.2], epsilon=1, site="a", grid=GRID)
    data = found.to_bytes()
    assert NoisyHistogram.from_bytes(data) == found
    changes: list[dict[str, Any]] = [
        {"counts": found.counts[:-1]},
        {"grid": found.grid[::-1]},
        {"size": 0},
        {"epsilon": -1.0},
        {"site": "\n"},
        {"header": ProvenanceHeader(score=("none", ()))},
    ]
    altered = [msgspec.structs.replace(found, **change).to_bytes() for change in changes]
    for bad in (b"", data[:-1], data + b"\0", b"FCX1" + data[4:], data[:4] + b"\x90", *altered):
        with pytest.raises(fc.InputError):
            NoisyHistogram.from_bytes(bad)
