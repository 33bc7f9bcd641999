"""Each score against its formula, written out a second time, and against numbers worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import fedconformal as fc
from fedconformal._base.arrays import Floats
from fedconformal.scores.aps import more_probable
from tests.contracts.tools import checks, refused, rows_of_probabilities

Probs = NDArray[np.floating[Any]]
ROW = [[0.125, 0.5, 0.125, 0.25]]


def rounded(row: Probs) -> list[float]:
    return [round(float(p) * 2**40) / 2**40 for p in row]


def aps(row: Probs, label: int) -> tuple[float, int]:
    """Return the sum and the rank in plain Python: labels in order of probability, ties by index."""
    p = rounded(row)
    order = sorted(range(len(p)), key=lambda j: (-float(row[j]), j))
    rank = order.index(label) + 1
    return sum(p[j] for j in order[:rank]), rank


@given(rows_of_probabilities(most_rows=3, most_classes=12))
@checks(80)
def test_scores_in_plain_python(probs: Probs) -> None:
    raps = fc.RAPS(penalty=0.25, free_ranks=2)
    found = {score: score.evaluate_all(probs) for score in (fc.LAC(), fc.APS(), raps)}
    for i, row in enumerate(probs):
        for j, p in enumerate(row):
            total, rank = aps(row, j)
            assert found[fc.LAC()][i, j] == 1 - float(p)
            assert found[fc.APS()][i, j] == total
            assert found[raps][i, j] == total + 0.25 * max(rank - 2, 0)


@given(rows_of_probabilities(most_rows=3, most_classes=12), st.booleans())
@checks(80)
def test_scores_by_rank_in_plain_python(probs: Probs, randomized: bool) -> None:
    topk, saps = fc.TopK(randomized=randomized), fc.SAPS(weight=0.25, randomized=randomized)
    found = {score: score.evaluate_all(probs) for score in (topk, saps, fc.Margin())}
    draws = topk.draws(probs)
    for i, row in enumerate(probs):
        kept, largest = 1 - float(draws[i]), float(max(row))
        for j, p in enumerate(row):
            rank = aps(row, j)[1]
            others = [float(q) for k, q in enumerate(row) if k != j]
            assert found[topk][i, j] == rank - draws[i]
            assert found[saps][i, j] == (kept * largest if rank == 1 else largest + 0.25 * (rank - 2 + kept))
            assert found[fc.Margin()][i, j] == max(others, default=0.0) - float(p)


def test_by_hand() -> None:
    assert fc.RAPS(penalty=0.5, free_ranks=0).evaluate_all(ROW).tolist() == [[2.375, 1.0, 3.0, 1.75]]
    assert fc.RAPS(penalty=0.5, free_ranks=9).evaluate_all(ROW).tolist() == fc.APS().evaluate_all(ROW).tolist()
    assert fc.APS().evaluate_all([[0.0, 1.0, 0.0]]).tolist() == [[1.0, 1.0, 1.0]]
    assert fc.RAPS(penalty=1).evaluate_all([[0.0, 1.0, 0.0]]).tolist() == [[2.0, 1.0, 3.0]]
    assert fc.LAC().evaluate_all([[1.0]]).tolist() == [[0.0]]
    assert fc.LAC().predict_set([[0.75, 0.25]], [0.125, 0.875]).tolist() == [[True, True]]  # the top label is in


def test_forty_bits_are_summed_and_all_are_compared() -> None:
    step = 2.0**-40
    assert fc.APS().evaluate([[0.5 - step, 0.5 + step]], [1])[0] == 0.5 + step
    close = [[0.5 - step / 8, 0.5 + step / 8]]
    assert fc.APS().evaluate_all(close).tolist() == [[1.0, 0.5]]  # the larger one is ahead, by however little
    assert fc.APS().evaluate_all([[0.5, 0.5]]).tolist() == [[0.5, 1.0]]


def check_alike(score: fc.Score, probs: Probs, everything: Floats, thresholds: Floats) -> None:
    """Demand these scores of all labels in every way to ask for them."""
    assert np.array_equal(score.evaluate_all(probs), everything)
    for label in range(probs.shape[1]):
        assert np.array_equal(score.evaluate(probs, [label] * len(probs)), everything[:, label])
    for q in thresholds:
        assert np.array_equal(score.predict_set(probs, q, allow_empty=True), everything <= q)


@pytest.mark.parametrize("classes", [20, 300])
def test_small_float32_numbers_are_rounded_like_their_float64_copies(classes: int) -> None:
    """From 2^-17 on a float32 has no bits beyond the fortieth; below it has, and they must not be summed."""
    rng = np.random.default_rng(classes)
    probs = 2.0 ** rng.uniform(-45, -10, (200, classes))
    probs[:100, 1] = [2.0**-17, np.nextafter(np.float32(2.0**-17), np.float32(0))] * 50
    probs[:, 0] += 1 - probs.sum(axis=1)
    probs = probs.astype(np.float32)
    for score in (fc.APS(), fc.RAPS()):
        everything = score.evaluate_all(probs.astype(np.float64))
        check_alike(score, probs, everything, rng.choice(everything.ravel(), 20))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_zero_with_a_sign_is_a_zero(dtype: Any) -> None:
    plain = np.array([[0.0, 0.5, 0.0, 0.5, 0.0], [0.0, 1.0, 0.0, 0.0, 0.0]] * 60, dtype=dtype)
    signed = plain.copy()
    signed[:, 2] = -0.0
    signed[60:, 0] = -0.0
    for score in (fc.LAC(), fc.APS(), fc.RAPS(penalty=0.25), fc.RAPS(randomized=True), fc.Margin(), fc.TopK()):
        everything = score.evaluate_all(plain)
        check_alike(score, signed, everything, np.unique(everything))


def mix(state: int) -> int:
    """SplitMix64's finaliser in plain Python."""
    state = (state + 0x9E3779B97F4A7C15) % 2**64
    state = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    state = (state ^ state >> 27) * 0x94D049BB133111EB % 2**64
    return state ^ state >> 31


