"""Evaluation against counting by hand, and intervals against scipy's."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest

from fedconformal.evaluation import evaluate_sets
from fedconformal.evaluation.intervals import clopper_pearson
from tests.contracts.tools import FakeTensor, refused

SETS = np.array([list(row) for row in ("11000", "00000", "11111", "00100", "01101", "11110")]) == "1"
LABELS = [0, 0, 4, 1, 1, 4]
CLIENTS = ["b", "a", "a", "b", "a", "a"]


def interval(hits: int, rows: int) -> tuple[float, float]:
    found = binomtest(hits, rows).proportion_ci(0.95, "exact")
    return float(found.low), float(found.high)


def row_of(group: Any) -> tuple[str, int, float, float]:
    return group.name, group.rows, group.coverage, group.mean_size


def test_by_hand() -> None:
    found = evaluate_sets(SETS, LABELS, sites=CLIENTS)
    assert (found.coverage, found.mean_size) == (3 / 6, 15 / 6)
    assert row_of(found.overall) == ("all", 6, 0.5, 2.5)
    assert found.size_histogram == [1, 1, 1, 1, 1, 1]
    assert [row_of(group) for group in found.by_site] == [("a", 4, 2 / 4, 3.0), ("b", 2, 1 / 2, 1.5)]
    assert [row_of(group) for group in found.by_class] == [
        ("0", 2, 1 / 2, 1.0),
        ("1", 2, 1 / 2, 2.0),
        ("4", 2, 1 / 2, 4.5),
    ]
    assert [row_of(group) for group in found.by_size] == [
        ("0", 1, 0.0, 0.0),
        ("1", 1, 0.0, 1.0),
        ("2-3", 2, 1.0, 2.5),
        ("4-5", 2, 0.5, 4.5),
    ]
    for group in [found.overall, *found.by_site, *found.by_class, *found.by_size]:
        hits = round(group.coverage * group.rows)
        assert (group.low, group.high) == pytest.approx(interval(hits, group.rows), abs=1e-12)


@pytest.mark.parametrize("rows", [1, 2, 7, 30, 1000, 100_000])
def test_intervals_are_those_of_scipy(rows: int) -> None:
    hits = np.unique([0, 1, rows // 3, rows // 2, (9 * rows) // 10, rows - 1, rows])
    low, high = clopper_pearson(hits, np.full(len(hits), rows))
    expected = np.array([interval(int(hit), rows) for hit in hits])
    assert np.stack([low, high], axis=1) == pytest.approx(expected, abs=1e-9)
    assert (low <= hits / rows).all()
    assert (hits / rows <= high).all()
    assert (low[0], high[-1]) == (0.0, 1.0)


def test_size_classes_of_many_labels() -> None:
    sizes = [0, 1, 2, 3, 4, 10, 11, 100, 101, 1000, 1001, 10_000, 10_001]
    sets = np.arange(10_001)[None, :] < np.array(sizes)[:, None]
    found = evaluate_sets(sets, [0] * len(sizes))
    assert [(group.name, group.rows) for group in found.by_size] == [
        ("0", 1), ("1", 1), ("2-3", 2), ("4-10", 2), ("11-100", 2), ("101-1000", 2), ("1001-10000", 2), ("10001", 1)
    ]  # fmt: skip
    assert len(found.size_histogram) == 10_002
    assert sum(found.size_histogram) == len(sizes)


def test_what_it_says_of_itself() -> None:
    found = evaluate_sets(SETS.tolist(), FakeTensor(LABELS), sites=CLIENTS)
    assert (found.full_sets, found.interval_assumes, found.reweighted) == (1, "rows are independent", None)
    assert repr(found) == "Evaluation(coverage=0.5000, mean_size=2.500, rows=6)"
    assert found.overall.cells == ("all", "6", "0.5000", "0.118 to 0.882", "2.500")
    json.dumps(found.to_dict(), allow_nan=False)


BAD_SETS = [SETS[:0], SETS.astype(int), SETS.astype(float), SETS[0], SETS[..., None], [[True], []], [["a"]], None]


@pytest.mark.parametrize("sets", BAD_SETS)
def test_bad_sets(sets: Any) -> None:
    with refused("sets: "):
        evaluate_sets(sets, LABELS)
