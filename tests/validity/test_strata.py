"""Promises given the class, and to groups that overlap: each is covered by itself, however its rows lie at the sites.

How many rows of a stratum a site holds is part of the draw. A row of a kind is in one class, or in some groups and in
the group of all rows, and takes the largest threshold of these. Given the thresholds, the coverage of a stratum under
the mixture lambda is sum lambda_k p_kh F_kh(q_h) / sum lambda_k p_kh over the kinds h in it, exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

import fedconformal as fc
from fedconformal._base.groups import ALL, NONE
from fedconformal.guarantees.mixture import StratumShare
from tests.contracts.tools import promised_many
from tests.validity.lies import count_more
from tests.validity.promises import rank_of
from tests.validity.simulation import Floats, Law, mean, uniform

pytestmark = pytest.mark.filterwarnings(
    "ignore::fedconformal.errors.ClassCountsWarning", "ignore::fedconformal.errors.InfeasibleWarning"
)

ALPHA = 0.2
REPETITIONS = 250
A, B = "A=yes", "B=yes"
STRATA = {"-": (ALL, NONE), "A": (ALL, A), "B": (ALL, B), "AB": (ALL, A, B), "0": ("0",), "1": ("1",), "2": ("2",)}
"""Of every kind of row: those that are in groups, and those that are of a class."""
GROUPS, CLASSES = (ALL, A, B, NONE), ("0", "1", "2")

Limits = dict[str, Floats]
"""The thresholds of each stratum, one a draw."""
Rows = tuple[Floats, NDArray[Any]]
"""Scores, and the kind of each row."""


@dataclass(frozen=True, eq=False)
class Site:
    """Number of rows, and the frequency and the score distribution of each kind of row."""

    size: int
    rows: dict[str, tuple[float, Law]]

    def draw(self, rng: np.random.Generator) -> Rows:
        """Draw scores and kinds."""
        kinds = rng.choice(list(self.rows), p=[share for share, _ in self.rows.values()], size=self.size)
        scores = np.empty(self.size)
        for kind, (_, law) in self.rows.items():
            scores[kinds == kind] = law.ppf(rng.random(int(np.count_nonzero(kinds == kind))))
        return scores, kinds


def of_classes(size: int, shares: Sequence[float], *laws: Law) -> Site:
    return Site(size, dict(zip(CLASSES, zip(shares, laws, strict=True), strict=False)))


EASY, HARD, WIDE = uniform(0, 1), uniform(2, 3), stats.norm(1, 2)

# Class 0 is easy at the big site and hard at the small ones, class 1 the other way round, class 2 rare.
BY_CLASS = (
    of_classes(40, (0.5, 0.4, 0.1), EASY, HARD, stats.norm()),
    of_classes(12, (0.4, 0.5, 0.1), HARD, EASY, stats.cauchy()),
    of_classes(3, (0.9, 0.0, 0.1), HARD, EASY, stats.norm(3, 1)),
)
# What is hard at one site is easy at another; rows in both groups, and in none, are unlike the others everywhere.
BY_GROUP = (
    Site(40, {"-": (0.3, EASY), "A": (0.3, EASY), "B": (0.2, HARD), "AB": (0.2, WIDE)}),
    Site(12, {"-": (0.3, HARD), "A": (0.3, HARD), "B": (0.3, EASY), "AB": (0.1, HARD)}),
    Site(3, {"-": (0.4, WIDE), "A": (0.2, HARD), "B": (0.2, HARD), "AB": (0.2, EASY)}),
)
BY_ROWS = np.array([40, 12, 3]) / 55
UNIT = np.eye(3)


@cache
def drawn(sites: tuple[Site, ...], seed: int = 5, repetitions: int = REPETITIONS) -> list[list[Rows]]:
    """Draw everybody's rows, again and again."""
    rng = np.random.default_rng(seed)
    return [[site.draw(rng) for site in sites] for _ in range(repetitions)]


def summary(rows: Rows, kind: str = "exact") -> fc.Summary:
    """Summarise by class or by group, as a site does."""
    scores, kinds = rows
    if set(kinds) <= set(CLASSES):
        return fc.Summary.of_scores(scores, kind=kind, labels=kinds.astype(int))
    groups = {letter: ["yes" if letter in one else None for one in kinds] for letter in "AB"}
    return fc.Summary.of_scores(scores, kind=kind, groups=groups)


@cache
def sent(sites: tuple[Site, ...], kind: str = "exact", **drawing: int) -> list[list[fc.Summary]]:
    """Draw and summarise, once for all guarantees."""
    return [[summary(rows, kind) for rows in some] for some in drawn(sites, **drawing)]


