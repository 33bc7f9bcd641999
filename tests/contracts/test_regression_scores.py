"""Contract of scores of numbers: above all, no row is lost to rounding."""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedconformal as fc
from fedconformal._base import registry
from fedconformal._base.arrays import Floats
from fedconformal.scores import AnyScore
from fedconformal.summaries.batch import SummaryBatch
from tests.calibration.test_predictor import resealed
from tests.contracts.tools import (
    KINDS,
    PUBLIC,
    SITES,
    FakeTensor,
    built_in,
    checks,
    guarantee_examples,
    maybe_infeasible,
    refusal,
    refused,
)

SCORES = [score for cls in built_in(fc.RegressionScore).values() for score in cls.examples()]
every_score = pytest.mark.parametrize("score", SCORES, ids=repr)

decimals = st.integers(-(10**4), 10**4).map(lambda cents: cents / 100)
wild = st.floats(allow_nan=False, allow_infinity=False, allow_subnormal=True)
numbers = st.one_of(decimals, wild, st.floats(-2, 2))
scales = st.one_of(st.integers(1, 500).map(lambda cents: cents / 100), st.floats(5e-324, 1e300))


def predictions_of(score: fc.RegressionScore, first: Any, second: Any) -> Floats:
    """Make predictions with the columns of a score from a number and a positive one for each row."""
    f, scale = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if score.columns == ("prediction",):
        return f
    columns = {"prediction": f, "scale": scale, "lower": np.minimum(f, scale), "upper": np.maximum(f, scale)}
    return np.stack([columns[name] for name in score.columns], axis=1)


def interval(score: fc.RegressionScore, predictions: Any, q: float) -> Floats:
    """Return the interval of scores of at most q; of a score with two ends those of at least -q too."""
    return score.interval(predictions, q, None if score.lower_share is None else -q)


def test_there_is_an_example_of_every_score() -> None:
    assert {type(score) for score in SCORES} == set(built_in(fc.RegressionScore).values())
    assert {type(score).name for score in SCORES} == {"residual", "normalized", "cqr", "signed"}


@every_score
@given(first=numbers, second=scales, y=numbers)
@checks(150)
def test_what_scores_at_most_the_threshold_is_inside(
    score: fc.RegressionScore, first: float, second: float, y: float
) -> None:
    predictions = predictions_of(score, [first], [second])
    try:
        q = float(score.evaluate(predictions, [y])[0])
    except fc.InputError as error:
        assert "too far" in str(error)  # noqa: PT017
        return
    low, high = score.interval(predictions, q, None if score.lower_share is None else q)[0]
    assert low <= y <= high


@every_score
@given(first=numbers, second=scales, q=numbers)
@checks(80)
def test_the_next_number_after_an_end_scores_more_or_is_close(
    score: fc.RegressionScore, first: float, second: float, q: float
) -> None:
    """Ends that are rounded outward are not pushed out: a little further out, every number scores more."""
    predictions = predictions_of(score, [first], [second])
    q = abs(q)
    low, high = interval(score, predictions, q)[0]
    size = max(abs(first), abs(second), q, q * abs(second))
    if not 1e-290 < size < 1e150 or not 1e-150 < second < 1e150:
        return
    for end, sign in ((low, -1.0), (high, 1.0)):
        scored = float(score.evaluate(predictions, [end + sign * 8 * np.spacing(size)])[0])
        assert abs(scored) > q if score.lower_share is not None else scored > q


@every_score
def test_decimal_rows_are_inside(score: fc.RegressionScore) -> None:
    """Red without rounding outward: 7% of rows with two decimals were outside of f - |y - f| and f + |y - f|."""
    rng = np.random.default_rng(7)
    f, scale, y = (rng.integers(1, 10**4, 20_000) / 100 for _ in range(3))
    predictions = predictions_of(score, f, scale)
    scores = score.evaluate(predictions, y)
    for row in range(0, len(y), 20):
        q = float(scores[row])
        low, high = score.interval(predictions[row : row + 1], q, None if score.lower_share is None else q)[0]
        assert low <= y[row] <= high
    plain = np.abs(y - f)
    assert 0.03 < np.mean((f - plain > y) | (y > f + plain)) < 0.12


