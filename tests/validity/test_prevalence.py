"""`Prevalence` keeps its promise at a place with another mix of classes, and only if a class looks the same everywhere.

Classes play the sites: their rows are dealt to sites, and the promise is that of `Mixture`, `WorstCase` or `EverySite`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import fedconformal as fc
from tests.validity.lies import MISSED, count_more
from tests.validity.promises import Promise, check_mean
from tests.validity.settings import EASY, EVERY_SITE, HARD, WEIGHTS, WORST_CASE
from tests.validity.simulation import Floats, Site, coverage_by_site, draws, mean, uniform

pytestmark = pytest.mark.filterwarnings("ignore::fedconformal.errors.ClassCountsWarning")

CASES: dict[str, tuple[fc.Guarantee, Promise]] = {
    "known": (fc.Prevalence({0: 0.1, 1: 0.6, 2: 0.3}), WEIGHTS["given, against the sizes"]),
    "bounds": (fc.Prevalence({0: (0.2, 0.5), 1: (0.2, 0.6), 2: (0.2, 0.4)}), WORST_CASE["box"]),
    "unknown": (fc.Prevalence(), EVERY_SITE["one is harder"]),
}


def dealt(scores: Sequence[Floats], rng: np.random.Generator) -> list[fc.Summary]:
    """Deal the rows of all classes to three sites, as unevenly as it happens; sampling depends on the class only."""
    labels = np.repeat(np.arange(len(scores)), [len(part) for part in scores])
    values, of_site = np.concatenate(scores), rng.integers(0, 3, len(labels))
    return [
        fc.Summary.of_scores(values[of_site == k], kind="exact", labels=labels[of_site == k])
        for k in np.unique(of_site).tolist()
    ]


def check(guarantee: fc.Guarantee, promise: Promise) -> None:
    """Calibrate as a user does, and compare with the promise and with what is expected, under every mix of classes."""
    rng = np.random.default_rng(3)
    sent = [dealt(scores, rng) for scores in draws(promise.sites, seed=2)]
    limits = [fc.calibrate(sites, alpha=promise.alpha, guarantee=guarantee, exact=True).threshold for sites in sent]
    by_class = coverage_by_site(promise.sites, np.array(limits))
    for shares, expected in zip(promise.mixtures, promise.expected(), strict=True):
        check_mean(promise, shares @ by_class, expected)


@pytest.mark.parametrize("name", CASES)
def test_the_new_place_is_covered(name: str) -> None:
    check(*CASES[name])


@pytest.mark.parametrize("name", CASES)
def test_a_count_too_many_is_seen(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    count_more(monkeypatch, type(CASES[name][1].guarantee), capped=False)
    with pytest.raises(AssertionError, match=MISSED):
        check(*CASES[name])


def test_a_pooled_threshold_fails_at_another_place() -> None:
    """Nine in ten calibration rows are of the easy class, and nine in ten at the new place of the hard one."""
    classes, shares = (Site(EASY, 180), Site(uniform(0.5, 2.5), 20)), np.array([0.1, 0.9])
    rng = np.random.default_rng(5)
    drawn = [dealt(scores, rng) for scores in draws(classes, seed=4, repetitions=150)]

    def covered(guarantee: fc.Guarantee) -> float:
        limits = [fc.calibrate(sites, alpha=0.1, guarantee=guarantee, exact=True).threshold for sites in drawn]
        return mean(shares @ coverage_by_site(classes, np.array(limits, dtype=np.float64))).value

    assert covered(fc.Mixture()) < 0.5
    known, bounded = covered(fc.Prevalence({0: 0.1, 1: 0.9})), covered(fc.Prevalence({0: (0.05, 0.5)}))
    assert 0.9 <= known <= bounded <= 0.96


def test_a_class_that_differs_between_sites_voids_it() -> None:
    """The 48 rows of a class at one site are easy, its one row at the other is hard, and a tenth of the new place's."""
    sites, limits = (Site(EASY, 48), Site(HARD, 1)), []
    for scores in draws(sites, seed=6, repetitions=400):
        made = [fc.Summary.of_scores(part, kind="exact", labels=[0] * len(part)) for part in scores]
        limits.append(fc.calibrate(made, alpha=0.1, guarantee=fc.Prevalence({0: 1.0}), exact=True).threshold)
    average, tolerance = mean(np.array([0.9, 0.1]) @ coverage_by_site(sites, np.array(limits)))
    assert average == pytest.approx(0.9 * 45 / 49, abs=tolerance)  # .827
    assert average < 0.9 - tolerance