def draw(row: Probs, seed: int) -> float:
    """Hash a row in plain Python."""
    units = [round(float(p) * 2**40) for p in row]
    keys = [mix((mix(seed) + j) % 2**64) for j in range(len(units))]
    return (mix(sum(u * k for u, k in zip(units, keys, strict=True)) % 2**64) >> 11) / 2**53


@given(rows_of_probabilities(most_rows=3, most_classes=12), st.integers(0, 2**63 - 1))
@checks(60)
def test_random_draws_in_plain_python(probs: Probs, seed: int) -> None:
    found = fc.APS(randomized=True, random_state=seed).evaluate_all(probs)
    for i, row in enumerate(probs):
        for j, p in enumerate(rounded(row)):
            assert found[i, j] == aps(row, j)[0] - draw(row, seed) * p


def draws(score: fc.APS, probs: Probs) -> NDArray[Any]:
    """Recover U from the scores of the top label."""
    top = probs.argmax(axis=1)
    p = probs[np.arange(len(probs)), top]
    taken: NDArray[Any] = (p - score.evaluate(probs, top)) / p
    return taken


def test_draws_look_uniform_and_follow_the_seed() -> None:
    from scipy.stats import kstest

    probs = np.random.default_rng(1).dirichlet(np.ones(10), size=4000)
    first, second = (draws(fc.APS(randomized=True, random_state=seed), probs) for seed in (0, 1))
    assert kstest(first, "uniform").pvalue > 0.001
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.06
    assert abs(np.corrcoef(first[1:], first[:-1])[0, 1]) < 0.06
    assert abs(np.corrcoef(first, probs[:, 0])[0, 1]) < 0.06
    assert np.array_equal(first, draws(fc.APS(randomized=True, random_state=0), probs))


@pytest.mark.parametrize(
    ("cls", "name", "values"),
    [
        (fc.APS, "randomized", [1, None, "yes"]),
        (fc.APS, "random_state", [1.0, True, None, -1, 2**63]),
        (fc.RAPS, "penalty", [-0.1, float("nan"), float("inf"), "1", True, 10**400]),
        (fc.RAPS, "free_ranks", [0.001, -1, 2**31]),
    ],
)
def test_bad_parameters_are_refused(cls: Any, name: str, values: list[Any]) -> None:
    for value in values:
        with refused(f"{name} is ", "expected ", param=name):
            cls(**{name: value})


def test_a_single_tie_is_noticed() -> None:
    rows = np.array([[0.5, 0.3, 0.2], [0.4, 0.4, 0.2]])
    assert [more_probable(rows[:n], rows[:n, 0])[1] for n in (1, 2)] == [False, True]
