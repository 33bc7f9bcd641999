"""`Prevalence` keeps its promise at a place with another mix of classes, and only if a class looks the same everywhere.

Classes play the sites, so the expected coverage of every class is integrated from the counts of the classes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

import fedconformal as fc
from tests.guarantees.plain_fractions import form
from tests.validity.integration import EveryCount, EveryMixture, Rule, WeightedCount, expected_coverage
from tests.validity.lies import count_more
from tests.validity.promises import INTEGRATION_ERROR
from tests.validity.settings import EASY, HARD
from tests.validity.simulation import Floats, Site, coverage_by_site, draws, mean, sizes, uniform

pytestmark = pytest.mark.filterwarnings("ignore::fedconformal.errors.ClassCountsWarning")

ALPHA = Fraction(1, 5)
REPETITIONS = 400

CLASSES: dict[str, tuple[Site, ...]] = {
    "a rare hard class": (Site(EASY, 40), Site(HARD, 6)),
    "three classes": (Site(stats.norm(), 20), Site(stats.norm(2, 0.5), 9), Site(stats.cauchy(1), 5)),
    "alike": (Site(uniform(0, 1), 12), Site(uniform(0, 1), 7)),
}
PAPER = "a tiny class has most of the weight"
CLASSES[PAPER] = (Site(uniform(0, 1), 30), Site(uniform(0, 1), 8))
"""pi_c / N_c of the second is 0.1125, and the sum of pi_c / (N_c + 1) 0.1032."""
SHARES: dict[str, tuple[float, ...]] = {
    PAPER: (0.1, 0.9),
    "a rare hard class": (0.4, 0.6),
    "three classes": (0.1, 0.6, 0.3),
    "alike": (0.5, 0.5),
}
BOUNDS = (0.1, 0.7)
"""Of the first class."""


def exact(shares: Sequence[float]) -> tuple[Fraction, ...]:
    return tuple(Fraction(str(share)) for share in shares)


def counted(classes: Sequence[Site], shares: Sequence[float], *, free: bool = False) -> WeightedCount:
    """Write sum pi_c m_c / N_c >= 1 - alpha + max pi_c / N_c in whole numbers, or the other form if it costs less.

    If `free`, nothing is paid.
    """
    rows, price = form([exact(shares)], sizes(classes))
    rows, price = (sizes(classes), Fraction(0)) if free else (rows, price)
    worth = [share / n for share, n in zip(exact(shares), rows, strict=True)]
    whole = math.lcm(*(w.denominator for w in worth))
    weights = tuple(int(w * whole) for w in worth)
    common = math.gcd(*weights)
    return WeightedCount(tuple(w // common for w in weights), math.ceil((1 - ALPHA + price) * whole / common))


def box_ends(classes: Sequence[Site]) -> tuple[tuple[Fraction, ...], ...]:
    """Return the corners of the box: bounds on the first class, and all that is left on one other."""
    corners = []
    for first in exact(BOUNDS):
        for place in range(1, len(classes)):
            rest = tuple((1 - first) * (k == place) for k in range(1, len(classes)))
            corners.append((first, *map(Fraction, rest)))
    return tuple(corners)


def summaries(scores: Sequence[Floats], rng: np.random.Generator, sites: int = 3) -> list[fc.Summary]:
    """Deal the rows of all classes to sites, as unevenly as it happens; sampling depends on the class only."""
    labels = np.repeat(np.arange(len(scores)), [len(part) for part in scores])
    values = np.concatenate(scores)
    of_site: NDArray[np.int64] = rng.integers(0, sites, len(values))
    return [
        fc.Summary.of_scores(values[of_site == k], kind="exact", labels=labels[of_site == k])
        for k in range(sites)
        if (of_site == k).any()
    ]


def calibrated(classes: Sequence[Site], guarantee: fc.Guarantee) -> Floats:
    rng = np.random.default_rng(3)
    drawn = draws(classes, seed=2, repetitions=REPETITIONS)
    limits = [
        fc.calibrate(summaries(scores, rng), alpha=ALPHA, guarantee=guarantee, exact=True).threshold for scores in drawn
    ]
    return np.array(limits, dtype=np.float64)


def check(classes: Sequence[Site], guarantee: fc.Guarantee, rule: Rule, mixtures: Sequence[Sequence[float]]) -> None:
    """Calibrate as a user does, and compare with the promise and with what is expected, under every mix of classes."""
    by_class = coverage_by_site(classes, calibrated(classes, guarantee))
    expected = expected_coverage(classes, rule)
    for shares in mixtures:
        average, tolerance = mean(np.asarray(shares) @ by_class)
        assert average >= 1 - ALPHA - tolerance, f"{average:.4f} is below {float(1 - ALPHA)}"
        assert float(np.asarray(shares) @ expected) >= 1 - ALPHA - INTEGRATION_ERROR
        assert abs(average - float(np.asarray(shares) @ expected)) <= tolerance + INTEGRATION_ERROR, "not as expected"


@pytest.mark.parametrize("name", CLASSES)
def test_known_shares_are_covered(name: str) -> None:
    classes, shares = CLASSES[name], SHARES[name]
    check(classes, fc.Prevalence(dict(enumerate(shares))), counted(classes, shares), [shares])
    price = float(form([exact(shares)], sizes(classes)).price)
    above = 2 * price or sum(share / (site.size + 1) for share, site in zip(shares, classes, strict=True))
    most = float(np.asarray(shares) @ expected_coverage(classes, counted(classes, shares)))
    assert most <= 1 - ALPHA + above + INTEGRATION_ERROR  # the upper end of the certificate


@pytest.mark.parametrize("name", CLASSES)
def test_all_shares_within_the_bounds_are_covered(name: str) -> None:
    classes = CLASSES[name]
    corners = box_ends(classes)
    rows, price = form(corners, sizes(classes))
    rule = EveryMixture(corners, tuple(sizes(classes)), tuple(rows), 1 - ALPHA + price)
    check(classes, fc.Prevalence({0: BOUNDS}), rule, [tuple(map(float, corner)) for corner in corners])


@pytest.mark.parametrize("name", CLASSES)
def test_every_class_is_covered_if_nothing_is_known(name: str) -> None:
    classes = CLASSES[name]
    rule = EveryCount(tuple(math.ceil((1 - ALPHA) * (n + 1)) for n in sizes(classes)))
    check(classes, fc.Prevalence(), rule, np.eye(len(classes)).tolist())


def test_without_the_price_it_falls_short() -> None:
    """Red with sum pi_c m_c / N_c alone."""
    classes, shares = CLASSES["alike"], SHARES["alike"]
    wrong = float(np.asarray(shares) @ expected_coverage(classes, counted(classes, shares, free=True)))
    assert wrong < 1 - ALPHA - 0.02


@pytest.mark.parametrize(
    ("guarantee", "kind", "shares"),
    [
        (fc.Prevalence({0: 0.4, 1: 0.6}), fc.Mixture, (0.4, 0.6)),
        (fc.Prevalence({0: BOUNDS}), fc.WorstCase, (0.1, 0.9)),
        (fc.Prevalence(), fc.EverySite, (0.0, 1.0)),
    ],
    ids=["known", "bounds", "unknown"],
)
def test_a_count_too_many_is_seen(
    monkeypatch: pytest.MonkeyPatch, guarantee: fc.Guarantee, kind: type[fc.Guarantee], shares: tuple[float, ...]
) -> None:
    count_more(monkeypatch, kind)
    classes = CLASSES["a rare hard class"]
    with pytest.raises(AssertionError, match="is below"):
        check(classes, guarantee, counted(classes, shares), [shares])


def test_a_pooled_threshold_fails_at_another_place() -> None:
    """Nine in ten calibration rows are of the easy class, and nine in ten at the new place of the hard one."""
    classes = (Site(EASY, 180), Site(uniform(0.5, 2.5), 20))
    rng = np.random.default_rng(5)
    drawn = [summaries(scores, rng) for scores in draws(classes, seed=4, repetitions=150)]
    shares = np.array([0.1, 0.9])

    def covered(guarantee: fc.Guarantee) -> float:
        limits = [fc.calibrate(sites, alpha=0.1, guarantee=guarantee, exact=True).threshold for sites in drawn]
        return mean(shares @ coverage_by_site(classes, np.array(limits, dtype=np.float64))).value

    assert covered(fc.Mixture()) < 0.5
    known, bounded = covered(fc.Prevalence({0: 0.1, 1: 0.9})), covered(fc.Prevalence({0: (0.05, 0.5)}))
    assert 0.9 <= known <= bounded <= 0.96


def test_a_class_that_differs_between_sites_voids_it() -> None:
    """The 48 rows of a class at one site are easy, its one row at the other is hard, and a tenth of the new place's."""
    sites = (Site(EASY, 48), Site(HARD, 1))
    covered = []
    for scores in draws(sites, seed=6, repetitions=400):
        made = [fc.Summary.of_scores(part, kind="exact", labels=[0] * len(part)) for part in scores]
        q = fc.calibrate(made, alpha=0.1, guarantee=fc.Prevalence({0: 1.0}), exact=True).threshold
        covered.append(np.array([0.9, 0.1]) @ coverage_by_site(sites, np.array([q]))[:, 0])
    average, tolerance = mean(np.array(covered))
    assert average == pytest.approx(0.9 * 45 / 49, abs=tolerance)  # .827
    assert average < 0.9 - tolerance