@every_score
@given(first=st.lists(numbers, min_size=1, max_size=5), second=scales, q=st.lists(numbers, min_size=2, max_size=4))
@checks(50)
def test_intervals_are_nested(score: fc.RegressionScore, first: list[float], second: float, q: list[float]) -> None:
    predictions = predictions_of(score, first, [second] * len(first))
    limits = sorted(q if score.lower_share is None else map(abs, q))
    found = [interval(score, predictions, limit) for limit in [*limits, np.inf]]
    for inner, outer in pairwise(found):
        assert (inner[:, 0] <= inner[:, 1]).all()
        assert (outer[:, 0] <= inner[:, 0]).all()
        assert (inner[:, 1] <= outer[:, 1]).all()
    assert (found[-1] == [-np.inf, np.inf]).all()


def test_formulas() -> None:
    f, y = np.array([1.0, 1.0, -2.0]), np.array([3.0, -1.0, -2.5])
    scale = np.array([0.5, 4.0, 1.0])
    pair = np.stack([f, scale], axis=1)
    assert fc.Residual().evaluate(f, y).tolist() == [2, 2, 0.5]
    assert fc.Normalized().evaluate(pair, y).tolist() == [4, 0.5, 0.5]
    assert fc.Signed().evaluate(f, y).tolist() == [2, -2, -0.5]
    assert fc.Signed(scaled=True).evaluate(pair, y).tolist() == [4, -0.5, -0.5]
    assert fc.CQR().evaluate([[0, 2], [0, 2], [-3, 1]], y).tolist() == [1, 1, -0.5]
    assert fc.CQR().interval([[2.5, 4.5]], 1.0).tolist() == [[1.5, 5.5]]
    assert fc.CQR().interval([[0.5, 2.5]], -1.25).tolist() == [[1.5, 1.5]]  # it would turn around


@every_score
def test_arrays_lists_and_tensors_are_read_alike(score: fc.RegressionScore) -> None:
    predictions, y = predictions_of(score, [0.5, -1.0, 2.0], [1.0, 2.0, 4.0]), np.array([1.0, 0.0, 3.0])
    wanted, ends = score.evaluate(predictions, y), interval(score, predictions, 0.75)
    forms: list[tuple[Any, Any]] = [
        (predictions.tolist(), y.tolist()),
        (FakeTensor(predictions), FakeTensor(y)),
        (predictions.astype(np.float32), y.astype(np.int64)[:, None]),
        (np.asfortranarray(predictions), y.astype(np.float16)),
    ]
    forms += [(predictions[:, None], y)] if predictions.ndim == 1 else []
    for given_predictions, given_y in forms:
        assert score.evaluate(given_predictions, given_y).tobytes() == wanted.tobytes()
        assert interval(score, given_predictions, 0.75).tobytes() == ends.tobytes()


@every_score
def test_bad_rows_are_refused_by_their_number(score: fc.RegressionScore) -> None:
    good, y = predictions_of(score, [1.0, 1.0, 1.0], [2.0, 2.0, 2.0]), [1.0, 1.0, 1.0]
    for value in (np.nan, np.inf):
        bad = good.copy()
        bad.reshape(3, -1)[1, -1] = value
        with refused("predictions: row 1", str(value)):
            score.evaluate(bad, y)
        with refused("predictions: row 1"):
            interval(score, bad, 0.5)
        with refused("y: row 2", str(value)):
            score.evaluate(good, [1.0, 1.0, value])
    with refused("y: has shape (2,)", "3 rows"):
        score.evaluate(good, [1.0, 1.0])
    with refused("predictions: has shape"):
        score.evaluate(np.ones((3, 3)), y)
    with refused("predictions: holds"):
        score.evaluate(["a", "b", "c"], y)
    with refused("threshold"):
        interval(score, good, np.nan)
    if score.lower_share is None:
        with refused("no lower end"):
            score.interval(good, 1.0, 0.0)
    else:
        with refused("a lower end"):
            score.interval(good, 1.0)


