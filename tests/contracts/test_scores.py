"""The contract of every score of probabilities: the checks for plug-ins on any rows, and the forms of input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from numpy.typing import NDArray

import fedconformal as fc
from fedconformal.testing import _same_bits as same_bits
from fedconformal.testing import check_score
from tests.contracts.tools import PUBLIC, SCORES, FakeTensor, checks, rows_of_probabilities, score_examples

Probs = NDArray[np.floating[Any]]

every_score = pytest.mark.parametrize("score", score_examples(), ids=repr)


def test_there_is_an_example_of_every_score() -> None:
    assert {type(score) for score in score_examples()} == set(SCORES.values())
    assert {name: cls.name for name, cls in SCORES.items()} == {name: name for name in SCORES}


@every_score
@given(rows_of_probabilities())
@checks(80)
def test_any_probabilities(score: fc.Score, probs: Probs) -> None:
    check_score(score, probs)


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


@pytest.mark.long
@every_score
@pytest.mark.parametrize(("dtype", "classes"), [(np.float32, 33), (np.float64, 130), (np.float32, 1000)])
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
def test_a_score_is_a_frozen_value(score: fc.Score) -> None:
    assert eval(repr(score), dict(PUBLIC)) == score  # noqa: S307
    summary = fc.Summary.of_scores([0.5], score=score)
    assert fc.Summary.from_bytes(summary.to_bytes()).provenance.score == score
    make: Any = type(score)
    with pytest.raises(TypeError):
        make(None)  # parameters have names
