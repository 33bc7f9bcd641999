"""What every score there is must do."""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import fedconformal as fc
from fedconformal._base import registry
from fedconformal._base.arrays import Floats
from tests.contracts.tools import (
    PUBLIC,
    SCORES,
    FakeTensor,
    checks,
    maybe_infeasible,
    rows_of_probabilities,
    score_examples,
)

Probs = NDArray[np.floating[Any]]

every_score = pytest.mark.parametrize("score", score_examples(), ids=repr)
probs_and_seed = given(rows_of_probabilities(), st.integers(0, 2**32 - 1))

APART = 2.0**-38
"""Probabilities closer than this may be taken for equal."""


def same_bits(left: NDArray[Any], right: NDArray[Any]) -> bool:
    return left.dtype == right.dtype and left.shape == right.shape and left.tobytes() == right.tobytes()


def some_thresholds(scores: Floats) -> Floats:
    values = np.unique(scores)
    picked = values[np.linspace(0, len(values) - 1, 7).astype(int)]
    return np.unique(np.concatenate([[-np.inf], picked, np.nextafter(picked, -np.inf), [np.inf]]))


def test_there_is_an_example_of_every_score() -> None:
    assert {type(score) for score in score_examples()} == set(SCORES.values())
    assert {name: cls.name for name, cls in SCORES.items()} == {name: name for name in SCORES}


@every_score
@probs_and_seed
@checks(80)
def test_calibration_and_prediction_score_alike_to_the_last_bit(score: fc.Score, probs: Probs, seed: int) -> None:
    everything = score.evaluate_all(probs)
    assert everything.dtype == np.float64
    assert everything.shape == probs.shape
    assert np.isfinite(everything).all()
    labels = np.random.default_rng(seed).integers(0, probs.shape[1], len(probs))
    assert same_bits(score.evaluate(probs, labels), everything[np.arange(len(probs)), labels])


@every_score
@probs_and_seed
@checks(40)
def test_a_row_scores_the_same_in_any_company(score: fc.Score, probs: Probs, seed: int) -> None:
    everything = score.evaluate_all(probs)
    order = np.random.default_rng(seed).permutation(len(probs))
    assert same_bits(score.evaluate_all(probs[order]), everything[order])
    assert same_bits(np.concatenate([score.evaluate_all(row[None]) for row in probs]), everything)
    labels = np.arange(len(probs)) % probs.shape[1]
    alone = [score.evaluate(row[None], [label]) for row, label in zip(probs, labels, strict=True)]
    assert same_bits(np.concatenate(alone), score.evaluate(probs, labels))


