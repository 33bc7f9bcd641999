"""Intervals against known values: coverage and width, by site and group, and the verdict."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from fedconformal._base.arrays import Floats
from fedconformal.evaluation import evaluate_intervals, evaluate_sets
from tests.contracts.tools import refused
from tests.evaluation.certified import certified, said


def drawn(rows: int = 400) -> tuple[Floats, Floats]:
    """Draw values and intervals of two widths."""
    rng = np.random.default_rng(0)
    y = rng.normal(size=rows)
    half = np.where(np.arange(rows) % 2, 1.0, 2.0)
    return np.column_stack([-half, half]), y


def test_numbers_are_those_of_plain_formulas() -> None:
    ends, y = drawn()
    whole = evaluate_intervals(ends, y, alpha=0.1)
    found = whole.overall
    inside = (ends[:, 0] <= y) & (y <= ends[:, 1])
    assert found.coverage == inside.mean()
    assert found.mean_width == whole.mean_width == 3
    assert found.median_width == 2
    assert found.infinite == 0


def test_both_ends_belong_to_the_interval() -> None:
    assert evaluate_intervals([[0.0, 1.0], [0.0, 1.0], [0.0, 1.0]], [0.0, 1.0, np.nextafter(1, 2)]).coverage == 2 / 3


def test_coverage_has_the_same_interval_as_sets_have() -> None:
    """The same hits and misses, once as sets and once as intervals: the same numbers, with clusters too."""
    ends, y = drawn()
    inside = (ends[:, 0] <= y) & (y <= ends[:, 1])
    sites, patients = np.where(np.arange(400) < 100, "a", "b"), np.arange(400) // 8
    sets = np.column_stack([inside, ~inside])
    for clusters in (None, patients):
        given: dict[str, Any] = {"sites": sites, "clusters": clusters, "groups": {"half": np.arange(400) % 2}}
        ours = evaluate_intervals(ends, y, **given)
        theirs = evaluate_sets(sets, np.zeros(400, int), **given)
        for one, other in zip(
            [ours.overall, *ours.by_site, *ours.by_group["half"]],
            [theirs.overall, *theirs.by_site, *theirs.by_group["half"]],
            strict=True,
        ):
            kept = ("name", "rows", "coverage", "low", "high", "clusters")
            assert [getattr(one, name) for name in kept] == [getattr(other, name) for name in kept]
        assert ours.interval_words == theirs.interval_words


def test_infinite_intervals_are_counted_and_fit_into_json() -> None:
    ends = [[-np.inf, np.inf], [0.0, np.inf], [0.0, 1.0]]
    found = evaluate_intervals(ends, [0.5, 0.5, 2.0], sites=["a", "b", "b"], alpha=0.1)
    assert (found.overall.infinite, found.overall.mean_width, found.mean_width) == (2, None, np.inf)
    assert "mean_width=inf" in repr(found)
    assert [group.infinite for group in found.by_site] == [1, 1]
    assert "infinite" in found.overall.cells
    json.dumps(found.to_dict(), allow_nan=False)


@pytest.mark.parametrize(
    ("ends", "y", "words"),
    [
        ([[0, 1]], [0, 1], "y: has shape (2,), expected (1,)"),
        ([[0, 1]], ["high"], "y: "),
        ([[0, 1]], [np.nan], "y: row 0 is nan, expected a finite number"),
        ([[0, 1], [2, 1]], [0, 1], "intervals: row 1 is from 2 to 1, expected the lower end first"),
        ([[0, np.nan]], [0], "intervals: row 0 is from 0 to nan"),
        ([[0, 1, 2]], [0], "intervals: expected (rows, 2) ends"),
        (np.empty((0, 2)), [], "intervals: expected (rows, 2) ends"),
    ],
)
def test_bad_input_is_one_clear_line(ends: Any, y: Any, words: str) -> None:
    with refused(words):
        evaluate_intervals(ends, y)


CERTIFIED = certified("mixture", {"a": 999})
"""It promises .9."""


def test_the_verdict_is_that_of_sets_in_the_words_of_intervals() -> None:
    hits = np.arange(1000) >= 200
    ends = np.where(hits[:, None], [-1.0, 1.0], [1.0, 2.0])
    found = evaluate_intervals(ends, np.zeros(1000), sites=["a"] * 1000, certificate=CERTIFIED)
    theirs = evaluate_sets(np.column_stack([hits, ~hits]), [0] * 1000, sites=["a"] * 1000, certificate=CERTIFIED)
    assert said(found).below
    assert said(found).p == said(theirs).p
    assert "the intervals miss 20.0% of 1,000 rows" in said(found).words
    assert found.reweighted == theirs.reweighted


def test_the_whole_line_says_nothing() -> None:
    found = evaluate_intervals([[-np.inf, np.inf]] * 9, np.zeros(9), certificate=CERTIFIED)
    assert said(found).words == (
        "No verdict: every interval is the whole line, so no row can be missed, and the intervals say nothing."
    )
