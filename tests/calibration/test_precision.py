"""float32 here and float64 there: the score is the same, so coverage is not lost."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedconformal as fc
from fedconformal._base.arrays import Booleans, Floats, Integers
from tests.contracts.tools import score_examples


def saturated(seed: int, rows: int = 4000) -> tuple[Floats, Integers]:
    """Draw a network that is very sure of itself and right two times in three: many of its float32 outputs are 1."""
    rng = np.random.default_rng(seed)
    # Ahead by 20, the top probability is 1 in float32 and not in float64; by 45, in both.
    ahead = rng.choice([4.0, 20.0, 45.0], rows, p=[0.1, 0.3, 0.6])
    logits = rng.normal(size=(rows, 5)) + ahead[:, None] * np.eye(5)[rng.integers(0, 5, rows)]
    wrong = rng.uniform(size=rows) < 0.3
    labels = np.where(wrong, rng.integers(0, 5, rows), logits.argmax(axis=1))
    return fc.softmax(logits), labels.astype(np.int64)


PROBS, LABELS = saturated(0)
TEST, TRUTH = saturated(1)
DTYPES = (np.float32, np.float64)


@pytest.mark.parametrize("alpha", [0.4, 0.3, 0.1])
@pytest.mark.parametrize("score", score_examples(), ids=str)
@pytest.mark.parametrize("calibrated", DTYPES)
@pytest.mark.parametrize("predicted", DTYPES)
def test_recorded_precision_gives_the_same_sets(
    score: fc.Score, alpha: float, calibrated: type, predicted: type
) -> None:
    site = fc.summarize(PROBS.astype(calibrated), LABELS, kind="exact", score=score, site="a")
    predictor = fc.calibrate([site], alpha=alpha)
    assert predictor.certificate.provenance.precision == "float32"
    assert np.array_equal(site.points, np.sort(score.evaluate(PROBS.astype(np.float32), LABELS)))
    expected = score.predict_set(TEST.astype(np.float32), predictor.threshold, allow_empty=True)
    sets = predictor.predict_set(TEST.astype(predicted), allow_empty=True)
    assert np.array_equal(sets, expected)
    assert np.array_equal(predictor.predict_p(TEST.astype(predicted)) > alpha, sets)


def test_float32_probabilities_are_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    probs, scored = PROBS.astype(np.float32), list[Floats]()
    predictor = fc.calibrate([fc.summarize(probs, LABELS, site="a")])

    def sets_of(_: fc.Score, matrix: Floats, limit: float, *, allow_empty: bool) -> Booleans:
        scored.append(matrix)
        return np.zeros(matrix.shape, dtype=np.bool_)

    monkeypatch.setattr(fc.LAC, "sets_of", sets_of)
    predictor.predict_set(probs)
    assert np.shares_memory(scored[0], probs)


def test_float64_scored_by_hand_wants_float64_or_a_stated_precision() -> None:
    rows = np.array([[0.2, 0.7, 0.1]] * 20)
    site = fc.Summary.of_scores(fc.LAC().evaluate(rows, [1] * 20), score=fc.LAC(), site="a")
    by_hand = fc.calibrate([site], alpha=0.2, exact=True)
    assert by_hand.predict_set(rows, allow_empty=True)[:, 1].all()
    with pytest.raises(fc.InputError, match="precision='float32'"):  # no set would hold the truth
        by_hand.predict_set(rows.astype(np.float32))
    scores = fc.LAC().evaluate(rows.astype(np.float32), [1] * 20)
    stated = fc.Summary.of_scores(scores, score=fc.LAC(), site="a", precision="float32")
    for dtype in DTYPES:
        predictor = fc.calibrate([stated], alpha=0.2, exact=True)
        assert predictor.predict_set(rows.astype(dtype), allow_empty=True)[:, 1].all()


def test_intervals_are_those_of_the_recorded_precision() -> None:
    rng = np.random.default_rng(0)
    site = fc.summarize(rng.normal(size=99).astype(np.float32), rng.normal(size=99), score="residual", site="a")
    rule, rows = fc.calibrate([site], alpha=0.1), rng.normal(size=50)
    assert np.array_equal(rule.predict_interval(rows), rule.predict_interval(rows.astype(np.float32)))


def test_files_of_float32_predictions_lose_no_coverage(
    command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    f = rng.normal(0, 1000, 300).round(1)
    np.save("y.npy", y := (f + rng.normal(size=300)).round(1))
    for dtype in DTYPES:
        np.save(f"{dtype.__name__}.npy", f.astype(dtype))
    for calibrated, predicted in product(DTYPES, DTYPES):
        command.ok("summarize", f"{calibrated.__name__}.npy", "y.npy", "-o", "a.fcs", "--score", "residual")
        command.ok("calibrate", "a.fcs", "-o", "a.json", "--alpha", "0.2", "--exact")
        command.ok("predict", "a.json", f"{predicted.__name__}.npy", "-o", "sets.npz")
        ends = np.load("sets.npz")["intervals"]
        assert ((ends[:, 0] <= y) & (y <= ends[:, 1])).sum() >= 241


def test_probabilities_of_fewer_classes_are_refused() -> None:
    site = fc.summarize(PROBS, LABELS, site="a")
    with pytest.raises(fc.InputError, match="have 4 columns, expected one for each of 5 classes"):
        fc.calibrate([site], alpha=0.1).predict_set(np.full((2, 4), 0.25))
