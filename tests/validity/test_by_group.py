"""Promises to groups that overlap: each is covered by itself, and so are all rows and those in no other group.

Which groups a row is in is part of the draw. Given the thresholds, the coverage of a group under the mixture lambda is
the sum of lambda_k p_kh F_kh(the largest threshold of the groups in h) over the sets h of groups that hold it, exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product

import numpy as np
import pytest
from scipy import stats

import fedconformal as fc
from fedconformal._base.groups import ALL, NONE
from fedconformal.guarantees.mixture import StratumShare
from tests.validity.lies import count_more
from tests.validity.simulation import Floats, Law, calibrator, mean, uniform

pytestmark = pytest.mark.filterwarnings(
    "ignore::fedconformal.errors.ClassCountsWarning", "ignore::fedconformal.errors.InfeasibleWarning"
)

ALPHA = 0.2
REPETITIONS = 250
A, B = "A=yes", "B=yes"
HELD = {"-": (NONE,), "A": (A,), "B": (B,), "AB": (A, B)}
GROUPS = (ALL, A, B, NONE)

Limits = dict[str, Floats]
"""The thresholds of each group, one a draw."""


@dataclass(frozen=True, eq=False)
class Site:
    """How many rows, and for each set of groups how common it is and how its scores are distributed."""

    size: int
    rows: dict[str, tuple[float, Law]]

    def draw(self, rng: np.random.Generator) -> fc.Summary:
        """Draw the site's rows and summarise them."""
        kinds = list(self.rows)
        drawn = rng.choice(len(kinds), p=[share for share, _ in self.rows.values()], size=self.size)
        scores = np.empty(self.size)
        for k, (_, law) in enumerate(self.rows.values()):
            scores[drawn == k] = law.ppf(rng.random(int(np.count_nonzero(drawn == k))))
        held = {letter: ["yes" if letter in kinds[k] else None for k in drawn] for letter in "AB"}
        return fc.Summary.of_scores(scores, kind="exact", groups=held)


EASY, HARD, WIDE = uniform(0, 1), uniform(2, 3), stats.norm(1, 2)

# What is hard at one site is easy at another; rows in both groups, and in none, are unlike the others everywhere.
SITES = (
    Site(40, {"-": (0.3, EASY), "A": (0.3, EASY), "B": (0.2, HARD), "AB": (0.2, WIDE)}),
    Site(12, {"-": (0.3, HARD), "A": (0.3, HARD), "B": (0.3, EASY), "AB": (0.1, HARD)}),
    Site(3, {"-": (0.4, WIDE), "A": (0.2, HARD), "B": (0.2, HARD), "AB": (0.2, EASY)}),
)
BY_ROWS = np.array([40, 12, 3]) / 55
UNIT = np.eye(3)


@cache
def sent(sites: tuple[Site, ...], seed: int, repetitions: int) -> list[list[fc.Summary]]:
    """Draw everybody's rows and summarise them, again and again, once for all guarantees."""
    rng = np.random.default_rng(seed)
    return [[site.draw(rng) for site in sites] for _ in range(repetitions)]


def thresholds(guarantee: fc.Guarantee, sites: tuple[Site, ...], seed: int, repetitions: int = REPETITIONS) -> Limits:
    """Calibrate on draw after draw; a group that nobody happens to hold has no finite threshold."""
    found = {group: np.full(repetitions, np.inf) for group in GROUPS}
    for i, summaries in enumerate(sent(sites, seed, repetitions)):
        result = fc.calibrate(summaries, alpha=ALPHA, guarantee=fc.ByGroup(guarantee), exact=True)
        for group, limit in result.thresholds.items():
            found[group][i] = limit
    return found


def covered(sites: Sequence[Site], weights: Floats, q: Limits, group: str, always: Sequence[str] = (ALL,)) -> Floats:
    """Return the coverage of a group under a mixture, on each draw; rows take `always` and the groups they are in."""
    hit, whole = np.zeros(len(q[ALL])), 0.0
    for (site, weight), kind in product(zip(sites, weights, strict=True), HELD):
        share, law = site.rows.get(kind, (0.0, EASY))
        if group == ALL or group in HELD[kind]:
            limit = np.max([q[one] for one in (*always, *HELD[kind]) if one in q], axis=0)
            hit += weight * share * law.cdf(limit)
            whole += weight * share
    return hit / whole


def check_kept(guarantee: fc.Guarantee, mixtures: Sequence[Floats], sites: tuple[Site, ...] = SITES) -> Limits:
    """Compare the coverage of every group under every mixture with 1 - alpha."""
    q = thresholds(guarantee, sites, seed=5, repetitions=REPETITIONS if sites is SITES else 100)
    for weights, group in product(mixtures, GROUPS):
        average, tolerance = mean(covered(sites, np.asarray(weights), q, group))
        assert average >= 1 - ALPHA - tolerance, f"{average:.4f} is below {1 - ALPHA} for {group}"
    return q


