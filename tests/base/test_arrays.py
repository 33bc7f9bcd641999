"""Bad input is refused in one line that says what is wrong, and where."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import fedconformal as fc
from fedconformal._base.arrays import as_alpha, as_labels, as_probabilities, as_scores, as_temperature
from fedconformal._base.groups import as_sites
from fedconformal._base.names import as_name
from tests.contracts.tools import FakeTensor, refused

NAN, INF = math.nan, math.inf
TWO = [[0.5, 0.5], [0.25, 0.75]]
TOO_LARGE = 10**400


FC: Any = fc
"""The library without its type hints, for calls that these would not let pass."""


def three_rows(third: list[float]) -> list[list[float]]:
    return [[0.5, 0.5], [0.25, 0.75], third]


# --- refusals ---


@pytest.mark.parametrize("bad", [0, 7, 2**20 // 8, 2 * 2**20 // 8 + 5])
def test_the_first_bad_row_of_any_chunk_is_named(bad: int) -> None:
    probs = np.full((3 * 2**20 // 8, 8), 0.125, dtype=np.float32)
    for entry, what in ((0.5, "sums to 1.375, not 1"), (-1.0, "negative entry -1"), (np.nan, "not finite")):
        probs[bad, 3] = entry
        with refused(f"clinic.npy: row {bad}", what):
            as_probabilities(probs, "clinic.npy")


REFUSED: list[tuple[Callable[[Any], object], Any, list[str]]] = [
    *(
        (as_probabilities, probs, ["probabilities: ", *fragments])
        for probs, fragments in [
            (three_rows([NAN, 0.5]), ["row 2", "not finite"]),
            (three_rows([INF, -INF]), ["row 2", "not finite"]),
            (three_rows([0.5, 0.502]), ["row 2", "sums to 1.002, not 1"]),
            (three_rows([0.5, 0.498]), ["row 2", "sums to 0.998, not 1", "complete distribution"]),
            (three_rows([1.5, -0.5]), ["row 2", "negative entry -0.5"]),
            (three_rows([1e308, 1e308]), ["row 2", "sums to inf, not 1"]),
            ([[0.5, 0.5], [-1e-30, 1.0]], ["row 1", "negative entry -1e-30"]),
            ([[0.9, 0.2], [NAN, 0.5]], ["row 0", "sums to 1.1"]),
            ([[-5.0, 2.0], [1.0, 3.0]], ["row 0", "softmax"]),
            (np.eye(30)[:5] + np.eye(30)[1:6], ["row 0", "sums to 2, not 1"]),  # whole numbers are not rounded ones
            ([0.5, 0.5], ["shape (2,)", "(rows, classes)"]),
            ([[]], ["shape (1, 0)"]),
            ([[0.5, 0.5], [1.0]], ["cannot be read as an array"]),
            ([["a", "b"]], ["not numbers"]),
            ([[1j, 1.0]], ["not numbers"]),
            (np.array([["2020-01-01"]], dtype="datetime64[D]"), ["not numbers"]),
            ([[TOO_LARGE, 1]], ["not numbers"]),
            (FakeTensor([[0.5, 0.6]]), ["row 0", "sums to 1.1"]),
        ]
    ),
    *(
        (fc.softmax, logits, ["logits: ", *fragments])
        for logits, fragments in [
            (TWO, ["every row is a distribution already", "softmax"]),
            ([[0.0, 1.0], [NAN, 0.0]], ["row 1", "not finite"]),
            ([[INF, 0.0]], ["row 0", "not finite"]),
        ]
    ),
    *(
        (partial(fc.LAC().evaluate, TWO), labels, ["labels: ", *fragments])
        for labels, fragments in [
            ([0, 2], ["row 1 is 2", "from 0 to 1"]),
            ([-1, 0], ["row 0 is -1"]),
            ([0, 0.5], ["row 1 is 0.5", "whole class index"]),
            ([0, NAN], ["row 1 is nan"]),
            ([0, 1e300], ["row 1 is 1e+300"]),
            (np.array([0, 2**64 - 1], dtype=np.uint64), ["row 1"]),
            ([True, False], ["booleans"]),
            ([0], ["shape (1,)", "expected (2,)"]),
            ([[1, 0], [0, 1]], ["shape (2, 2)"]),
            (["0", "1"], ["not numbers"]),
        ]
    ),
    *(
        (as_scores, scores, ["scores: ", *fragments])
        for scores, fragments in [
            ([0.1, NAN], ["row 1 is nan", "finite"]),
            ([INF], ["row 0 is inf"]),
            ([0.1, 0.2, -INF], ["row 2 is -inf"]),
            ([], ["is empty", "at least one calibration row"]),
            ([[0.1]], ["shape (1, 1)"]),
            ([TOO_LARGE], ["not numbers"]),
            (np.array(["1e4000"], dtype=np.longdouble), ["row 0", "finite"]),
        ]
    ),
    *(
        (partial(as_sites, rows=2), sites, ["sites: "])
        for sites in [["a"], ["a", "b", "c"], [["a", "b"]], "ab", None, [None, None], [{}, {}], [[1], [1, 2]]]
    ),
    *(
        (as_temperature, temperature, ["temperature is ", "expected a positive number"])
        for temperature in [0, -1, 0.0, -0.0, NAN, INF, "1", None, True, [1.0], 1j, TOO_LARGE]
    ),
    *(
        (partial(as_name, what="site"), text, ["site is ", "expected 1 to 64 printable characters"])
        for text in ["", "x" * 65, "a\nb", "\t", "\x00", "\x1b[0m", "\u202ea", "\u2028", "\ud800", 1, None, b"a", ["a"]]
    ),
    *(
        (partial(fc.LAC().predict_set, TWO), threshold, ["threshold: "])
        for threshold in [NAN, None, [0.1, 0.2, 0.3], [[0.1, 0.2]], [NAN, 0.1], [], [0.1, None]]
    ),
    *(
        (lambda weights: fc.Mixture(weights=weights), weights, ["weights", fragment])
        for weights, fragment in [
            ("equal", "weights is 'equal', expected 'rows', 'uniform' or numbers"),
            ((), "expected one number a site"),
            ((0.5, -0.5, 1.0), "weights is -0.5"),
            ((NAN, 1.0), "weights is nan"),
            ((0.5, 0.4), "which sum to 1"),
            ((0.0, 0.0), "which sum to 1"),
            ({"a": 1.0}, "expected one number a site, in the order of the summaries"),
            (None, ""),
            ([{}], ""),
            ([TOO_LARGE], ""),
            ([[0.5], [0.25, 0.25]], ""),
        ]
    ),
]


@pytest.mark.parametrize(("read", "value", "fragments"), REFUSED)
def test_bad_values_are_refused(read: Callable[[Any], object], value: Any, fragments: list[str]) -> None:
    with refused(*fragments):
        read(value)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_good_probabilities_are_never_changed(dtype: type) -> None:
    probs: NDArray[Any] = np.array([[0.3, 0.7], [0.5005, 0.5], [0.4995, 0.5]], dtype=dtype)
    found = as_probabilities(probs)
    assert found.dtype == dtype
    assert found.tobytes() == probs.tobytes()
    assert as_probabilities(np.eye(3, dtype=np.int8)).tolist() == np.eye(3).tolist()
    assert as_probabilities([[True, False]]).tolist() == [[1.0, 0.0]]
    assert as_probabilities(np.empty((0, 3))).shape == (0, 3)


# --- logits ---


@pytest.mark.parametrize("classes", [3, 10, 100])
def test_softmax_does_not_depend_on_the_order_in_memory(classes: int) -> None:
    logits = np.random.default_rng(0).normal(size=(500, classes))
    assert fc.softmax(logits).tobytes() == fc.softmax(np.asfortranarray(logits)).tobytes()


def test_softmax_by_hand() -> None:
    found = fc.softmax([[0.0, math.log(3)], [1000.0, 0.0]])
    assert found.dtype == np.float64
    assert found == pytest.approx(np.array([[0.25, 0.75], [1.0, 0.0]]))
    assert fc.softmax([[0.0, math.log(9)]], temperature=2) == pytest.approx(np.array([[0.25, 0.75]]))
    assert fc.softmax([[3.0]]).tolist() == [[1.0]]
    assert fc.softmax(np.empty((0, 2))).shape == (0, 2)
    logits = np.array([[0.0, 2.0]], dtype=np.float32)
    logits.setflags(write=False)
    assert fc.softmax(FakeTensor(logits)).sum() == pytest.approx(1)
    mixed = fc.softmax([[0.5, 0.5], [3.0, -1.0]])  # one row that is a distribution proves nothing
    assert mixed.sum(axis=1) == pytest.approx(1)


@pytest.mark.parametrize(
    ("logits", "temperature"),
    [([[1e308, -1e308], [1.0, 2.0]], 1.0), ([[1e308, 1e308]], 1.0), ([[10.0, 0.0]], 1e-310), ([[10.0, 0.0]], 1e300)],
)
def test_softmax_of_extremes_is_a_distribution(logits: Any, temperature: float) -> None:
    assert as_probabilities(fc.softmax(logits, temperature=temperature)).shape == np.shape(logits)


# --- labels ---


def test_good_labels() -> None:
    for labels in ([0, 1], [0.0, 1.0], np.array([[0], [1]], dtype=np.uint8), FakeTensor([0, 1]), (0, 1)):
        found = as_labels(labels, rows=2, classes=2)
        assert found.dtype == np.int64
        assert found.tolist() == [0, 1]


# --- scores ---


def test_good_scores() -> None:
    assert as_scores([1, -2, 10**6]).tolist() == [1.0, -2.0, 1e6]
    assert np.signbit(as_scores([-0.0])).tolist() == [False]
    assert as_scores(FakeTensor([0.5])).tolist() == [0.5]
    assert as_scores([5e-324, 1.7e308, -1.7e308]).tolist() == [5e-324, 1.7e308, -1.7e308]


# --- alpha and weights ---


@pytest.mark.parametrize(
    "alpha",
    [
        0, 1, -1, 2, 0.0, 1.0, NAN, INF, -INF, "0", "1", "nan", "inf", "x", "", "1/10", "0,1", "1e-999999999",
        "1e999999999", None, True, [], [0.1], {}, 1e-16, b"0.1", 0.1j, np.array([0.1, 0.2]), np.arange(500.0), "2\n",
        Fraction(0), Fraction(1), Fraction(-1, 10), Fraction(1, 10**16), TOO_LARGE, 10**5000, Decimal("NaN"),
        np.float32("nan"),
    ],
    ids=lambda alpha: repr(alpha)[:20] if not isinstance(alpha, int) else f"{alpha.bit_length()} bits",
)  # fmt: skip
def test_bad_alphas(alpha: Any) -> None:
    with refused("alpha is ", "expected a number between 0 and 1"):
        as_alpha(alpha)


@pytest.mark.parametrize(
    ("alpha", "exact"),
    [
        (0.1, "0.1"),
        ("0.1", "0.1"),
        (" 0.1 ", "0.1"),
        (np.float32(0.1), "0.1"),
        (np.array(0.1), "0.1"),
        (Decimal("0.1"), "0.1"),
        (Fraction(1, 3), "0.333333333333333"),
        (1e-15, "1e-15"),
        (0.9999999999999999, "0.999999999999999"),
        (0.30000000000000004, "0.3"),
    ],
)
def test_good_alphas(alpha: Any, exact: str) -> None:
    assert as_alpha(alpha) == Fraction(exact)


def test_good_weights() -> None:
    forms: list[Any] = [(0.25, 0.75), [0.25, 0.75], np.array([0.25, 0.75]), np.array([0.25, 0.75], dtype=np.float32)]
    assert {fc.Mixture(weights=weights) for weights in forms} == {fc.Mixture(weights=(0.25, 0.75))}
    assert fc.Mixture(weights=(0.3333333, 0.6666667)).weights == (0.3333333, 0.6666667)


# --- what does not go together ---


SITE = fc.Summary.of_scores([0.1, 0.2, 0.3], site="a")


@pytest.mark.parametrize(
    ("action", "fragments"),
    [
        (lambda: FC.calibrate([]), ["no summaries"]),
        (lambda: FC.calibrate([[0.1, 0.2]]), ["expected summaries, got list", "summarize"]),
        (lambda: FC.calibrate([SITE, SITE.to_bytes()]), ["expected summaries, got bytes"]),
        (lambda: FC.pool([]), ["nothing to pool"]),
        (lambda: FC.pool([SITE, [0.1, 0.2]]), ["expected summaries"]),
        (lambda: FC.Summary.of_scores([0.1], kind="median"), ["no summary kind is called 'median'", "exact", "ranks"]),
    ],
)
def test_other_bad_calls(action: Callable[[], object], fragments: list[str]) -> None:
    with refused(*fragments):
        action()