def test_what_a_model_cannot_mean_is_refused() -> None:
    with pytest.warns(UserWarning, match="1 of 2 rows .*quantiles cross"):
        assert fc.CQR().evaluate([[1, 2], [3, 2]], [0, 0]).tolist() == [1, 2]
    with pytest.warns(UserWarning, match="1 of 2 rows .*quantiles cross"):
        crossed = fc.CQR().interval([[1, 2], [3, 2]], 1.0)
    assert np.array_equal(crossed, fc.CQR().interval([[1, 2], [2, 3]], 1.0))
    for score in (fc.Normalized(), fc.Signed(scaled=True)):
        for scale in (0.0, -1.0):
            with refused(f"predictions: row 1 has prediction and scale 3 and {scale:g}", "above 0"):
                score.evaluate(np.array([[1, 2], [3, scale]]), [0, 0])
    for share in (0.0, 1.0, -0.5, np.nan, "0.5", True):
        with refused(param="lower"):
            fc.Signed(lower=share)  # type: ignore[arg-type]
    with refused(param="scaled"):
        fc.Signed(scaled=1)  # type: ignore[arg-type]


@every_score
def test_a_score_is_a_frozen_value_and_survives_being_described(score: fc.RegressionScore) -> None:
    assert eval(repr(score), dict(PUBLIC)) == score  # noqa: S307
    assert hash(dataclasses.replace(score)) == hash(score)
    assert registry.rebuild(score.to_dict(), AnyScore) == score
    assert registry.rebuild(score.to_dict(), fc.RegressionScore) == score
    assert "no score is called" in refusal(lambda: registry.rebuild(score.to_dict(), fc.Score))
    summary = fc.Summary.of_scores([0.5], score=score)
    assert fc.Summary.from_bytes(summary.to_bytes()).provenance.score == score


def test_minus_zero_is_zero() -> None:
    found = [fc.Signed().evaluate([0.0], [-0.0]), fc.CQR().evaluate([[-0.0, 1.0]], [0.0])]
    found.append(fc.Signed(scaled=True).evaluate([[0.0, 1e300]], [-1e-300]))
    assert not np.signbit(found).any()
    assert not np.concatenate(found).any()


def test_an_infinity_that_no_score_shows_is_refused() -> None:
    with refused("predictions: row 0 is -inf"):
        fc.CQR().evaluate([[-np.inf, 1.0]], [0.0])
    with refused("predictions: row 0 is inf"):
        fc.Normalized().evaluate([[1.0, np.inf]], [0.0])
    with refused("y: row 1 is 1e+308, too far from what was predicted"):
        fc.Residual().evaluate([0.0, -1e308], [0.0, 1e308])


def site_rows(score: fc.RegressionScore, size: int, seed: int) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(seed)
    f, scale = rng.normal(size=size).round(2), rng.uniform(0.25, 2, size).round(2)
    return predictions_of(score, f, scale), (f + scale * rng.gumbel(size=size) * (1 + seed % 3)).round(2)


@pytest.mark.filterwarnings("ignore::fedconformal.errors.InfeasibleWarning")
@pytest.mark.parametrize(
    ("score", "guarantee"),
    [(SCORES[(i + j) % len(SCORES)], one) for j, one in enumerate(guarantee_examples()) for i in range(2)],
    ids=repr,
)
def test_predictors_keep_what_they_were_made_from(
    score: fc.RegressionScore, guarantee: fc.Guarantee, tmp_path: Path
) -> None:
    """Saved and loaded, verified, nested in alpha; with every kind of summary that fits, in turn."""
    kinds = sorted(KINDS) if score.lower_share is None else ["exact", "ranks"]
    kind = kinds[(SCORES.index(score) + guarantee_examples().index(guarantee)) % len(kinds)]
    sites = [
        fc.summarize(*site_rows(score, 60 - 10 * k, k), kind=kind, score=score, site=site, alpha=0.2)
        for k, site in enumerate(SITES)
    ]
    received = SummaryBatch.from_bytes([site.to_bytes() for site in sites])
    predictor = fc.calibrate(received, alpha=0.2, guarantee=guarantee)
    assert predictor.sentence().startswith("The intervals ")
    assert "label" not in predictor.certificate.statement.conditions + predictor.certificate.statement.caveat
    predictor.save(tmp_path / "p.json")
    again = fc.load(tmp_path / "p.json")
    assert isinstance(again, fc.Predictor)
    assert again.to_bytes() == predictor.to_bytes()
    assert fc.verify(again, sites) == []
    predictions, y = site_rows(score, 40, 9)
    assert np.array_equal(again.predict_interval(predictions), predictor.predict_interval(predictions))
    ends = np.stack([predictor.predict_interval(predictions, alpha=Fraction(i, 20)) for i in range(1, 20)], axis=-1)
    assert (ends[:, 0, 1:] >= ends[:, 0, :-1]).all()
    assert (ends[:, 1, 1:] <= ends[:, 1, :-1]).all()
    assert predictor.evaluate(predictions, y).coverage == ((ends[:, 0, 3] <= y) & (y <= ends[:, 1, 3])).mean()