LONG = ("every site",)
KEPT: dict[str, tuple[fc.Guarantee, list[Floats]]] = {
    "by rows": (fc.Mixture(), [BY_ROWS]),
    "given": (fc.Mixture(weights=(0.2, 0.8, 0.0)), [np.array([0.2, 0.8, 0.0])]),
    "every site": (fc.EverySite(), list(UNIT)),
}


@pytest.mark.long
@pytest.mark.parametrize("name", ["by rows", "given", *(pytest.param(name, marks=pytest.mark.slow) for name in LONG)])
def test_every_group_is_covered(name: str) -> None:
    check_kept(*KEPT[name])


@pytest.mark.long
@pytest.mark.parametrize("name", ["by rows", "given"])
def test_a_rank_too_low_is_seen(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    count_more(monkeypatch, StratumShare, more=3)
    with pytest.raises(AssertionError, match="is below"):
        check_kept(*KEPT[name])


# One big easy site and nine hard ones of one row each: together they have almost a third of the mixture.
MANY = (
    Site(60, {"-": (0.1, EASY), "A": (0.3, EASY), "B": (0.3, EASY), "AB": (0.3, EASY)}),
    *[Site(1, {"-": (0.1, HARD), "A": (0.3, HARD), "B": (0.3, HARD), "AB": (0.3, HARD)})] * 9,
)
MANY_WEIGHTS = np.array([60, *[1] * 9]) / 69


@pytest.mark.long
def test_every_group_is_covered_under_shares_by_rows() -> None:
    """The same thresholds do not cover the shares n_k + 1, where a site of one row counts twice."""
    q = check_kept(fc.Mixture(), [MANY_WEIGHTS], MANY)
    assert all(np.isfinite(q[group]).all() for group in (ALL, A, B))  # N_g + 10 would be out of reach
    for group in (ALL, A, B):
        average, tolerance = mean(covered(MANY, np.array([61, *[2] * 9]) / 79, q, group))
        assert average < 1 - ALPHA - tolerance, group


# Rows in both groups are easy and the others are not; few rows are in none, and these are hard.
APART = (
    Site(150, {"-": (0.1, HARD), "A": (0.3, uniform(0, 2)), "B": (0.3, uniform(0, 2)), "AB": (0.3, uniform(0, 0.1))}),
    Site(60, {"-": (0.1, HARD), "A": (0.25, uniform(0, 2)), "B": (0.25, uniform(0, 2)), "AB": (0.4, uniform(0, 0.1))}),
)
APART_WEIGHTS = np.array([150, 60]) / 210


@pytest.mark.long
def test_without_all_rows_or_none_less_is_covered() -> None:
    """All rows together are promised nothing by their groups alone, nor are rows in no group by all rows."""
    q = thresholds(fc.Mixture(), APART, seed=8, repetitions=150)
    for group in GROUPS:
        average, tolerance = mean(covered(APART, APART_WEIGHTS, q, group))
        assert average >= 1 - ALPHA - tolerance
    named = {group: q[group] for group in (ALL, A, B)}
    average, tolerance = mean(covered(APART, APART_WEIGHTS, named, NONE))
    assert average < 0.2  # with the threshold of all rows alone
    without_all = {group: mean(covered(APART, APART_WEIGHTS, q, group, always=())) for group in GROUPS}
    for group in (A, B, NONE):
        average, tolerance = without_all[group]
        assert average >= 1 - ALPHA - tolerance
    average, tolerance = without_all[ALL]
    assert average < 1 - ALPHA - tolerance
    assert average == pytest.approx(0.76, abs=0.03)


def test_borders_that_are_chosen_from_the_calibration_rows_lose_coverage() -> None:
    """Of ten possible borders of the young, take the one that gives them the smallest threshold."""
    rng, find = np.random.default_rng(8), calibrator(fc.Mixture(), 0.1)
    chosen, fixed = [], []
    for _ in range(300):
        scores = rng.random(200)  # in the order of age, which has nothing to do with them
        found = [find([scores[:border]]).threshold for border in range(20, 120, 10)]
        chosen.append(min(found))
        fixed.append(found[-1])
    coverage, tolerance = mean(np.array(chosen, dtype=np.float64))
    assert coverage + tolerance < 0.9
    coverage, tolerance = mean(np.array(fixed, dtype=np.float64))
    assert coverage >= 0.9 - tolerance
