"""Shares from unlabelled rows: the intervals, the polytope, the words, the refusals."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import fedconformal as fc
from fedconformal.certificates import text
from fedconformal.guarantees import label_shift
from fedconformal.guarantees.label_shift import confusion
from tests.contracts.tools import checks, refused

TABLE = np.array([[90, 10], [20, 80]])
PLACE = np.array([[0.7, 0.3]] * 55 + [[0.1, 0.9]] * 45)
RNG = np.random.default_rng(0)


def test_rows_are_counted_by_class_and_by_top_label() -> None:
    table = confusion([[0.2, 0.8], [0.9, 0.1], [0.6, 0.4]], ["no", "no", "yes"], classes=["no", "yes"])
    assert table.tolist() == [[1, 1], [1, 0]]
    assert label_shift.added([table, table]).tolist() == [[2, 2], [2, 0]]
    with refused("row 1"):
        confusion([[0.5, 0.5], [0.2, 0.2]], [0, 1])


@given(st.integers(0, 40), st.integers(0, 40), st.floats(1e-6, 0.5))
@checks(60)
def test_intervals_are_those_of_clopper_and_pearson(hits: int, others: int, failure: float) -> None:
    low, high = (end[0, 0] for end in label_shift._intervals(np.array([[hits, others]]), failure))
    if not hits + others:
        assert (low, high) == (0, 1)
        return
    exact = stats.binomtest(hits, hits + others).proportion_ci(1 - failure)
    assert exact.low - 1e-8 <= low <= max(0, exact.low - 0.5e-9)
    assert min(1, exact.high + 0.5e-9) <= high <= exact.high + 1e-8


@pytest.mark.parametrize("seed", range(5))
def test_bounds_are_the_ends_of_the_polytope(seed: int) -> None:
    """Beside all shares on a fine grid that fit the intervals."""
    rng = np.random.default_rng(seed)
    table = rng.multinomial(60, rng.dirichlet(np.ones(3)), size=3) + 40 * np.eye(3, dtype=np.int64)
    counts, failure, steps = rng.multinomial(500, rng.dirichlet(np.ones(3)) @ (table / 100)), 0.1, 200
    found = np.array(label_shift.share_bounds(table, counts, failure))
    low, high = label_shift._intervals(table, failure / 12)
    least, most = label_shift._intervals(counts[None], failure / 12)
    grid = np.array([(a, b, steps - a - b) for a, b in product(range(steps + 1), repeat=2) if a + b <= steps]) / steps
    fits = grid[((grid @ low <= most) & (grid @ high >= least)).all(axis=1)]
    assert len(fits)
    assert (found[:, 0] <= fits.min(axis=0)).all()
    assert (found[:, 1] >= fits.max(axis=0)).all()
    assert np.abs(found[:, 0] - fits.min(axis=0)).max() < 3 / steps
    assert np.abs(found[:, 1] - fits.max(axis=0)).max() < 3 / steps


@given(st.integers(60, 99), st.integers(1, 40), st.integers(45, 95))
@checks(20)
def test_bounds_of_two_classes_are_rounded_outward(right: int, wrong: int, first: int) -> None:
    """With two classes every inequality is a bound on the one share."""
    table, counts = np.array([[right, 100 - right], [wrong, 100 - wrong]]), np.array([first, 140 - first])
    (low, high), (least, most) = (label_shift._intervals(part, 0.1 / 3) for part in (table, counts[None]))
    ends: list[list[float]] = [[0.0], [1.0]]
    for rates, limit, sign in [(low, most, 1), (high, least, -1)]:
        for j in range(2):  # sign * (x a + (1 - x) b) <= sign * limit
            slope, rest = sign * (rates[0, j] - rates[1, j]), sign * (limit[0, j] - rates[1, j])
            if slope:
                ends[int(slope > 0)].append(float(rest / slope))
    lower, upper = label_shift.share_bounds(table, counts, 0.1)[0]
    assert max(ends[0]) - 2e-6 < lower <= max(ends[0])
    assert min(ends[1]) <= upper < min(ends[1]) + 2e-6


def test_a_class_without_rows_may_have_any_share() -> None:
    table = np.array([[95, 5, 0], [5, 95, 0], [0, 0, 0]])
    bounds = label_shift.share_bounds(table, np.array([500, 500, 0]), 0.05)
    assert bounds[2][0] == 0
    assert bounds[2][1] > 0.9
    with refused("confusion: class 2 has no rows; its share is not known"):
        label_shift.estimated_shares(table, np.array([500, 500, 0]))


def test_estimates_come_close_with_many_rows() -> None:
    shares, rates = np.array([0.1, 0.3, 0.6]), np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.3, 0.1, 0.6]])
    table, counts = (rates * 1e6).astype(np.int64), (shares @ rates * 1e7).astype(np.int64)
    assert label_shift.estimated_shares(table, counts) == pytest.approx(shares, abs=1e-4)
    bounds = np.array(label_shift.share_bounds(table, counts, 0.01))
    assert (bounds[:, 0] <= shares).all()
    assert (shares <= bounds[:, 1]).all()
    assert np.ptp(bounds, axis=1).max() < 0.02


def test_shares_of_a_place_as_a_guarantee() -> None:
    names = ["benign", "malignant"]
    guess = fc.Prevalence.from_unlabelled([TABLE, TABLE], PLACE, classes=names)
    assert guess.estimated
    assert not guess.certified
    assert "estimated as benign = 0.5" in text.promise(guess, [])
    sure = fc.Prevalence.from_unlabelled([TABLE, TABLE], PLACE, classes=names, failure=0.02)
    assert sure.certified
    assert sure.failure == 0.02
    assert "fail with probability 0.02 at most, which is taken off" in text.promise(sure, [])
    assert "provided that a class looks the same at all sites and at that place (X given Y)" in text.promise(sure, [])
    narrow = fc.Prevalence.from_unlabelled(TABLE * 100, np.repeat(PLACE, 100, axis=0), failure=0.02)
    tight, loose = (np.array([share for _, share in found.to_dict()["shares"]]) for found in (narrow, sure))
    assert (np.ptp(tight, axis=1) < np.ptp(loose, axis=1)).all()


@pytest.mark.filterwarnings("ignore::fedconformal.errors.ClassCountsWarning")
def test_an_estimate_is_never_certified() -> None:
    truth = RNG.integers(0, 2, 400)
    chance = np.clip(RNG.normal(0.25 + 0.5 * truth, 0.2), 0, 1)
    probs = np.stack([1 - chance, chance], axis=1)
    sites = [
        fc.Summary.of_scores(fc.LAC().evaluate(probs[k::2], truth[k::2]), labels=truth[k::2], score=fc.LAC())
        for k in range(2)
    ]
    tables = [confusion(probs[k::2], truth[k::2]) for k in range(2)]
    about = fc.calibrate(sites, guarantee=fc.Prevalence.from_unlabelled(tables, probs)).certificate
    assert (about.status, about.coverage_at_least, about.coverage_at_most) == ("estimated", 0, 1)
    assert about.sentence().startswith("The sets are estimated to hold")
    result = fc.calibrate(sites, guarantee=fc.Prevalence.from_unlabelled(tables, probs, failure=0.02))
    assert (result.certificate.status, result.certificate.coverage_at_least) == ("certified", 0.9)
    assert fc.verify(result, sites) == []
    less = fc.Prevalence(result.certificate.guarantee["shares"])
    assert result.threshold == fc.calibrate(sites, alpha=0.08, guarantee=less).threshold
    with pytest.warns(fc.InfeasibleWarning, match="failure is not below alpha; take a smaller one"):
        assert fc.calibrate(sites, alpha=0.02, guarantee=fc.Prevalence(less.shares, failure=0.02)).threshold == np.inf


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"confusion": [[1, 2, 3]]}, "confusion: expected counts of rows by class and predicted label"),
        ({"confusion": [[1, -2], [3, 4]]}, "confusion: expected counts"),
        ({"confusion": [[0.9, 0.1], [0.2, 0.8]]}, "confusion: expected counts"),
        ({"confusion": np.zeros((0, 0), dtype=int)}, "confusion: expected counts"),
        ({"unlabelled": [[0.2, 0.3, 0.5]]}, "have 3 columns, expected one for each of 2 classes"),
        ({"unlabelled": [[0.2, 0.3]]}, "row 0"),
        ({"classes": ["a", "b", "c"]}, "classes: 3 names were given for 2 classes"),
        ({"failure": 0}, "failure is 0, expected a number between 0 and 1"),
        ({"failure": 1.5}, "failure is 1.5, expected a number between 0 and 1"),
        (
            {"confusion": [[990, 10], [20, 980]], "unlabelled": [[0.9, 0.1]], "failure": 0.9},
            None,
        ),
        (
            {"confusion": [[500, 500], [400, 600]], "unlabelled": [[0.9, 0.1]] * 500, "failure": 0.05},
            "no shares of the classes give these predictions; a class looks different at the new place",
        ),
    ],
    ids=repr,
)
def test_bad_input_is_refused(given: dict[str, Any], problem: str | None) -> None:
    given = {"confusion": TABLE, "unlabelled": PLACE, **given}
    if problem is None:  # one row says little, but that is no error
        assert fc.Prevalence.from_unlabelled(**given).failure == 0.9
        return
    with refused(problem):
        fc.Prevalence.from_unlabelled(**given)


def test_failure_and_estimated_go_with_what_they_are_about() -> None:
    with refused("failure goes with bounds on the shares"):
        fc.Prevalence({0: 0.5, 1: 0.5}, failure=0.05)
    with refused("failure goes with bounds on the shares"):
        fc.Prevalence(failure=0.05)
    for shares in (None, {0: (0.1, 0.2)}):
        with refused("estimated goes with a share for each class"):
            fc.Prevalence(shares, estimated=True)
