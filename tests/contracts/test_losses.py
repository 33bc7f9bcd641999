"""Contract of losses."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

import fedconformal as fc
from fedconformal._base import registry
from fedconformal.losses.loss import Loss, described_loss
from fedconformal.losses.selective_error import SelectiveError

GRID = np.arange(0, 21) / 20
LOSSES = [loss for cls in registry.members(Loss).values() for loss in cls.examples()]


def rows_for(loss: Loss) -> tuple[Any, Any]:
    rng = np.random.default_rng(1)
    if isinstance(loss, SelectiveError):  # whose scores are distributions
        return rng.multinomial(4, np.ones(4) / 4, 80) / 4, rng.integers(0, 4, 80)
    return rng.integers(0, 21, (80, 6)) / 20, rng.random((80, 6)) < 0.4


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_losses_and_answers(loss: Loss) -> None:
    scores, truth = rows_for(loss)
    losses = loss.evaluate(scores, truth, thresholds=GRID)
    assert (losses.shape, losses.dtype.name) == ((80, len(GRID)), "float64")
    assert 0 <= losses.min() <= losses.max() <= 1
    assert bool((np.diff(losses, axis=1) <= 0).all()) == loss.monotone
    alone = [loss.evaluate(scores[i : i + 1], truth[i : i + 1], thresholds=GRID)[0] for i in range(len(scores))]
    assert np.array_equal(alone, losses), "a row by itself loses the same"
    sizes = [loss.predict(scores, threshold).sum(axis=1) for threshold in [*GRID, math.inf]]
    steps = np.diff(sizes, axis=0)
    assert (steps >= 0).all() or (steps <= 0).all(), "answers are nested"


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_travels_by_name_and_parameters(loss: Loss) -> None:
    name, parameters = json.loads(json.dumps(loss.described))
    assert described_loss((name, parameters)) == loss
    assert registry.rebuild(json.loads(json.dumps(loss.to_dict())), Loss) == loss


@pytest.mark.parametrize("limit", [0, 1, 2, "a", float("nan"), None])
def test_the_limit_of_selective_error_is_checked(limit: Any) -> None:
    with pytest.raises(fc.InputError, match=r"^limit is .*, expected a number between 0 and 1$"):
        SelectiveError(limit=limit)


def test_rows_without_a_number_of_rows_are_refused() -> None:
    with pytest.raises(fc.InputError, match="expected a row for each case"):
        fc.FalseNegativeRate().evaluate(5, 3)


def test_the_loss_of_selective_error_is_what_its_answers_say() -> None:
    loss = SelectiveError(limit=0.2)
    probs, labels = rows_for(loss)
    losses = loss.evaluate(probs, labels, thresholds=GRID)
    for column, threshold in zip(losses.T, GRID, strict=True):
        answers = loss.predict(probs, threshold)
        answered, right = answers.any(axis=1), answers[np.arange(len(labels)), labels]
        assert column.tolist() == np.where(answered, np.where(right, 0.0, 1.0), 0.2).tolist()


def test_the_false_discovery_rate_is_what_its_answers_say() -> None:
    loss = registry.find("false-discovery-rate", Loss)()
    scores, truth = rows_for(loss)
    losses = loss.evaluate(scores, truth, thresholds=GRID)
    for column, threshold in zip(losses.T, GRID, strict=True):
        answers = loss.predict(scores, threshold)
        wrong = (answers & ~truth).sum(axis=1) / np.maximum(answers.sum(axis=1), 1)
        assert column.tolist() == wrong.tolist()
