"""Rank summaries of sites with many scores, and the check that they never promise too much.

A rank summary knows about a hundred of a site's scores. Whatever the others are, the true counts at the
threshold must reach the target: not on average but every single time. And from above, the counts strictly
below the threshold may exceed the target by no more than the gap that the summaries state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from scipy import stats

import fedconformal as fc
from fedconformal.summaries.ranks import RankSummary
from tests.validity.promises import Promise, every_site, fcp, mixture, one_site, weighted_mixture
from tests.validity.simulation import Floats, Site, coverage_by_site, draws, mean

ALPHA = 0.1
REPETITIONS = 20

DIFFERENT = (Site(stats.beta(2, 8), 1000), Site(stats.norm(), 301), Site(stats.cauchy(), 517))
TIED = (Site(stats.randint(0, 40), 1000), Site(stats.randint(10, 50), 301), Site(stats.randint(-50, 20), 517))
ALIKE = (Site(stats.norm(), 1000), Site(stats.norm(), 301), Site(stats.norm(), 517))
ONE = (Site(stats.expon(), 700),)

PROMISES: dict[str, Promise] = {
    "mixture": mixture(DIFFERENT, ALPHA),
    "mixture, ties": mixture(TIED, ALPHA, distinct=False),
    "mixture of one": mixture(ONE, ALPHA),
    "uniform": weighted_mixture(DIFFERENT, ALPHA),
    "given weights": weighted_mixture(DIFFERENT, ALPHA, ["0.2", "0.3", "0.5"]),
    "alike": mixture(ALIKE, ALPHA),
    "fcp": fcp(DIFFERENT, ALPHA),
    "one site": one_site(DIFFERENT, ALPHA, site=0),
    "every site": every_site(DIFFERENT, ALPHA),
}

Summarise = Callable[[list[Floats]], list[fc.Summary]]


def plain(scores: list[Floats]) -> list[fc.Summary]:
    """Spread the ranks evenly."""
    return [fc.Summary.of_scores(s) for s in scores]


def tilted(scores: list[Floats]) -> list[fc.Summary]:
    """Crowd the ranks around 1 - alpha."""
    return [fc.Summary.of_scores(s, alpha=ALPHA) for s in scores]


def sent(scores: list[Floats]) -> list[fc.Summary]:
    """Send and receive."""
    return [fc.Summary.from_bytes(summary.to_bytes()) for summary in tilted(scores)]


def merged(scores: list[Floats]) -> list[fc.Summary]:
    """Add up the bounds of three parts of each site, which keeps most scores."""
    parts = [[RankSummary.build(part.copy()) for part in np.split(s, [150, 160])] for s in scores]
    return [RankSummary.merge(some, sizes=(len(s),)) for some, s in zip(parts, scores, strict=True)]


def pooled(scores: list[Floats]) -> list[fc.Summary]:
    """Put all sites into one message."""
    return [fc.pool(tilted(scores))]


def check_certified(promise: Promise, summarise: Summarise, *, seed: int, repetitions: int = REPETITIONS) -> None:
    """Calibrate again and again; compare true counts with the target and coverage with the certificate."""
    thresholds = []
    for scores in draws(promise.sites, seed=seed, repetitions=repetitions):
        summaries = summarise(scores)
        result = fc.calibrate(summaries, alpha=promise.alpha, guarantee=promise.guarantee, exact=True)
        check_counts(promise, scores, summaries, float(result.threshold))
        thresholds.append(result.threshold)
    certificate = result.certificate
    assert certificate.status == "certified"
    by_site = coverage_by_site(promise.sites, np.array(thresholds))
    for shares in promise.mixtures:
        coverage, tolerance = mean(shares @ by_site)
        assert coverage >= certificate.coverage_at_least - tolerance
        assert coverage <= certificate.coverage_at_most + tolerance or not promise.distinct


def check_counts(promise: Promise, scores: list[Floats], summaries: Sequence[fc.Summary], q: float) -> None:
    """Compare the true counts at a threshold with the target."""
    at_most = [int(np.count_nonzero(s <= q)) for s in scores]
    assert promise.rule.reached(at_most), f"the counts {at_most} are not enough"
    gaps = [summary.gap for summary in summaries]
    gaps = gaps if len(gaps) == len(scores) else [sum(gaps)] + [0] * (len(scores) - 1)
    below = [int(np.count_nonzero(s < q)) - gap for s, gap in zip(scores, gaps, strict=True)]
    assert not promise.rule.reached(below), f"{below} would have been enough"


APART = [plain, tilted, sent, merged]


@pytest.mark.parametrize("promise", PROMISES.values(), ids=PROMISES)
@pytest.mark.parametrize("summarise", APART)
def test_the_target_is_always_reached(promise: Promise, summarise: Summarise) -> None:
    check_certified(promise, summarise, seed=13)


@pytest.mark.parametrize("name", ["mixture", "mixture, ties", "mixture of one", "alike", "fcp"])
def test_pooled_summaries_reach_it_too(name: str) -> None:
    check_certified(PROMISES[name], pooled, seed=14)


def test_these_summaries_really_leave_scores_out() -> None:
    (scores,) = draws(DIFFERENT, seed=16, repetitions=1)
    for summarise in [*APART, pooled]:
        assert all(summary.gap > 0 for summary in summarise(scores))
        assert sum(len(summary.points) for summary in summarise(scores)) < sum(map(len, scores))


def test_a_tilted_summary_costs_little() -> None:
    # Crowding the ranks around 1 - alpha keeps the counts close to the target of 630.9.
    (scores,) = draws(ONE, seed=17, repetitions=1)
    result = fc.calibrate(tilted(scores), alpha=ALPHA, exact=True)
    assert 631 <= (scores[0] <= result.threshold).sum() <= 634