def thresholds(guarantee: fc.Guarantee, draws: Sequence[Sequence[fc.Summary]]) -> Limits:
    """Calibrate on each draw; a stratum that nobody happens to hold has no finite threshold."""
    found = {stratum: np.full(len(draws), np.inf) for stratum in (*GROUPS, *CLASSES)}
    for i, summaries in enumerate(draws):
        result = fc.calibrate(summaries, alpha=ALPHA, guarantee=guarantee, exact=True)
        for stratum, limit in result.thresholds.items():
            found[stratum][i] = limit
    return found


def covered(sites: Sequence[Site], weights: Iterable[float], q: Limits, stratum: str) -> Floats:
    """Return the coverage of a stratum under a mixture, on each draw."""
    hit, whole = np.zeros(1), 0.0
    for site, weight in zip(sites, weights, strict=True):
        for kind, (share, law) in site.rows.items():
            if stratum in STRATA[kind]:
                limit = np.max([q[one] for one in STRATA[kind] if one in q], axis=0)
                hit, whole = hit + weight * share * law.cdf(limit), whole + weight * share
    return hit / whole if whole else np.ones(2)


def check_kept(
    guarantee: fc.Guarantee, sites: tuple[Site, ...], mixtures: Sequence[Floats], kind: str = "exact"
) -> None:
    """Compare the coverage of every stratum under every mixture with 1 - alpha."""
    q = thresholds(guarantee, sent(sites, kind))
    for weights, stratum in product(mixtures, GROUPS if guarantee.by_group else CLASSES):
        average, tolerance = mean(covered(sites, weights, q, stratum))
        assert average >= 1 - ALPHA - tolerance, f"{average:.4f} is below {1 - ALPHA} for {stratum}"


GIVEN = fc.Mixture(weights=(0.2, 0.8, 0.0)), [np.array([0.2, 0.8, 0.0])]
PRICED = {
    "by rows": (fc.Mixture(), [BY_ROWS]),
    "uniform": (fc.Mixture(weights="uniform"), [np.full(3, 1 / 3)]),
    "given": GIVEN,
}
KEPT: dict[str, tuple[fc.Guarantee, Sequence[Floats]]] = {
    **PRICED,
    "one site": (fc.OneSite(site=1), [UNIT[1]]),
    "every site": (fc.EverySite(), list(UNIT)),
    "robust": (fc.Robust(liars=0), [BY_ROWS]),
}
IN_GROUPS = ("by rows", "given")


@pytest.mark.parametrize("name", KEPT)
def test_every_class_is_covered(name: str) -> None:
    guarantee, mixtures = KEPT[name]
    check_kept(fc.ByClass(guarantee), BY_CLASS, mixtures)


@pytest.mark.long
@pytest.mark.parametrize("name", [*IN_GROUPS, pytest.param("every site", marks=pytest.mark.slow)])
def test_every_group_is_covered(name: str) -> None:
    guarantee, mixtures = KEPT[name]
    check_kept(fc.ByGroup(guarantee), BY_GROUP, mixtures)


def test_small_summaries_lose_nothing() -> None:
    check_kept(fc.ByClass(), BY_CLASS, [BY_ROWS], kind="ranks")


