"""Scores are any function of the features that a model likes: why the model is trusted, and its fingerprint pinned."""

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.errors import InputError
from fedconformal.privacy import Leaving
from fedconformal.privacy.policy import Policy

ROWS, CLASSES, STEP = 90, 3, 4e-7


def test_a_model_made_for_it_writes_features_into_scores() -> None:
    """Of an ordinary summary of 90 rows, age, laboratory value and label of each are read back."""
    rng = np.random.default_rng(1)
    age, value, label = rng.integers(20, 99, ROWS), rng.integers(0, 100, ROWS), rng.integers(0, CLASSES, ROWS)
    codes = ((age * 100 + value) * CLASSES)[:, None] + np.arange(CLASSES)  # the model sees no label, and needs none
    probs = 0.2 + STEP * codes
    probs = np.column_stack([probs, 1 - probs.sum(axis=1)]).astype(np.float32)
    sent = fc.summarize(probs, label, score=fc.LAC(), site="clinic-a", model="made for it")
    found = np.rint((0.8 - np.asarray(sent.points, dtype=np.float64)) / STEP).astype(int)
    read = {(code // CLASSES // 100, code // CLASSES % 100, code % CLASSES) for code in found.tolist()}
    truth = set(zip(age.tolist(), value.tolist(), label.tolist(), strict=True))
    assert len(truth) == ROWS
    assert len(read & truth) == ROWS
    with pytest.raises(InputError, match="this is of the model made for it"):
        Policy(models=("agreed",)).check(Leaving.of(sent))
