"""Classes by name: labels that are names, and tables whose columns are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from fedconformal._base.classes import as_class_indices, class_names, in_order, match_columns, names_and_values, rows_at
from fedconformal._base.groups import as_sites
from tests.contracts.frames import FRAMES, SERIES
from tests.contracts.tools import refused

NAMES = ("ash", "elm", "oak")
PROBS = np.array([[0.5, 0.3, 0.2], [0.1, 0.2, 0.7]])


@pytest.mark.parametrize(
    ("given", "names"),
    [
        (np.arange(3), 3),
        (np.arange(3.0), 3),
        (["a", "b"], ("a", "b")),
        (np.array(["a", "b"], dtype=object), ("a", "b")),
        ([0, 2], ("0", "2")),
        ([1.0, 2.5], ("1", "2.5")),
        ([False, True], ("False", "True")),
        (["Ko\u0308ln "], ("Köln",)),
        (["0", "1"], ("0", "1")),
    ],
)
def test_names_of_classes(given: Any, names: Any) -> None:
    assert class_names(given) == names


@pytest.mark.parametrize("series", SERIES.values(), ids=SERIES)
@pytest.mark.parametrize(
    ("classes", "labels"),
    [
        (NAMES, ["elm", "ash", "oak", "elm"]),
        (("1", "2", "5"), [2, 1, 5, 2]),
        (("1", "2", "5"), [2.0, 1.0, 5.0, 2.0]),
        (("1", "2", "5"), ["2", "1", "5", "2"]),
        (("False", "True", "maybe"), [True, False, "maybe", True]),
        (3, [1, 0, 2, 1]),
    ],
)
def test_labels_by_name(series: Any, classes: Any, labels: list[Any]) -> None:
    if len({type(label) for label in labels}) > 1 and series is not SERIES["list"]:
        labels = [str(label) for label in labels]
    found = as_class_indices(series(labels), rows=4, classes=classes)
    assert found.tolist() == [1, 0, 2, 1]
    assert found.dtype == np.int64


def test_booleans_are_labels() -> None:
    assert as_class_indices(np.array([True, False]), rows=2, classes=("False", "True")).tolist() == [1, 0]


@pytest.mark.parametrize(
    ("labels", "fragments"),
    [
        (["ash", "yew", "fir", "yew"], ["row 1", "'yew'", "'fir'", "the classes are ash, elm, oak"]),
        ([0, 1, 2, 1], ["'0'", "the classes are ash"]),
        (["ash", None, "elm", "oak"], ["row 1 has no label"]),
        (["ash", float("nan"), "elm", "oak"], ["row 1 has no label"]),
        (["ash", "", "elm", "oak"], ["row 1 has no label"]),
        (["ash", "elm"], ["shape (2,)", "4 rows"]),
        ([["ash", "elm"]] * 4, ["shape (4, 2)"]),
        (None, ["shape ()"]),
    ],
)
def test_other_labels_are_named(labels: Any, fragments: list[str]) -> None:
    with refused("labels: ", *fragments):
        as_class_indices(labels, rows=4, classes=NAMES)


def test_names_without_names() -> None:
    with refused("labels: holds text, not numbers (row 0 is 'ash')", "give the names of the classes"):
        as_class_indices(["ash"], rows=1, classes=3)


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_tables_are_recognised(frame: Any) -> None:
    names, values = names_and_values(frame(NAMES, PROBS))
    assert names == NAMES
    assert np.array_equal(values, PROBS)
    swapped = frame(("oak", "ash", "elm"), PROBS[:, [2, 0, 1]])
    assert np.array_equal(in_order(swapped, NAMES), PROBS)
    assert np.array_equal(in_order(frame(("x", "y", "z"), PROBS), 3), PROBS)
    assert np.array_equal(in_order(frame(("x", "y", "z"), PROBS), None), PROBS)
    assert names_and_values(rows_at(frame(NAMES, PROBS), np.array([1])))[1].tolist() == PROBS[[1]].tolist()


@pytest.mark.parametrize("values", [PROBS, PROBS.tolist(), PROBS.astype(np.float32)])
def test_arrays_have_no_names(values: Any) -> None:
    assert names_and_values(values)[0] is None
    assert np.array_equal(in_order(values, NAMES), np.asarray(values))
    for classes in (NAMES[:2], 2):
        with refused("probabilities: have 3 columns", "2 classes"):
            in_order(values, classes)


def test_columns_by_number() -> None:
    """Numbers from 0 are what pandas calls columns without names; other numbers are names."""
    frame = FRAMES["columns"]
    assert names_and_values(frame([0, 1, 2], PROBS))[0] is None
    assert names_and_values(frame([1, 2, 5], PROBS))[0] == ("1", "2", "5")


def test_columns_that_do_not_match() -> None:
    assert match_columns(("b", " a"), ("a", "b"))[0] == [1, 0]
    assert match_columns(("p_b", "p_a"), ("a", "b"))[0] == [1, 0]
    for columns, problem in (
        (("ash", "elm", "fir"), "has no column for the class oak; the columns are ash, elm, fir"),
        (("id", "ash", "elm", "oak"), "has the column id, which is none of the classes ash, elm, oak"),
        (("ash", "elm", "oak", "ash "), "two columns are called ash"),
    ):
        with refused(problem):
            match_columns(columns, NAMES)


@pytest.mark.parametrize("series", SERIES.values(), ids=SERIES)
def test_ids_of_sites(series: Any) -> None:
    assert as_sites(series(["b", "a", "b "]), rows=3).tolist() == ["b", "a", "b"]
    assert as_sites(series([3, 1, 3]), rows=3).tolist() == [3, 1, 3]


@pytest.mark.parametrize("missing", [None, float("nan"), ""])
def test_a_missing_id(missing: Any) -> None:
    with refused("sites: row 1 has no id"):
        as_sites(np.array(["a", missing], dtype=object), rows=2)
    with refused("sites: row 1 has no id"):
        as_sites(pa.array(["a", None]), rows=2)
    with refused("sites: "):
        as_sites(np.array([["a"], ["b"]], dtype=object)[:, None], rows=2)


def test_rows_of_anything() -> None:
    index = np.array([2, 0])
    assert rows_at(["a", "b", "c"], index).tolist() == ["c", "a"]
    assert rows_at(np.arange(3), index).tolist() == [2, 0]