@pytest.mark.long
@every_score
def test_chunks_change_nothing(score: fc.Score, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    probs = rng.dirichlet(np.full(700, 0.1), size=500)
    labels = rng.integers(0, 700, size=500)
    q = float(np.median(score.evaluate(probs, labels)))
    found = [score.evaluate_all(probs), score.evaluate(probs, labels), score.predict_set(probs, q)]
    for chunk in (1, 700 * 7, 2**40):
        monkeypatch.setattr(type(score), "chunk", chunk)
        again = [score.evaluate_all(probs), score.evaluate(probs, labels), score.predict_set(probs, q)]
        assert all(same_bits(one, two) for one, two in zip(found, again, strict=True))


@every_score
@given(rows_of_probabilities())
@checks(40)
def test_float32_and_its_float64_copy_agree(score: fc.Score, probs: Probs) -> None:
    narrow = probs.astype(np.float32)
    wide = narrow.astype(np.float64)
    assert same_bits(score.evaluate_all(narrow), score.evaluate_all(wide))
    assert same_bits(score.evaluate(narrow, [0] * len(probs)), score.evaluate(wide, [0] * len(probs)))
    assert same_bits(score.predict_set(narrow, 0.5), score.predict_set(wide, 0.5))


@every_score
@given(rows_of_probabilities())
@checks(60)
def test_less_probable_labels_never_score_lower(score: fc.Score, probs: Probs) -> None:
    for row, scores in zip(probs.astype(np.float64), score.evaluate_all(probs), strict=True):
        ahead = row[:, None] > row[None, :] + APART
        index = np.arange(len(row))
        ahead |= (row[:, None] == row[None, :]) & (index[:, None] < index[None, :])
        assert (scores[:, None] <= scores[None, :])[ahead].all()


@every_score
@given(rows_of_probabilities())
@checks(40)
def test_sets_are_the_labels_that_score_at_most_the_threshold(score: fc.Score, probs: Probs) -> None:
    scores = score.evaluate_all(probs)
    before = np.zeros(probs.shape, dtype=bool)
    for q in some_thresholds(scores):
        sets = score.predict_set(probs, q, allow_empty=True)
        assert sets.dtype == np.bool_
        assert same_bits(sets, scores <= q)
        assert (before <= sets).all()  # nested
        before = sets
        forced = score.predict_set(probs, q)
        top = probs.argmax(axis=1)
        assert forced[np.arange(len(probs)), top].all()
        forced[np.arange(len(probs)), top] = sets[np.arange(len(probs)), top]
        assert same_bits(forced, sets)


@pytest.mark.long
@every_score
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("classes", [33, 130, 1000])
def test_sets_of_many_classes(score: fc.Score, dtype: type[np.floating[Any]], classes: int) -> None:
    """Sets may be found without scoring every label; they must be the same sets, ties and deep rows included."""
    rng = np.random.default_rng(classes)
    spread = rng.dirichlet(np.full(classes, 0.05), size=40)
    tied = rng.multinomial(3 * classes, np.full(classes, 1 / classes), size=40) / (3 * classes)
    flat = np.full((2, classes), 1 / classes)
    peaks = np.eye(classes)[rng.integers(0, classes, 3)]
    probs = np.concatenate([spread, tied, flat, peaks])[rng.permutation(85)].astype(dtype)
    scores = score.evaluate_all(probs)
    values = np.unique(scores)
    picked = np.concatenate([rng.choice(values, 25), values[[0, -1]]])
    for q in [*picked, *np.nextafter(picked, -np.inf), 0.5, 0.9, 0.999, 1.0, -1.0, np.inf]:
        assert np.array_equal(score.predict_set(probs, q, allow_empty=True), scores <= q)


@every_score
@given(rows_of_probabilities())
@checks(30)
def test_infinite_thresholds(score: fc.Score, probs: Probs) -> None:
    assert score.predict_set(probs, np.inf).all()
    assert score.predict_set(probs, np.inf, allow_empty=True).all()
    assert not score.predict_set(probs, -np.inf, allow_empty=True).any()
    top_only = score.predict_set(probs, -np.inf)
    assert (np.argmax(top_only, axis=1) == probs.argmax(axis=1)).all()
    assert (top_only.sum(axis=1) == 1).all()


@every_score
@given(rows_of_probabilities(most_classes=8), st.integers(0, 2**32 - 1))
@checks(30)
def test_one_threshold_a_class(score: fc.Score, probs: Probs, seed: int) -> None:
    scores = score.evaluate_all(probs)
    limits = np.random.default_rng(seed).choice([*scores.ravel(), -np.inf, np.inf], size=probs.shape[1])
    assert same_bits(score.predict_set(probs, limits, allow_empty=True), scores <= limits)


@every_score
def test_arrays_lists_and_tensors_are_read_alike(score: fc.Score) -> None:
    probs = np.array([[0.5, 0.25, 0.25], [0.125, 0.75, 0.125], [0.0, 0.0, 1.0]])
    labels = np.array([1, 0, 2])
    scores, sets = score.evaluate_all(probs), score.predict_set(probs, 0.75)
    own = score.evaluate(probs, labels)
    forms: list[tuple[Any, Any]] = [
        (probs.tolist(), labels.tolist()),
        (FakeTensor(probs), FakeTensor(labels)),
        (np.asfortranarray(probs), labels.astype(np.uint8)),
        (np.repeat(probs, 2, axis=1)[:, ::2], labels.astype(np.float64)),
        (probs.astype(np.float16), labels[:, None]),
    ]
    for rows, wanted in forms:
        assert same_bits(score.evaluate_all(rows), scores)
        assert same_bits(score.predict_set(rows, 0.75), sets)
        assert same_bits(score.evaluate(rows, wanted), own)


@every_score
def test_no_rows_give_no_scores(score: fc.Score) -> None:
    empty = np.empty((0, 4))
    assert score.evaluate_all(empty).shape == (0, 4)
    assert score.evaluate(empty, []).shape == (0,)
    assert score.predict_set(empty, 0.5).shape == (0, 4)


@every_score
def test_inputs_are_left_alone(score: fc.Score) -> None:
    probs = np.array([[0.5, 0.25, 0.25]])
    labels = np.array([1])
    probs.setflags(write=False)
    labels.setflags(write=False)
    score.evaluate(probs, labels)
    score.evaluate_all(probs)
    score.predict_set(probs, 0.5)


@every_score
def test_a_score_is_a_frozen_value(score: fc.Score) -> None:
    assert eval(repr(score), dict(PUBLIC)) == score  # noqa: S307
    assert hash(dataclasses.replace(score)) == hash(score)
    names = [field.name for field in dataclasses.fields(score)]
    for name in [*names, "anything"]:
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(score, name, 1)
    make: Any = type(score)
    with pytest.raises(TypeError):
        make(None)  # parameters have names


@every_score
def test_a_score_survives_being_described(score: fc.Score) -> None:
    described = {"name": score.name, **dataclasses.asdict(score)}
    assert registry.build(described, fc.Score) == score
    summary = fc.Summary.of_scores([0.5], score=score)
    assert fc.Summary.from_bytes(summary.to_bytes()).provenance.score == score


@every_score
@given(rows_of_probabilities(most_rows=4, most_classes=10))
@checks(30)
def test_sets_are_nested_in_alpha(score: fc.Score, probs: Probs) -> None:
    labels = np.arange(len(probs)) % probs.shape[1]
    site = fc.Summary.of_scores(np.tile(score.evaluate(probs, labels), 5), score=score, kind="exact")
    predictor = fc.calibrate([site], alpha=0.5)
    levels = [Fraction(i, 40) for i in range(1, 40)]
    with maybe_infeasible():
        sets = predictor.predict_set(probs, alpha=levels, allow_empty=True)
    assert (sets[..., 1:] <= sets[..., :-1]).all()
