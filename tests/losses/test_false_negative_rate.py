"""The share of true labels that is left out, against a plain loop, at every threshold and to the last bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fedconformal as fc
from tests.contracts.tools import peak_memory, refused

FNR = fc.FalseNegativeRate()
GRID = np.arange(101) / 100


def made(shape: tuple[int, ...], seed: int = 0) -> tuple[Any, Any]:
    """Scores in hundredths, so that ties with the grid are everywhere."""
    rng = np.random.default_rng(seed)
    return rng.integers(0, 101, shape) / 100, rng.random(shape) < 0.3


def plainly(scores: Any, truth: Any, threshold: float) -> list[float]:
    """Predict, then count what is left out."""
    predicted = FNR.predict(scores, threshold)
    return [
        float((true & ~found).sum() / true.sum()) if true.any() else 0.0
        for found, true in zip(predicted, truth, strict=True)
    ]


@pytest.mark.parametrize("shape", [(40, 5), (1, 1), (9, 6, 7), (3, 4, 5, 6)])
def test_equal_to_a_plain_count_at_every_threshold(shape: tuple[int, ...]) -> None:
    scores, truth = made(shape)
    losses = FNR.evaluate(scores, truth, thresholds=GRID)
    assert losses.tolist() == np.transpose([plainly(scores, truth, t) for t in GRID]).tolist()


def test_images_of_different_sizes() -> None:
    images, masks = zip(*(made((3 + i, 9 - i), seed=i) for i in range(6)), strict=True)
    losses = FNR.evaluate(list(images), list(masks), thresholds=GRID)
    assert losses.tolist() == np.transpose([plainly(list(images), masks, t) for t in GRID]).tolist()
    assert [found.shape for found in FNR.predict(list(images), 0.5)] == [image.shape for image in images]


def test_the_precision_of_the_scores_does_not_matter() -> None:
    scores, truth = made((50, 8))
    single = scores.astype(np.float32)
    assert (FNR.evaluate(scores, truth, thresholds=GRID) == FNR.evaluate(single, truth, thresholds=GRID)).all()
    for threshold in GRID:
        assert (FNR.predict(scores, threshold) == FNR.predict(single, threshold)).all()


def test_everything_is_predicted_at_one_and_beyond() -> None:
    scores, truth = made((50, 8))
    assert not FNR.evaluate(scores, truth)[:, -1].any()
    assert FNR.predict(scores, 1).all()
    assert FNR.predict(np.zeros((2, 2)), float("inf")).all()


def test_memory_is_bounded_by_the_pixels_of_some_images() -> None:
    scores = np.random.default_rng(0).random((60, 256, 256), dtype=np.float32)
    truth = scores > 0.7
    with peak_memory(2 * scores.nbytes):  # a plain comparison at 1,001 thresholds takes 250 times as much
        FNR.evaluate(scores, truth)


@pytest.mark.parametrize(
    ("scores", "truth", "thresholds", "said"),
    [
        ([[0.5, np.nan]], [[1, 0]], None, "scores: row 0 holds nan, expected numbers from 0 to 1"),
        ([[0.5, 0.5], [0.5, 255]], [[1, 0]] * 2, None, "scores: row 1 holds 255, expected numbers from 0 to 1"),
        ([[0.5, -0.1]], [[1, 0]], None, "scores: row 0 holds -0.1, expected numbers from 0 to 1"),
        ([[0.5, 0.5]], [[1, 0, 0]], None, "truth: has shape (1, 3), the scores (1, 2); expected the same, a row each"),
        ([[0.5, 0.5]], [[1, 0]] * 2, None, "truth: has 2 rows, the scores have 1"),
        ([[0.5, 0.5]], [[1, 2]], None, "truth: expected booleans, or zeros and ones"),
        ([0.5, 0.5], [1, 0], None, "truth: has shape (2,), the scores (2,); expected the same, a row each"),
        ([[0.5]], [[1]], [0.5, 0.1], "thresholds: expected finite numbers in rising order, each once"),
        ([[0.5]], [[1]], [0.5, np.inf], "thresholds: expected finite numbers in rising order, each once"),
        ([np.ones((2, 2))], [np.ones((2, 3))], None, "truth: has shape (1, 2, 3), the scores (1, 2, 2)"),
        ([np.full((2, 2), 2.0)], [np.ones((2, 2))], None, "scores: row 0 holds 2, expected numbers from 0 to 1"),
    ],
)
def test_bad_input_is_one_line(scores: Any, truth: Any, thresholds: Any, said: str) -> None:
    with refused(said):
        FNR.evaluate(scores, truth, thresholds=thresholds)
