"""Promises given the class: every class is covered by itself, although its rows lie unevenly at the sites.

How many rows of a class a site holds is part of the draw. Given the thresholds, the coverage of class c under
the mixture lambda is sum lambda_k p_kc F_kc(q_c) / sum lambda_k p_kc, exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

import fedconformal as fc
from fedconformal.guarantees.mixture import StratumShare
from tests.contracts.tools import promised_many
from tests.validity.lies import count_more
from tests.validity.simulation import Floats, Law, mean, uniform

pytestmark = pytest.mark.filterwarnings(
    "ignore::fedconformal.errors.ClassCountsWarning", "ignore::fedconformal.errors.InfeasibleWarning"
)

ALPHA = 0.2
REPETITIONS = 250
CLASSES = 3


@dataclass(frozen=True)
class Site:
    """How many calibration rows, how common each class is, and how the scores of each class are distributed."""

    size: int
    shares: tuple[float, ...]
    laws: tuple[Law, ...]

    def draw(self, rng: np.random.Generator) -> tuple[Floats, NDArray[np.int64]]:
        """Draw scores and labels."""
        labels = rng.choice(len(self.shares), p=self.shares, size=self.size)
        scores = np.empty(self.size)
        for label, law in enumerate(self.laws):
            mine = labels == label
            scores[mine] = law.ppf(rng.random(int(mine.sum())))
        return scores, labels


EASY, HARD = uniform(0, 1), uniform(2, 3)

# Class 0 is easy at the big site and hard at the small ones, class 1 the other way round, class 2 rare.
SITES = (
    Site(40, (0.5, 0.4, 0.1), (EASY, HARD, stats.norm())),
    Site(12, (0.4, 0.5, 0.1), (HARD, EASY, stats.cauchy())),
    Site(3, (0.9, 0.0, 0.1), (HARD, EASY, stats.norm(3, 1))),
)
BY_ROWS = np.array([site.size for site in SITES]) / sum(site.size for site in SITES)
UNIT = np.eye(3)


def drawn(sites: Sequence[Site], seed: int, repetitions: int = REPETITIONS) -> list[list[tuple[Floats, Any]]]:
    """Draw everybody's rows, again and again."""
    rng = np.random.default_rng(seed)
    return [[site.draw(rng) for site in sites] for _ in range(repetitions)]


def summarised(rows: Sequence[tuple[Floats, Any]], kind: str = "exact") -> list[fc.Summary]:
    """Summarise by class, as the sites do."""
    return [fc.Summary.of_scores(scores, kind=kind, labels=labels) for scores, labels in rows]


@cache
def sent(kind: str) -> list[list[fc.Summary]]:
    """Draw from `SITES` and summarise, once for all guarantees."""
    return [summarised(rows, kind) for rows in drawn(SITES, seed=5)]


def thresholds(guarantee: fc.Guarantee, draws: Sequence[Sequence[fc.Summary]]) -> Floats:
    """Calibrate on each draw; (repetitions, classes), +inf for a class that nobody happens to hold."""
    found = np.full((len(draws), CLASSES), np.inf)
    for i, summaries in enumerate(draws):
        limits = fc.calibrate(summaries, alpha=ALPHA, guarantee=fc.ByClass(guarantee), exact=True).certificate.limit
        assert isinstance(limits, np.ndarray)
        found[i, : len(limits)] = limits
    return found


def covered(sites: Sequence[Site], weights: Floats, q: Floats, label: int) -> Floats:
    """Return the coverage of one class under a mixture, for each of its thresholds."""
    share = weights * np.array([site.shares[label] for site in sites])
    by_site = np.stack([site.laws[label].cdf(q[:, label]) for site in sites])
    return np.asarray(share @ by_site / share.sum())


def check_kept(guarantee: fc.Guarantee, mixtures: Sequence[Floats], kind: str = "exact") -> None:
    """Compare the coverage of every class under every mixture with 1 - alpha."""
    q = thresholds(guarantee, sent(kind))
    for weights in mixtures:
        for label in range(CLASSES):
            if any(w * site.shares[label] for w, site in zip(weights, SITES, strict=True)):
                average, tolerance = mean(covered(SITES, np.asarray(weights), q, label))
                assert average >= 1 - ALPHA - tolerance, f"{average:.4f} is below {1 - ALPHA} for class {label}"


KEPT = {
    "by rows": (fc.Mixture(), [BY_ROWS]),
    "uniform": (fc.Mixture(weights="uniform"), [np.full(3, 1 / 3)]),
    "given": (fc.Mixture(weights=(0.2, 0.8, 0.0)), [np.array([0.2, 0.8, 0.0])]),
    "capped": (fc.Mixture(most_scores=12), [np.array([12, 12, 3]) / 27]),
    "one site": (fc.OneSite(site=1), [UNIT[1]]),
    "every site": (fc.EverySite(), list(UNIT)),
    "robust": (fc.Robust(liars=0), [BY_ROWS]),
}


