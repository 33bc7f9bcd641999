"""Shares from unlabelled rows: bounds hold all together, and what they may fail by is taken off the promise."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import fedconformal as fc
from fedconformal._base.arrays import Integers
from fedconformal.guarantees import label_shift
from fedconformal.guarantees.guarantee import Promise
from fedconformal.guarantees.label_shift import confusion
from fedconformal.guarantees.prevalence import WithFailureProbability
from tests.validity.simulation import Floats, Site, coverage_by_site, draws, mean, uniform
from tests.validity.test_prevalence import summaries

pytestmark = pytest.mark.filterwarnings("ignore::fedconformal.errors.ClassCountsWarning")

FAILURE, ALPHA = 0.1, 0.2


def failures(repetitions: int = 100) -> float:
    """Return how often some share of six classes is outside its bounds; the model is nearly always right."""
    rng = np.random.default_rng(1)
    shares, table = np.array([0.3, 0.25, 0.2, 0.1, 0.1, 0.05]), 10**7 * np.eye(6, dtype=np.int64)
    missed = 0
    for counts in rng.multinomial(400, shares, size=repetitions):
        low, high = np.array(label_shift.share_bounds(table, counts, FAILURE)).T
        missed += not ((low <= shares) & (shares <= high)).all()
    return missed / repetitions


def most(chance: float, repetitions: int = 100) -> float:
    """Return what a share may reach by luck, but once in 10,000 times."""
    return float(stats.binom.ppf(1 - 1e-4, repetitions, chance)) / repetitions


def test_all_bounds_hold_together() -> None:
    assert failures() <= most(FAILURE)


def test_bounds_one_by_one_are_too_narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Red if each interval may fail as often as all together."""
    together = label_shift._intervals
    monkeypatch.setattr(label_shift, "_intervals", lambda counts, failure: together(counts, 42 * failure))
    assert failures() > 1.5 * most(FAILURE)


def test_bounds_with_a_confused_model_hold_too() -> None:
    rng = np.random.default_rng(2)
    shares, rates = np.array([0.15, 0.85]), np.array([[0.8, 0.2], [0.3, 0.7]])
    missed = []
    for _ in range(100):
        table = np.array([rng.multinomial(60, row) for row in rates])
        (low, high), _ = label_shift.share_bounds(table, rng.multinomial(150, shares @ rates), FAILURE)
        missed.append(not low <= shares[0] <= high)
    assert np.mean(missed) <= most(FAILURE)


CLASSES = (Site(uniform(0, 1), 60), Site(uniform(1, 2), 60))


def coverage_where_bounds_fail() -> tuple[float, float]:
    """Give exact shares, but in one of ten draws bounds that leave the hard class out; it has nine rows in ten."""
    shares, covered = np.array([0.1, 0.9]), []
    right, wrong = (fc.Prevalence({0: (p, p), 1: (1 - p, 1 - p)}, failure=FAILURE) for p in (0.1, 1.0))
    rng = np.random.default_rng(4)
    for place, scores in enumerate(draws(CLASSES, seed=3, repetitions=600)):
        q = fc.calibrate(
            summaries(scores, rng), alpha=ALPHA, guarantee=right if place % 10 else wrong, exact=True
        ).threshold
        covered.append(float(shares @ coverage_by_site(CLASSES, np.array([q]))[:, 0]))
    return mean(np.array(covered))


def test_what_bounds_fail_by_is_taken_off() -> None:
    average, tolerance = coverage_where_bounds_fail()
    assert 1 - ALPHA - tolerance <= average <= 1 - ALPHA + 0.06


def test_if_it_is_not_taken_off_coverage_falls_short(monkeypatch: pytest.MonkeyPatch) -> None:
    def all_of_it(self: WithFailureProbability, sizes: list[int]) -> tuple[Integers | None, Promise]:
        return self.of.grouped(sizes)

    monkeypatch.setattr(WithFailureProbability, "grouped", all_of_it)
    average, tolerance = coverage_where_bounds_fail()
    assert average < 1 - ALPHA - tolerance


def test_a_place_with_other_shares_is_covered_from_its_unlabelled_rows() -> None:
    """The same rows calibrate and fill the table; nine in ten are easy, and one in ten at the place."""
    rng, covered, pooled = np.random.default_rng(5), list[float](), list[float]()
    for _ in range(80):
        truth = (rng.random(600) < 0.1).astype(np.int64)
        probs, place = rows(truth, rng), rows((rng.random(800) < 0.9).astype(np.int64), rng)
        scores = fc.LAC().evaluate(probs, truth)
        sites = [fc.Summary.of_scores(scores[k::3], kind="exact", labels=truth[k::3]) for k in range(3)]
        found = fc.Prevalence.from_unlabelled(confusion(probs, truth), place, failure=0.02)
        for guarantee, kept in ((found, covered), (fc.Mixture(), pooled)):
            q = fc.calibrate(sites, alpha=ALPHA, guarantee=guarantee, exact=True).certificate.limit
            assert isinstance(q, float)
            kept.append(0.1 * chance(q, 0) + 0.9 * chance(q, 1))
    average, tolerance = mean(np.array(covered))
    assert average >= 1 - ALPHA - tolerance
    assert np.mean(pooled) < 0.6


LAWS = (stats.norm(-1.2, 0.6), stats.norm(0.4, 1.0))
"""Of the log odds of class 1, by class: class 1 is the hard one."""


def rows(truth: Integers, rng: np.random.Generator) -> Floats:
    odds = np.where(truth == 0, LAWS[0].rvs(len(truth), random_state=rng), LAWS[1].rvs(len(truth), random_state=rng))
    p = 1 / (1 + np.exp(-odds))
    return np.stack([1 - p, p], axis=1)


def chance(q: float, label: int) -> float:
    """Return how often the score of a row of this class is at most q."""
    if q >= 1:
        return 1.0
    return float(LAWS[0].cdf(np.log(q / (1 - q))) if label == 0 else LAWS[1].sf(-np.log(q / (1 - q))))