@every_score
def test_files_whose_parts_do_not_belong_together_are_refused(score: fc.RegressionScore) -> None:
    content = fc.calibrate([fc.summarize(*site_rows(score, 60, 1), score=score)], alpha=0.2, exact=True).content()
    about, curves = content["certificate"], content["curves"]
    promises, other = about["promises"], fc.Residual() if score.lower_share else fc.Signed()
    lies: list[dict[str, Any]] = [
        *({"curves": wrong} for wrong in (3, [], [None, *curves[1:]], [*curves, curves[0]])),
        {"curves": [{"thresholds": curves[0]["promised"], "promised": [1.5]}, *curves[1:]]},
        {"curves": [{"thresholds": [0.5], "promised": [10**15]}, *curves[1:]]},
        {"certificate": about | {"alpha": 0.5}},
        {"certificate": about | {"promises": promises * 2}},
        {"certificate": about | {"promises": [promises[0] | {"threshold": 9.0}, *promises[1:]]}},
        {"certificate": about | {"promises": [promises[0] | {"end": "upper"}, *promises[1:]]}},
        {"certificate": about | {"provenance": {"score": other.to_dict()}}},
        {"certificate": about | {"provenance": {"score": {"name": "signed", "scaled": 1, "lower": 0.5}}}},
    ]
    assert fc.Predictor.from_bytes(resealed(content)).content() == content
    for lie in lies:
        with refused():
            fc.Predictor.from_bytes(resealed(content | lie))


@every_score
def test_classes_and_groups_are_refused(score: fc.RegressionScore) -> None:
    predictions, y = site_rows(score, 20, 1)
    site = fc.summarize(predictions, y, score=score)
    for guarantee in (fc.ByClass(fc.Mixture()), fc.ByGroup(fc.Mixture()), fc.Prevalence({"a": 0.5, "b": 0.5})):
        with refused(param="guarantee"):
            fc.calibrate([site], guarantee=guarantee)


@every_score
def test_float32_and_float64_do_not_lose_rows_to_each_other(score: fc.RegressionScore) -> None:
    """Calibrated in one precision, used in the other: each row that conforms stays inside."""
    rng = np.random.default_rng(3)
    f, scale = rng.integers(1, 999, 400) / 1000, rng.integers(1, 999, 400) / 1000
    predictions = predictions_of(score, f, scale)
    y = rng.integers(1, 4, 400) / 10
    for calibrated, used in (
        (np.float32, np.float64),
        (np.float64, np.float32),
        (np.float64, np.float16),
        (np.float32, np.float16),
    ):
        scored = score.evaluate(predictions.astype(calibrated), y)
        site = fc.summarize(predictions.astype(calibrated), y, kind="exact", score=score)
        with maybe_infeasible():
            predictor = fc.calibrate([site], alpha=0.3)
        lower, upper = predictor.thresholds.get("lower", -np.inf), predictor.threshold
        conforms = (lower <= scored) & (scored <= upper)
        low, high = predictor.predict_interval(predictions.astype(used)).T
        assert ((low <= y) & (y <= high))[conforms].all()
