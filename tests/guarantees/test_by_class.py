"""What counts of a class promise, against formulas written out a second time."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import fedconformal as fc
from fedconformal._base import registry
from fedconformal._base.arrays import ALPHA_UNIT
from fedconformal.guarantees.planning import feasible, missing, missing_sites, shortfall
from fedconformal.guarantees.worst_case import WorstClassShare
from tests.contracts.tools import SITES, guarantee_examples, refused

TOTALS = [30, 12, 5]
CLASS_SIZES = [9, 6, 0]
COUNTS = [8, 3, 0]


def share(weights: list[Fraction], more: Fraction) -> Fraction:
    top = sum((w * m for w, m in zip(weights, COUNTS, strict=True)), start=Fraction(0))
    return top / (sum(w * n for w, n in zip(weights, CLASS_SIZES, strict=True)) + more)


def ratio(mixture: list[Fraction]) -> Fraction:
    """Return sum w_k m_kc / sum w_k (n_kc + 1), with w_k = lambda_k / (n_k + 1)."""
    weights = [share / (n + 1) for share, n in zip(mixture, TOTALS, strict=True)]
    return share(weights, sum(weights, start=Fraction(0)))


def promised(guarantee: fc.Guarantee) -> Fraction:
    return guarantee.bind(SITES, TOTALS).in_class(TOTALS).promised(COUNTS, CLASS_SIZES)


THIRD = [Fraction(1, 3)] * 3
PROPORTIONAL = [Fraction(n + 1, 50) for n in TOTALS]
UNIT = [[Fraction(int(j == k)) for j in range(3)] for k in range(3)]


@pytest.mark.parametrize(
    ("guarantee", "expected"),
    [
        (fc.Mixture(), Fraction(11, 15 + 3)),
        (fc.Mixture(weights="uniform"), ratio(THIRD)),
        (fc.Mixture(weights=(0.5, 0.3, 0.2)), ratio([Fraction(5, 10), Fraction(3, 10), Fraction(2, 10)])),
        (fc.Exchangeable(), Fraction(11, 16)),
        (fc.OneClient(client="a"), Fraction(8, 10)),
        (fc.EveryClient(), Fraction(0)),
        (fc.NewClient(), share([Fraction(1, n) for n in TOTALS], Fraction(1))),
    ],
)
def test_shares_of_the_class(guarantee: fc.Guarantee, expected: Fraction) -> None:
    assert promised(guarantee) == expected


def test_the_mixture_in_proportion_is_the_weighted_one_with_those_weights() -> None:
    assert promised(fc.Mixture()) == ratio(PROPORTIONAL)


@pytest.mark.parametrize(
    ("guarantee", "corners"),
    [
        (fc.WorstCase(), UNIT),
        (
            fc.WorstCase(contamination=0.25),
            [[w * 3 / 4 + u / 4 for w, u in zip(PROPORTIONAL, unit, strict=True)] for unit in UNIT],
        ),
        (
            fc.WorstCase(total_variation=0.1),
            [
                [w + Fraction(j == to, 10) - Fraction(j == away, 10) for j, w in enumerate(PROPORTIONAL)]
                for to, away in ((0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1))
            ],
        ),
        (
            fc.WorstCase(box=(0.1, 0.8)),
            [[Fraction(8, 10) if j == k else Fraction(1, 10) for j in range(3)] for k in range(3)],
        ),
        (
            fc.WorstCase(polytope=([[0, 0, 1]], [0.5])),
            [UNIT[0], UNIT[1], *([*[Fraction(int(j == k), 2) for j in range(2)], Fraction(1, 2)] for k in range(2))],
        ),
    ],
)
def test_the_worst_share_over_a_set_is_at_a_corner(guarantee: fc.Guarantee, corners: list[list[Fraction]]) -> None:
    worst = min(ratio(corner) for corner in corners)
    assert worst - Fraction(1, ALPHA_UNIT) < promised(guarantee) <= worst


@pytest.mark.parametrize("guarantee", [fc.WorstCase(), fc.WorstCase(contamination=0.25), fc.WorstCase(box=(0.1, 0.8))])
def test_a_share_without_a_rest_is_promised_in_full(guarantee: fc.Guarantee) -> None:
    """Nine scores of a class at each site are just enough for 0.9, which one unit less would not be."""
    assert guarantee.in_class(TOTALS).promised([9, 9, 9], [9, 9, 9]) == Fraction(9, 10)


@pytest.mark.parametrize("guarantee", guarantee_examples(), ids=repr)
def test_promises_rise_with_the_counts_and_stay_below_one(guarantee: fc.Guarantee) -> None:
    bound = guarantee.bind(SITES, TOTALS).in_class(TOTALS)
    rng = np.random.default_rng(3)
    for _ in range(20):
        sizes = [int(rng.integers(0, n + 1)) for n in TOTALS]
        sizes[1] = max(sizes[1], 1)
        high = np.array([int(rng.integers(0, n + 1)) for n in sizes])
        low = np.maximum(high - rng.integers(0, 3, size=3), 0)
        columns = bound.promised_many(np.stack([low, high], axis=1), sizes)
        assert columns == [bound.promised(low.tolist(), sizes), bound.promised(high.tolist(), sizes)]
        assert 0 <= columns[0] <= columns[1] < 1
        assert 0 <= bound.slack([0, 1, 0], sizes) <= 1
        assert bound.at_most(Fraction(1, 10), sizes, [0, 0, 0]) <= 1


@pytest.mark.parametrize("guarantee", guarantee_examples(), ids=repr)
def test_it_is_rebuilt_from_its_description(guarantee: fc.Guarantee) -> None:
    wrapped = fc.ByClass(guarantee)
    assert registry.build(wrapped.to_dict(), fc.Guarantee) == wrapped
    assert registry.build(guarantee.to_dict(), fc.Guarantee) == guarantee
    assert "given the true label" in wrapped.promise(SITES)
    assert wrapped.assumption


def test_what_is_missing_is_enough() -> None:
    alpha = Fraction(1, 10)
    share = fc.Mixture().in_class(TOTALS)
    extra = missing(share, alpha, CLASS_SIZES)[0]
    assert feasible(share, alpha, [CLASS_SIZES[0] + extra, *CLASS_SIZES[1:]])
    assert not feasible(share, alpha, [CLASS_SIZES[0] + extra - 1, *CLASS_SIZES[1:]])
    fresh = fc.NewClient().in_class(TOTALS)
    more = missing_sites(fresh, alpha, CLASS_SIZES)
    many = fc.NewClient().in_class(TOTALS * (1 + more))
    assert feasible(many, alpha, CLASS_SIZES * (1 + more))
    assert "some that hold the class" in shortfall(fresh, alpha, [0, 0, 0], SITES)
    weighted = fc.Mixture(weights=(0.5, 0.5, 0.0)).in_class(TOTALS)
    assert set(missing(weighted, alpha, CLASS_SIZES)) <= {0, 1}
    assert "more at site" in shortfall(weighted, alpha, CLASS_SIZES, SITES)


@pytest.mark.parametrize("alpha", ["0.1", "0.05", "0.3"])
def test_every_class_takes_as_many_scores_as_all_take_together(alpha: str) -> None:
    """N_c >= K (1 - alpha) / alpha, with K all sites."""
    exact, sites = Fraction(alpha), len(TOTALS)
    needed = math.ceil(sites * (1 - exact) / exact)
    share = fc.Mixture().in_class(TOTALS)
    assert feasible(share, exact, [needed, 0, 0])
    assert not feasible(share, exact, [needed - 1, 0, 0])
    words = shortfall(share, exact, [1, 2, 0], SITES)
    assert words == f"calibration scores needed: {needed - 3} more in all, at any site ({needed} of each class)"


@pytest.mark.filterwarnings("ignore::fedconformal.errors.ClassCountsWarning")
def test_every_class_that_lacks_scores_is_said() -> None:
    labels = [label for label in range(8) for _ in range(label + 1)] + [7] * 40
    sites = [
        fc.summarize(np.arange(len(labels)) / 100, "exact", site=site, labels=labels, by_class=True) for site in "ab"
    ]
    words = [f"class {label}: calibration scores needed: {18 - 2 * (label + 1)} more in all" for label in range(5)]
    with pytest.warns(fc.InfeasibleWarning) as caught:
        fc.calibrate(sites, alpha=0.1, guarantee=fc.ByClass())
    message = str(caught[0].message)
    assert all(word in message for word in words)
    assert message.endswith("; and 2 more classes")


def test_the_two_stand_ins_have_words_of_their_own() -> None:
    assert fc.Mixture().in_class(TOTALS).promise(SITES) == "for a test row of one class"
    worst = fc.WorstCase(contamination=0.1).in_class(TOTALS)
    assert isinstance(worst, WorstClassShare)
    assert worst.promise(SITES) == "for a test row of one class"


@pytest.mark.parametrize(
    "given",
    [{"name": "by-class"}, {"name": "by-class", "guarantee": 3}, {"name": "by-class", "guarantee": {}, "more": 1}],
)
def test_bad_descriptions_are_refused(given: dict[str, Any]) -> None:
    with refused("by-class"):
        registry.build(given, fc.Guarantee)


def test_a_guarantee_is_needed() -> None:
    with refused("not a guarantee"):
        fc.ByClass("mixture")  # type: ignore[arg-type]
    with refused("not a guarantee"):
        fc.ByClass(fc.ByClass())
