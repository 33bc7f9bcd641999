"""Summaries of loss curves: sums that are never too small, refusals, and bytes."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import fedconformal as fc
from fedconformal._base.arrays import Floats
from fedconformal.summaries import LossSummary
from fedconformal.summaries.losses import BLOCK, UNIT
from scripts.vector_cases.tools import ABSENT, File
from tests.contracts.tools import checks, refused

GRID = [0.1, 0.2, 0.5]
LOSSES = np.array([[1.0, 0.5, 0.0], [0.3, 0.3, 0.1]])
bounds = st.sampled_from([1.0, 0.3, 3.0, 1e6, 1e-6, 7.25])


@st.composite
def loss_curves(draw: st.DrawFn, bound: float, *, points: int | None = None) -> Floats:
    shape = draw(st.integers(1, 12)), points or draw(st.integers(1, 8))
    shares = st.one_of(st.floats(0, 1), st.sampled_from([0.0, 1.0, 0.5, 1 / 3, 1e-18, 5e-324]))
    return -np.sort(-draw(arrays(np.float64, shape, elements=shares)) * bound, axis=1)


def exact_sums(losses: Floats, bound: float) -> list[Fraction]:
    return [sum(map(Fraction, column), start=Fraction(0)) * UNIT / Fraction(bound) for column in losses.T.tolist()]


@given(bounds.flatmap(lambda bound: st.tuples(st.just(bound), loss_curves(bound))))
@checks(300)
def test_sums_are_rounded_up_by_less_than_two_units(given_: tuple[float, Floats]) -> None:
    bound, losses = given_
    site = fc.LossSummary.of_losses(losses, thresholds=range(losses.shape[1]), bound=bound)
    for units, exact in zip(site.units.tolist(), exact_sums(losses, bound), strict=True):
        assert exact <= units < exact + 1 + Fraction(1, 1000)
    assert (np.diff(site.units) <= 0).all()
    assert site.units.max() <= site.n * UNIT


def test_many_rows_whose_float_sum_is_too_small() -> None:
    losses = np.full((3 * BLOCK, 1), 0.1)
    losses[::7] = 1e-17
    site = fc.LossSummary.of_losses(losses, thresholds=[0])
    exact = exact_sums(losses, 1)[0]
    assert exact <= int(site.units[0]) <= exact + 1
    assert Fraction(float(losses.sum())) != exact / UNIT  # so it is not by luck


def test_a_float_sum_that_rounds_down_is_noticed() -> None:
    """The rests add up to a whole number of units and a little, which a float does not hold."""
    losses = np.full((2049, 1), 2.0**-30)
    losses[-1] = 2.0**-80
    assert exact_sums(losses, 1)[0] > 2
    assert fc.LossSummary.of_losses(losses, thresholds=[0]).units.tolist() == [3]


def test_sums_fall_where_losses_do() -> None:
    """The second sum is a little less than the first, and a bound on it by itself would be a unit more."""
    losses = np.full((1024, 2), 2.0**-29)
    losses[0, 1] = np.nextafter(2.0**-29, 0)
    assert fc.LossSummary.of_losses(losses, thresholds=[0, 1]).units.tolist() == [2, 2]
    assert fc.LossSummary.of_losses(losses[:, 1:], thresholds=[1]).units.tolist() == [3]


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.float32, np.float64])
@pytest.mark.parametrize("order", ["C", "F"])
def test_whole_losses_cost_nothing(dtype: Any, order: Any) -> None:
    losses = np.array(np.arange(5)[:, None] > np.arange(4), dtype=dtype, order=order)
    assert fc.LossSummary.of_losses(losses, thresholds=range(4)).units.tolist() == [UNIT * n for n in (4, 3, 2, 1)]


@pytest.mark.parametrize(
    ("losses", "words"),
    [
        ([[1, 0.5, 0.6]], "row 0 rises from 0.5 to 0.6 at threshold 0.5; they must fall along the grid"),
        ([[1, 0.5, 0.2], [1, 1.5, 0]], "row 1 is 1.5 at threshold 0.2, expected a finite loss from 0 to the bound 1"),
        ([[1, 0.5, -0.1]], "row 0 is -0.1 at threshold 0.5"),
        ([[1, 0.5, 0], [1, np.nan, 0]], "row 1 is nan at threshold 0.2"),
        ([[np.nan] * 3], "row 0 is nan at threshold 0.1"),
        ([[np.inf, 1, 0]], "row 0 is inf at threshold 0.1"),
        ([[1, 0]], "have shape (1, 2), expected a row or more, and a column for each of 3 thresholds"),
        (np.empty((0, 3)), "have shape (0, 3)"),
        ([["x", "y", "z"]], "holds"),
        (np.eye(BLOCK, 3, 2 - BLOCK), f"row {BLOCK - 1} rises"),  # in a later block
    ],
)
def test_bad_losses_are_refused(losses: Any, words: str) -> None:
    with refused(f"losses: {words}"):
        fc.LossSummary.of_losses(losses, thresholds=GRID)


def test_rising_losses_are_taken_if_it_is_said() -> None:
    site = fc.LossSummary.of_losses([[0.25, 1, 0.5]], thresholds=GRID, rising=True)
    assert site.mean_losses.tolist() == [0.25, 1, 0.5]
    assert fc.Summary.from_bytes(site.to_bytes()).provenance.rising
    for bad in (1.5, -0.5, np.nan):
        with refused("row 0 is"):
            fc.LossSummary.of_losses([[0, bad, 0]], thresholds=GRID, rising=True)
    with refused("these losses may rise along the grid, and mixture needs losses that fall; use learn-then-test"):
        fc.calibrate([site], risk=0.5)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("thresholds", [[1, 1, 2], [2, 1, 3], [1, np.nan, 3], [], [[1, 2, 3]], ["a", "b", "c"], range(2**14 + 1)]),
        ("bound", [0, -1, np.nan, np.inf, 1e7, "1", True, None]),
        ("loss", ["fnr", ("fnr",), ("fnr", ["a"]), (1, ()), ("fnr", (1,) * 17)]),
    ],
)
def test_bad_terms_are_refused(name: str, values: Sequence[Any]) -> None:
    for value in values:
        with refused(name):
            fc.LossSummary.of_losses(LOSSES, **{"thresholds": GRID, name: value})


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"bound": 2}, "bound 1.0 against 2.0"),
        ({"thresholds": [0.1, 0.2, 0.5, 0.6]}, "grid no more against 0.6"),
        ({"thresholds": [0.1, 0.3, 0.5]}, "grid 0.2 against 0.3"),
        ({"loss": ("fnr", (True, 0.25))}, "loss (True, 0.5) against (True, 0.25)"),
        ({"loss": None}, "loss ('fnr', (True, 0.5)) against None"),
        ({"rising": True}, "rising False against True"),
        ({"model": "m"}, "model None against m"),
    ],
)
def test_what_does_not_go_together_is_refused(other: dict[str, Any], words: str) -> None:
    about: dict[str, Any] = {"thresholds": GRID, "bound": 1, "loss": ("fnr", (True, 0.5))}
    curves = np.zeros((2, len(other.get("thresholds", GRID))))
    sites = [
        fc.LossSummary.of_losses(LOSSES, site="a", **about),
        fc.LossSummary.of_losses(curves, site="b", **(about | other)),
    ]
    for use in (lambda: fc.calibrate(sites, risk=0.5), lambda: fc.pool(sites)):
        with refused(f"site 'a' and site 'b' do not go together: {words}; summarise all sites with the same loss"):
            use()


def test_losses_and_scores_do_not_mix() -> None:
    losses, scores = fc.LossSummary.of_losses(LOSSES, thresholds=GRID, site="a"), fc.Summary.of_scores([0.5], site="b")
    with refused("do not go together: losses against scores; "):
        fc.calibrate([losses, scores], risk=0.5)
    with refused("site 'b' sent scores, not losses; give alpha instead of risk, or summarise a loss"):
        fc.calibrate([scores], risk=0.5)
    for ask in (lambda: fc.calibrate([losses]), lambda: losses.count_at_most(0.5), lambda: losses.points):
        with refused(param="risk"):
            ask()


@given(st.lists(loss_curves(1.0, points=5), min_size=2, max_size=4))
@checks(60)
def test_pooling_adds_up(parts: list[Floats]) -> None:
    grid = range(5)
    sites = [fc.LossSummary.of_losses(part, thresholds=grid, site=f"s{i}") for i, part in enumerate(parts)]
    pooled, exact = fc.pool(sites), exact_sums(np.concatenate(parts), 1.0)
    assert isinstance(pooled, LossSummary)
    assert pooled.units.tolist() == np.sum([site.units for site in sites], axis=0).tolist()
    assert (pooled.gap, pooled.sizes) == (len(parts), tuple(map(len, parts)))
    assert all(e <= u <= e + pooled.gap * 1.001 for u, e in zip(pooled.units.tolist(), exact, strict=True))
    assert fc.Summary.from_bytes(pooled.to_bytes()).to_bytes() == pooled.to_bytes()


FILE = File(fc.LossSummary.of_losses([[1, 1, 0.5], [1, 0.5, 0]], thresholds=GRID, site="a"))


def test_hostile_bytes_are_refused_in_one_line() -> None:
    """tests/vectors/wire has the other rules."""
    with refused("state both"):
        fc.Summary.from_bytes(FILE.having(bound=ABSENT))
    with refused("cannot be decoded", "bo nd"):
        fc.Summary.from_bytes(FILE.having(**{"bo\x0bnd": 1}))  # type: ignore[arg-type]