@pytest.mark.parametrize("name", KEPT)
def test_every_class_is_covered(name: str) -> None:
    check_kept(*KEPT[name])


def test_small_summaries_lose_nothing() -> None:
    check_kept(*KEPT["by rows"], kind="ranks")


@pytest.mark.parametrize("name", ["by rows", "uniform", "given", "capped"])
def test_a_rank_too_low_is_seen(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    count_more(monkeypatch, StratumShare, more=2)
    with pytest.raises(AssertionError, match="is below"):
        check_kept(*KEPT[name])


# Half of the test rows are of a site with a hundred easy rows, all of the class. The others are of a site with one row,
# of the class about one time in three, and harder.
HEAVY = (Site(100, (1.0, 0.0), (EASY, EASY)), Site(1, (0.35, 0.65), (HARD, EASY)))
HALVES = np.full(2, 0.5)

# The class is hard at the first site and easy at the second, where it is rare although the site is big.
OTHER_MIXTURE = (Site(99, (1.0, 0.0), (HARD, EASY)), Site(399, (0.05, 0.95), (EASY, EASY)))
OTHER_WEIGHTS = np.array([99, 399]) / 498


def class_zero(rows: Sequence[tuple[Floats, Any]]) -> list[Floats]:
    """Return everybody's scores of class 0."""
    return [scores[labels == 0] for scores, labels in rows]


def priced(rows: Sequence[tuple[Floats, Any]], price: Callable[[list[int]], int]) -> float:
    """Take the smallest score with (m_1 + 100 m_2 - price) / (n_1 + 100 n_2) at least 0.9, n_k those of the class."""
    held = class_zero(rows)
    share = StratumShare(weights=(1, 100), price=price(list(map(len, held))))
    scores = np.unique(np.concatenate(held))
    counts = np.stack([np.count_nonzero(part[:, None] <= scores, axis=0) for part in held])
    enough = np.array(promised_many(share, counts, list(map(len, held)))) >= Fraction(9, 10)
    return float(scores[np.argmax(enough)]) if enough.any() else np.inf


def weighed_by_class_sizes(rows: Sequence[tuple[Floats, Any]]) -> float:
    """Weigh with lambda_k / n_kc, as if lambda were the mixture given the class."""
    held = [fc.Summary.of_scores(scores, kind="exact") for scores in class_zero(rows)]
    threshold = fc.calibrate(held, alpha=0.1, guarantee=fc.Mixture(weights=tuple(OTHER_WEIGHTS)), exact=True).threshold
    return float(threshold)


def right(rows: Sequence[tuple[Floats, Any]], guarantee: fc.Guarantee) -> float:
    """Calibrate by class."""
    limits = fc.calibrate(summarised(rows), alpha=0.1, guarantee=fc.ByClass(guarantee), exact=True).certificate.limit
    assert isinstance(limits, np.ndarray)
    return float(limits[0])


def test_the_price_of_the_sites_that_hold_the_class_is_too_small() -> None:
    """The row of the second site weighs as much as all others: its price is needed where it is of another class too."""
    draws = drawn(HEAVY, seed=6, repetitions=1000)
    holders = np.array([[priced(rows, lambda held: 100 if held[1] else 1)] for rows in draws])
    average, tolerance = mean(covered(HEAVY, HALVES, holders, 0))
    assert average == pytest.approx(0.65 * 91 / 101 * 0.5 / 0.675 + 0.35, abs=tolerance)  # .783
    assert average < 0.9 - tolerance
    everybody = np.array([[priced(rows, lambda _: 100)] for rows in draws])
    assert np.isinf(everybody).all()  # it is more than a tenth of all that there is
    found = np.array([[right(rows, fc.Mixture(weights="uniform"))] for rows in draws[:200]])
    average, tolerance = mean(covered(HEAVY, HALVES, found, 0))
    assert average >= 0.9 - tolerance


def test_weighing_by_the_class_sizes_promises_another_mixture() -> None:
    draws = drawn(OTHER_MIXTURE, seed=7, repetitions=250)
    q = np.array([[weighed_by_class_sizes(rows)] for rows in draws])
    average, tolerance = mean(covered(OTHER_MIXTURE, OTHER_WEIGHTS, q, 0))
    assert average < 0.8 - tolerance
    q = np.array([[right(rows, fc.Mixture())] for rows in draws])
    average, tolerance = mean(covered(OTHER_MIXTURE, OTHER_WEIGHTS, q, 0))
    assert 0.9 - tolerance <= average < 0.92


def test_a_site_without_rows_counts_against_the_class() -> None:
    """A tenth of the test rows is of a site that sent none; it may hold nothing but the class, which it finds hard."""
    sites = (Site(60, (0.5, 0.5), (EASY, EASY)), Site(40, (0.5, 0.5), (EASY, EASY)), Site(0, (1.0, 0.0), (HARD, EASY)))
    weights = (0.5, 0.4, 0.1)
    bound = fc.Mixture(weights=weights).bind((), [60, 40, 0], "class")
    found = []
    for rows in drawn(sites, seed=12, repetitions=600):
        held = class_zero(rows)
        scores, own = np.unique(np.concatenate(held)), list(map(len, held))
        counts = np.stack([np.count_nonzero(part[:, None] <= scores, axis=0) for part in held])
        enough = np.array(promised_many(bound, counts, own)) >= Fraction(7, 10)
        found.append([scores[np.argmax(enough)] if enough.any() else np.inf])
    average, tolerance = mean(covered(sites, np.array(weights), np.array(found), 0))
    assert np.isfinite(found).all()
    assert 0.7 - tolerance <= average < 0.75  # of the class, a fifth is hard, and never covered


def test_a_class_that_nobody_holds_is_in_every_set() -> None:
    rows = [(np.linspace(0, 1, 40), np.repeat([0, 2], 20))] * 2
    limits = fc.calibrate(summarised(rows), alpha=0.2, guarantee=fc.ByClass(), exact=True).certificate.limit
    assert isinstance(limits, np.ndarray)
    assert np.isfinite(limits).tolist() == [True, False, True]


def test_alike_sites_are_covered_and_not_much_more() -> None:
    alike = [Site(size, (0.7, 0.2, 0.1), (stats.norm(), stats.t(2), HARD)) for size in (40, 25, 5)]
    q = thresholds(fc.Mixture(), list(map(summarised, drawn(alike, seed=8))))
    for label in range(CLASSES):
        average, tolerance = mean(covered(alike, np.full(3, 1 / 3), q, label))
        assert average >= 1 - ALPHA - tolerance
        assert label == 2 or average < 1 - ALPHA + 0.06  # of the third class there are seven on average


def test_a_fresh_site_is_covered_in_every_class() -> None:
    kinds = (
        Site(6, (0.9, 0.1, 0.0), (EASY, HARD, EASY)),
        Site(20, (0.5, 0.5, 0.0), (HARD, EASY, EASY)),
        Site(2, (0.7, 0.3, 0.0), (stats.norm(), stats.cauchy(), EASY)),
    )
    rng = np.random.default_rng(9)
    draws = [[kinds[k].draw(rng) for k in rng.integers(0, 3, size=30)] for _ in range(200)]
    q = thresholds(fc.NewSite(), list(map(summarised, draws)))
    for label in range(2):
        average, tolerance = mean(covered(kinds, np.full(3, 1 / 3), q, label))
        assert average >= 1 - ALPHA - tolerance
        assert average < 0.95  # and not by covering everything


def test_pac_fails_no_more_often_than_stated_in_any_class() -> None:
    failure = 0.1
    draws = drawn(SITES, seed=10, repetitions=250)
    q = thresholds(fc.PAC(failure=failure), list(map(summarised, draws)))
    for label in range(CLASSES):
        failed = []
        for rows, limits in zip(draws, q, strict=True):
            held = np.array([np.count_nonzero(labels == label) for _, labels in rows])
            coverage = [site.laws[label].cdf(limits[label : label + 1])[0] for site in SITES]
            failed.append(bool(held.any()) and float(held @ coverage) < (1 - ALPHA) * held.sum())
        assert np.mean(failed) <= failure + 4 * (failure * (1 - failure) / len(draws)) ** 0.5


# Twenty sites hold one or two rows of the class each; easy at most of them, hard at some.
SPARSE = (*[Site(6, (0.3, 0.7), (EASY, EASY))] * 16, *[Site(6, (0.3, 0.7), (HARD, EASY))] * 4)


def test_a_class_takes_its_scores_from_all_sites_together() -> None:
    """About 36 rows of the class at twenty sites: rank ceil(0.8 N_c) + 1, where N_c + 20 would be out of reach."""
    weights = np.full(20, 1 / 20)
    q = thresholds(fc.Mixture(), list(map(summarised, drawn(SPARSE, seed=11, repetitions=250))))
    average, tolerance = mean(covered(SPARSE, weights, q, 0))
    assert np.isfinite(q[:, 0]).all()
    assert tolerance < 0.03
    assert 1 - ALPHA - tolerance <= average < 1 - ALPHA + 0.06