@pytest.mark.parametrize("name", PRICED)
def test_a_rank_too_low_is_seen(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    count_more(monkeypatch, StratumShare, more=2)
    with pytest.raises(AssertionError, match="is below"):
        check_kept(fc.ByClass(PRICED[name][0]), BY_CLASS, PRICED[name][1])


@pytest.mark.long
@pytest.mark.parametrize("name", IN_GROUPS)
def test_a_rank_too_low_is_seen_in_groups(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    count_more(monkeypatch, StratumShare, more=3)
    with pytest.raises(AssertionError, match="is below"):
        check_kept(fc.ByGroup(PRICED[name][0]), BY_GROUP, PRICED[name][1])


# Half of the test rows are of a site with a hundred easy rows, all of the class. The others are of a site with one row,
# of the class about one time in three, and harder.
HEAVY = (of_classes(100, (1.0,), EASY), of_classes(1, (0.35, 0.65), HARD, EASY))


def priced(rows: Sequence[Rows], price: Callable[[list[int]], int]) -> float:
    """Take the smallest score with (m_1 + 100 m_2 - price) / (n_1 + 100 n_2) at least 0.9, n_k those of the class."""
    held = [scores[kinds == "0"] for scores, kinds in rows]
    share = StratumShare(weights=(1, 100), price=price(list(map(len, held))))
    scores = np.unique(np.concatenate(held))
    counts = np.stack([np.count_nonzero(part[:, None] <= scores, axis=0) for part in held])
    enough = np.array(promised_many(share, counts, list(map(len, held)))) >= Fraction(9, 10)
    return float(scores[np.argmax(enough)]) if enough.any() else np.inf


def test_the_price_of_the_sites_that_hold_the_class_is_too_small() -> None:
    """The row of the second site weighs as much as all others: its price is needed where it is of another class too."""
    draws = drawn(HEAVY, seed=6, repetitions=1000)
    holders = np.array([priced(rows, lambda held: 100 if held[1] else 1) for rows in draws])
    average, tolerance = mean(covered(HEAVY, (0.5, 0.5), {"0": holders}, "0"))
    assert average == pytest.approx(0.65 * 91 / 101 * 0.5 / 0.675 + 0.35, abs=tolerance)  # .783
    assert average < 0.9 - tolerance
    assert all(
        priced(rows, lambda _: 100) == np.inf for rows in draws[:50]
    )  # it is more than a tenth of all that there is
    assert np.isinf(
        thresholds(fc.ByClass(fc.Mixture(weights="uniform")), sent(HEAVY, seed=6, repetitions=50))["0"]
    ).all()


def test_pac_fails_no_more_often_than_stated_in_any_class() -> None:
    failure, draws = 0.1, drawn(BY_CLASS)
    q = thresholds(fc.ByClass(fc.PAC(failure=failure)), sent(BY_CLASS))
    for label in CLASSES:
        failed = []
        for i, rows in enumerate(draws):
            held = np.array([np.count_nonzero(kinds == label) for _, kinds in rows])
            coverage = [float(site.rows[label][1].cdf(q[label][i])) for site in BY_CLASS]
            failed.append(bool(held.any()) and float(held @ coverage) < (1 - ALPHA) * held.sum())
        assert np.mean(failed) <= failure + 4 * (failure * (1 - failure) / len(draws)) ** 0.5


# One big easy site and nine hard ones of one row each: together they have almost a third of the paper's mixture.
MANY = (
    Site(60, {"-": (0.1, EASY), "A": (0.3, EASY), "B": (0.3, EASY), "AB": (0.3, EASY)}),
    *[Site(1, {"-": (0.1, HARD), "A": (0.3, HARD), "B": (0.3, HARD), "AB": (0.3, HARD)})] * 9,
)


@pytest.mark.long
def test_every_group_is_covered_under_shares_by_rows() -> None:
    """The same thresholds do not cover the shares n_k + 1, where a site of one row counts twice."""
    q = thresholds(fc.ByGroup(), sent(MANY, repetitions=100))
    for group in (ALL, A, B):
        average, tolerance = mean(covered(MANY, np.array([60, *[1] * 9]) / 69, q, group))
        assert average >= 1 - ALPHA - tolerance
        assert np.isfinite(q[group]).all()  # N_g + 10 would be out of reach
        average, tolerance = mean(covered(MANY, np.array([61, *[2] * 9]) / 79, q, group))
        assert average < 1 - ALPHA - tolerance, group


# Rows in both groups are easy and the others are not; few rows are in none, and these are hard.
APART = (
    Site(150, {"-": (0.1, HARD), "A": (0.3, uniform(0, 2)), "B": (0.3, uniform(0, 2)), "AB": (0.3, uniform(0, 0.1))}),
    Site(60, {"-": (0.1, HARD), "A": (0.25, uniform(0, 2)), "B": (0.25, uniform(0, 2)), "AB": (0.4, uniform(0, 0.1))}),
)


@pytest.mark.long
def test_without_all_rows_or_none_less_is_covered() -> None:
    """All rows together are promised nothing by their groups alone, nor are rows in no group by all rows."""
    q = thresholds(fc.ByGroup(), sent(APART, seed=8, repetitions=150))

    def under(strata: Sequence[str], group: str) -> tuple[float, float]:
        return mean(covered(APART, np.array([150, 60]) / 210, {one: q[one] for one in strata}, group))

    for strata, group in [*((GROUPS, group) for group in GROUPS), *(((A, B, NONE), group) for group in (A, B, NONE))]:
        average, tolerance = under(strata, group)
        assert average >= 1 - ALPHA - tolerance
    assert under((ALL, A, B), NONE)[0] < 0.2  # with the threshold of all rows alone
    average, tolerance = under((A, B, NONE), ALL)
    assert average < 1 - ALPHA - tolerance
    assert average == pytest.approx(0.76, abs=0.03)


def test_borders_that_are_chosen_from_the_calibration_rows_lose_coverage() -> None:
    """Of ten possible borders of the young, take the one that gives them the smallest threshold."""
    scores = np.random.default_rng(8).random((300, 200))  # in the order of age, which has nothing to do with them
    borders = range(20, 120, 10)
    found = [np.sort(scores[:, :border], axis=1)[:, rank_of(0.1, border + 1) - 1] for border in borders]
    coverage, tolerance = mean(np.min(found, axis=0))
    assert coverage + tolerance < 0.9
    coverage, tolerance = mean(found[-1])
    assert coverage >= 0.9 - tolerance
