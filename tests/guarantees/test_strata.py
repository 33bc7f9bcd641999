"""Promises from counts of a class, against formulas written out a second time."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

import fedconformal as fc
from fedconformal._base import registry
from fedconformal.certificates.text import shortfall
from fedconformal.guarantees.guarantee import Shortfall, feasible
from tests.contracts.tools import SITES, promised_many, refused, strata_examples

TOTALS = [30, 12, 5]
CLASS_SIZES = [9, 6, 0]


def test_the_outermost_stratum_is_named_first() -> None:
    assert fc.ByGroup(fc.ByClass()).audience(SITES).strata == ("group", "class")


def test_a_class_by_itself_is_promised_no_more_than_asked_for() -> None:
    """The number of its rows is part of the draw: 0.9 does not become 10 of 11."""
    assert fc.Mixture().bind((), TOTALS, "class").band(Fraction(1, 10), [5, 6, 0]).least == Fraction(9, 10)
    assert fc.Mixture().band(Fraction(1, 10), [5, 6]).least == Fraction(10, 11)


@pytest.mark.parametrize("guarantee", strata_examples(), ids=repr)
def test_promises_rise_with_the_counts_and_stay_below_one(guarantee: fc.Guarantee) -> None:
    bound = guarantee.bind(SITES, TOTALS).bind((), TOTALS, "class")
    rng = np.random.default_rng(3)
    for _ in range(20):
        sizes = [int(rng.integers(0, n + 1)) for n in TOTALS]
        sizes[1] = max(sizes[1], 1)
        high = np.array([int(rng.integers(0, n + 1)) for n in sizes])
        low = np.maximum(high - rng.integers(0, 3, size=3), 0)
        columns = promised_many(bound, np.stack([low, high], axis=1), sizes)
        assert columns == [bound.promised(low.tolist(), sizes), bound.promised(high.tolist(), sizes)]
        assert 0 <= columns[0] <= columns[1] < 1
        assert 0 <= bound.band(Fraction(1, 10), sizes, [0, 1, 0]).slack <= 1
        assert bound.band(Fraction(1, 10), sizes).most <= 1


def test_what_is_missing_is_enough() -> None:
    alpha = Fraction(1, 10)
    share = fc.Mixture().bind((), TOTALS, "class")
    assert share.missing(alpha, CLASS_SIZES) == Shortfall()
    extra = share.missing(alpha, [3, 2, 0]).anywhere
    assert feasible(share, alpha, [3 + extra, 2, 0])
    assert not feasible(share, alpha, [3 + extra - 1, 2, 0])
    weighted = fc.Mixture(weights=(0.5, 0.5, 0.0)).bind((), TOTALS, "class")
    assert set(weighted.missing(alpha, CLASS_SIZES).scores) <= {0, 1}
    assert "more at site" in shortfall(weighted, alpha, CLASS_SIZES, SITES)


@pytest.mark.parametrize("alpha", ["0.1", "0.05", "0.3"])
def test_every_class_takes_as_many_scores_as_all_take_together(alpha: str) -> None:
    """N_c >= 1 / alpha, at however many sites."""
    exact = Fraction(alpha)
    needed = math.ceil(1 / exact)
    share = fc.Mixture().bind((), TOTALS, "class")
    assert feasible(share, exact, [needed, 0, 0])
    assert not feasible(share, exact, [needed - 1, 0, 0])
    words = shortfall(share, exact, [1, 2, 0], SITES, stratum="class")
    assert words == f"calibration scores needed: {needed - 3} more in all, at any site ({needed} of each class)"


@pytest.mark.parametrize(
    "given",
    [{"name": "by-class"}, {"name": "by-class", "guarantee": 3}, {"name": "by-class", "guarantee": {}, "more": 1}],
)
def test_bad_descriptions_are_refused(given: dict[str, Any]) -> None:
    with refused("by-class"):
        registry.rebuild(given, fc.Guarantee)


@pytest.mark.parametrize(
    ("stratified", "given"),
    [*product([fc.ByClass, fc.ByGroup], ["mixture", fc.ByGroup(), fc.Prevalence()]), (fc.ByClass, fc.ByClass())],
    ids=repr,
)
def test_a_guarantee_of_one_threshold_is_needed(stratified: Any, given: Any) -> None:
    with refused(f"{stratified.name}: ", "not a guarantee such as"):
        stratified(given)
