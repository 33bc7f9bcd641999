"""Hostile messages, kind by kind."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import fedconformal as fc
from fedconformal.summaries.tdigest import TDigestSummary
from scripts.vector_cases.tools import ABSENT, SCORES, File, altered, counts, floats


def hostile() -> Iterator[tuple[str, bytes]]:
    """List them."""
    yield from _plain()
    yield from _sketches()
    yield from _strata()
    yield from _losses()


def _plain() -> Iterator[tuple[str, bytes]]:
    exact = File(fc.Summary.of_scores(SCORES, kind="exact", site="a"))
    yield from altered(
        exact,
        "exact",
        {
            "NaN": {"arrays": [floats(0.25, 0.5, 0.5, 1.0, float("nan"))]},
            "an infinity": {"arrays": [floats(0.25, 0.5, 0.5, 1.0, float("inf"))]},
            "out of order": {"arrays": [floats(0.5, 0.25, 0.5, 1.0, 2.0)]},
            "a minus zero": {"arrays": [floats(-0.0, 0.5, 0.5, 1.0, 2.0)]},
            "one too few": {"arrays": [floats(0.25, 0.5, 0.5, 1.0)]},
            "half a score": {"arrays": [floats(0.25, 0.5, 0.5, 1.0, 2.0)[:-4]]},
            "no array": {"arrays": []},
        },
    )
    ranks = File(fc.Summary.of_scores([k / 64 for k in range(300)], alpha=0.1, site="a"))
    values = ranks.arrays[0]
    yield from altered(
        ranks,
        "ranks",
        {
            "one too few": {"arrays": [values[8:]]},
            "one too many": {"arrays": [floats(-1.0) + values]},
            "out of order": {"arrays": [values[8:16] + values[:8] + values[16:]]},
            "0 points": {"parameters": [0, "0.1"]},
            "4,097 points": {"parameters": [4097, "0.1"]},
            "another number of points": {"parameters": [101, "0.1"]},
            "points that are a float": {"parameters": [100.0, "0.1"]},
            "a third parameter": {"parameters": [100, "0.1", 1]},
            "points and bounds": {"arrays": [values, counts(1), counts(0)]},
            "points and a gap": {"numbers": [3]},
            "two sites without bounds": {"sizes": [150, 150], "sites": ["a", "b"]},
            "an alpha that is not the shortest": {"parameters": [100, "0.10"]},
            "an alpha that is no number": {"parameters": [100, "one"]},
            "an alpha that is a float": {"parameters": [100, 0.1]},
            "an alpha of more than 15 places": {"parameters": [100, "0.1000000000000001"]},
            "an alpha of 1": {"parameters": [100, "1.0"]},
        },
    )
    parts = [fc.Summary.of_scores([0.25, 0.5], site="a"), fc.Summary.of_scores([0.5, 1.0, 2.0], site="b")]
    pooled = File(fc.pool(parts))
    yield from altered(
        pooled,
        "ranks with bounds",
        {
            "an alpha beside bounds": {"parameters": [100, "0.1"]},
            "tied points": {"arrays": {0: floats(0.25, 0.25, 1.0, 2.0)}},
            "too few bounds": {"arrays": {1: pooled.arrays[1][8:]}},
            "counts that fall": {"arrays": {1: counts(1, 4, 3, 5)}},
            "a last count that is not n": {"arrays": {1: counts(1, 3, 4, 4)}},
            "a wider gap than stated": {"arrays": {2: counts(0, 1, 3, 4), 1: counts(0, 1, 2, 5)}},
            "a gap of n": {"numbers": [5]},
            "a gap that is a float": {"numbers": [0.0]},
            "a gap that is not finite": {"numbers": [float("inf")]},
            "a count of 2^63": {"arrays": {1: counts(1, 3, 4, 2**63)}},
            "no points": {"arrays": [b"", b"", b""]},
        },
    )


def _sketches() -> Iterator[tuple[str, bytes]]:
    sketch = File(fc.Summary.of_scores(SCORES, kind="ddsketch", site="a"))
    first, *others = np.frombuffer(sketch.arrays[0], "<u8").tolist()
    yield from altered(
        sketch,
        "ddsketch",
        {
            "out of order": {"arrays": {0: counts(others[0], first, *others[1:])}},
            "one too few": {"arrays": {0: counts(*others)}},
            "not in the table": {"arrays": {0: counts(first, *others[:-1], 141_816)}},
            "a count of 0": {"arrays": {1: counts(1, 3, 0, 1)}},
            "counts that do not add up": {"arrays": {1: counts(1, 2, 1, 2)}},
            "counts that wrap around": {"arrays": {1: counts(1, 2**52, 2**52, 2**52)}},
            "a smallest that is in another bucket": {"numbers": [0.3, 2.0]},
            "a largest that is not finite": {"numbers": [0.25, float("inf")]},
            "a largest that is whole": {"numbers": [0.25, 2]},
            "no extremes": {"numbers": ABSENT},
            "none": {"arrays": [b"", b""]},
        },
    )
    digest = File(
        TDigestSummary(
            means=np.array([0.25, 0.5, 1.0]), weights=np.array([1, 3, 1]), smallest=0.25, largest=1.0, sizes=(5,)
        )
    )
    yield from altered(
        digest,
        "tdigest",
        {
            "out of order": {"arrays": {0: floats(0.5, 0.25, 1.0)}},
            "one too few": {"arrays": {0: floats(0.25, 0.5)}},
            "a mean below the smallest": {"arrays": {0: floats(0.2, 0.5, 1.0)}},
            "a mean above the largest": {"numbers": [0.25, 0.75]},
            "a weight of 0": {"arrays": {1: counts(0, 4, 1)}},
            "weights that do not add up": {"arrays": {1: counts(1, 3, 2)}},
            "a minus zero": {"numbers": [-0.0, 1.0], "arrays": {0: floats(0.0, 0.5, 1.0)}},
            "NaN": {"numbers": [float("nan"), 1.0]},
        },
    )


def _strata() -> Iterator[tuple[str, bytes]]:
    by_class = File(fc.Summary.of_scores(SCORES, kind="exact", labels=[0, 0, 0, 7, 7], site="a"))
    yield from altered(
        by_class,
        "by class",
        {
            "out of order": {"strata": by_class.strata({1: 7}, {1: 0})},
            "a class twice": {"strata": by_class.strata({1: 7})},
            "a class of 2^20": {"strata": by_class.strata({}, {1: 2**20})},
            "a negative class": {"strata": by_class.strata({1: -1})},
            "a stratum too few": {"strata": by_class.strata(order=[0]), "arrays": by_class.arrays[:1]},
            "a stratum without rows": {"strata": by_class.strata({2: [0]})},
            "a stratum of two sites": {"strata": by_class.strata({2: [1, 2]})},
            "strata that do not add up": {"sizes": [6]},
            "a stratum of more rows than scores": {"strata": by_class.strata({2: [2]}, {2: [3]})},
            "a stratum with a group": {"strata": by_class.strata({0: "sex=F"})},
            "not by class": {"by_class": ABSENT},
            "by group": {"columns": ["sex"]},
            "of an unknown kind": {"kind": "bloom"},
            "of the kind of losses": {"kind": "losses"},
            "an array beside the strata": {"lengths": [0]},
            "no strata": {"strata": [], "arrays": []},
        },
    )
    groups = {"sex": ["F", "M", "F", None, None]}
    by_group = File(fc.Summary.of_scores(SCORES, kind="exact", groups=groups, site="a"))
    rows, none, f, m = by_group.arrays
    yield from altered(
        by_group,
        "by group",
        {
            "columns out of order": {"columns": ["sex", "age"]},
            "a column with =": {"columns": ["se=x"]},
            "a group of another column": {"strata": by_group.strata({}, {}, {0: "age=F"})},
            "a group with a space around it": {"strata": by_group.strata({}, {}, {}, {0: "sex=M "})},
            "a group with a label": {"strata": by_group.strata({1: 0})},
            "out of order": {"strata": by_group.strata(order=[0, 1, 3, 2]), "arrays": [rows, none, m, f]},
            "no group of all rows": {"strata": by_group.strata(order=[1, 2, 3]), "arrays": [none, f, m]},
            "all rows are not all": {"sizes": [6]},
            "rows that are in no group": {"strata": by_group.strata(order=[0, 2, 3]), "arrays": [rows, f, m]},
            "more rows than there are": {
                "strata": by_group.strata({}, {}, {2: [5], 4: [5]}),
                "arrays": [rows, none, rows, m],
            },
        },
    )


def _losses() -> Iterator[tuple[str, bytes]]:
    losses = File(fc.LossSummary.of_losses([[1, 0.5, 0], [1, 1, 0.25]], thresholds=[1, 2, 3], site="a"))
    steps = File(fc.LossSummary.of_losses([[1, 1, 1, 0.5, 0.5]], thresholds=[1, 2, 3, 4, 5]))
    unit = 2**20
    yield from altered(
        losses,
        "losses",
        {
            "more than the bound": {"arrays": [counts(2 * unit + 1, unit, 0)]},
            "that rise": {"arrays": [counts(unit, 2 * unit, 0)]},
            "too few sums": {"arrays": [counts(unit, 0)]},
            "never rounded": {"numbers": [0]},
            "places that are not needed": {"arrays": [counts(1, 2), counts(unit, 0)]},
            "a bound of 0": {"bound": 0.0},
            "a bound of 10^7": {"bound": 1e7},
            "a bound that is whole": {"bound": 1},
            "a grid that falls": {"grid": floats(3, 2, 1)},
            "a grid with a minus zero": {"grid": floats(-0.0, 1, 2)},
            "a grid that is not finite": {"grid": floats(1, 2, float("inf"))},
            "a grid of half a number": {"grid": floats(1, 2, 3)[:-4]},
            "a loss with a text": {"loss": ["x", ["1"]]},
            "rising, at length": {"rising": False},
            "no grid": {"bound": ABSENT, "grid": ABSENT},
            "by class": {"by_class": True},
        },
    )
    yield from altered(
        steps,
        "losses",
        {
            "a place beyond the grid": {"arrays": {0: counts(5)}},
            "a place where nothing changes": {"arrays": {1: counts(unit)}},
            "places and all sums": {"arrays": {1: counts(*[unit] * 3, *[unit // 2] * 2)}},
            "all sums where places are fewer": {"arrays": [counts(*[unit] * 3, *[unit // 2] * 2)]},
            "places out of order": {"arrays": [counts(3, 1), counts(unit // 2, 0)]},
        },
    )
