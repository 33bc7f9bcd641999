"""From probabilities to prediction sets: every score, at the certified alpha and at others, keeps the promise.

A score that differs in one bit between calibration and prediction, or a promise curve that rounds up, would lose
coverage here. The classification problem has known label probabilities, at sites with different class mixtures.

Given a row x, a label set C(x) covers with probability sum_y p(y | x) 1{y in C(x)}: no test label is drawn.
The model is the same everywhere and over-confident. One site has most rows and classes that the model knows;
at four sites with one row each, the labels are those that the model thinks least likely. So coverage comes
out close to the lower end of the band, where a rank too few shows; with N = 20 it is worth 5%.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import fedconformal as fc
from tests.validity.promises import rank_of
from tests.validity.simulation import Floats, Mean, mean

SIZES = (16, 1, 1, 1, 1)
WEIGHTS = np.array(SIZES) / sum(SIZES)
CENTRES = 1.5 * np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])
CLASSES = [[0.4, 0.3, 0.2, 0.1], [0.7, 0.1, 0.1, 0.1], [0.1, 0.2, 0.6, 0.1], [0.1, 0.1, 0.1, 0.7], [0.0, 1.0, 0.0, 0.0]]
ALPHA = 0.4
"""Certified; sets at other alphas come from the promise curve."""
TEST_ROWS = 40
REPETITIONS = 500

Included = Callable[[fc.Predictor, Floats], NDArray[Any]]


@dataclass(frozen=True)
class Rows:
    """Rows of one or more sites: what the model says of each, and how its label is distributed."""

    probs: Floats
    labels: Floats

    def draw(self, rng: np.random.Generator) -> NDArray[np.int64]:
        """Draw a label for every row."""
        return np.asarray((self.labels.cumsum(axis=1) < rng.random((len(self.labels), 1))).sum(axis=1))


def rows(site: int, count: int, rng: np.random.Generator, dtype: str) -> Rows:
    """Draw rows of a site, around the centres of its classes."""
    classes = rng.choice(len(CENTRES), size=count, p=CLASSES[site])
    evidence = (CENTRES[classes] + rng.standard_normal((count, 2))) @ CENTRES.T
    labels = softmax(evidence, CLASSES[site]) if site == 0 else softmax(-10 * evidence)
    return Rows(softmax(1.3 * evidence).astype(dtype), labels)


def softmax(evidence: Floats, prior: list[float] | None = None) -> Floats:
    """Weigh classes by their evidence and how common they are."""
    powers = np.exp(evidence - evidence.max(axis=1, keepdims=True)) * (1 if prior is None else np.array(prior))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def calibrated(score: fc.Score, rng: np.random.Generator, dtype: str) -> fc.Predictor:
    """Calibrate on fresh rows of every site."""
    summaries = []
    for site, n in enumerate(SIZES):
        found = rows(site, n, rng, dtype)
        about: Any = {"score": score, "precision": None if dtype == "float64" else dtype}
        summaries.append(fc.Summary.of_scores(score.evaluate(found.probs, found.draw(rng)), kind="exact", **about))
    return fc.calibrate(summaries, alpha=ALPHA, exact=True)


def coverage(score: fc.Score, included: Included, *, seed: int, dtype: str = "float64") -> list[Mean]:
    """Calibrate and predict again and again; return the mean coverage of each of the sets that are included.

    `included` turns probabilities into booleans, (rows, classes, sets).
    """
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(REPETITIONS):
        predictor = calibrated(score, rng, dtype)
        tests = [rows(site, TEST_ROWS, rng, dtype) for site in range(len(SIZES))]
        sets = included(predictor, np.concatenate([test.probs for test in tests]))
        by_row = np.einsum("ij,ija->ia", np.concatenate([test.labels for test in tests]), sets)
        found.append(WEIGHTS @ by_row.reshape(len(SIZES), TEST_ROWS, -1).mean(axis=1))
    return [mean(column) for column in np.array(found).T]


ALPHAS = [ALPHA, 0.44, 0.5, 0.6]
TOTAL = sum(SIZES)

SCORES = [
    fc.LAC(),
    fc.APS(),
    fc.APS(randomized=True),
    fc.RAPS(),
    fc.RAPS(randomized=True, random_state=1, penalty=0.1),
]


def check_sets_cover(score: fc.Score, dtype: str) -> None:
    """Compare the coverage of the sets at several alphas with the band of the mixture."""

    def sets(p: fc.Predictor, probs: Any) -> Any:
        return np.stack([p.predict_set(probs, alpha=alpha, allow_empty=True) for alpha in ALPHAS], axis=-1)

    found = coverage(score, sets, seed=18, dtype=dtype)
    for alpha, (average, tolerance) in zip(ALPHAS, found, strict=True):
        least = rank_of(alpha, TOTAL) / TOTAL
        assert tolerance < 0.8 / TOTAL
        assert average >= least - tolerance, f"{average:.4f} is below {least:.4f} at alpha={alpha}"
        # Of scores without a stated precision, sets hold what float32 gives and what float64 gives: two draws of U.
        twice = dtype == "float64" and getattr(score, "randomized", False)
        assert average <= least + (3 if twice else 1) / TOTAL + tolerance


@pytest.mark.parametrize(
    ("score", "dtype"), [*((score, "float32") for score in SCORES), (SCORES[0], "float64"), (SCORES[-1], "float64")]
)
def test_sets_cover(score: fc.Score, dtype: str) -> None:
    check_sets_cover(score, dtype)


def test_forcing_the_top_label_in_keeps_the_lower_end() -> None:
    ((average, tolerance),) = coverage(fc.RAPS(), lambda p, probs: p.predict_set(probs)[:, :, None], seed=19)
    assert average >= 1 - ALPHA - tolerance


LEVELS = np.array([0.04, 0.2, 0.36, 0.4, 0.44, 0.48, 0.6, 0.9])


def check_p_values(score: fc.Score) -> None:
    """P(p <= a) <= a for every a; with one stand-in too few, small p-values come up too often."""
    found = coverage(score, lambda p, probs: p.predict_p(probs)[:, :, None] <= LEVELS, seed=20)
    for level, (chance, tolerance) in zip(LEVELS, found, strict=True):
        assert chance <= level + tolerance, f"p <= {level} has probability {chance:.4f}"


@pytest.mark.parametrize("score", [fc.LAC(), fc.RAPS(randomized=True)], ids=str)
def test_p_values_are_super_uniform(score: fc.Score) -> None:
    check_p_values(score)
