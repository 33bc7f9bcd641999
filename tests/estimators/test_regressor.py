"""An estimator that answers with intervals: what it is made of, scikit-learn's own checks, and the promise it keeps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, QuantileRegressor
from sklearn.metrics import r2_score
from sklearn.neighbors import KNeighborsRegressor

import fedconformal as fc
from fedconformal._base.arrays import Floats
from tests.contracts.tools import refused

pytestmark = pytest.mark.filterwarnings("ignore::fedconformal.errors.InfeasibleWarning")  # scikit-learn brings few rows

CONFORMAL = fc.FederatedConformalRegressor
LOW, HIGH = QuantileRegressor(quantile=0.1, alpha=0), QuantileRegressor(quantile=0.9, alpha=0)


def rows_of(rows: int = 200, seed: int = 0) -> tuple[Floats, Floats]:
    """Draw y = x + noise that grows with x."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 4, (rows, 1))
    return x, x[:, 0] + (0.2 + x[:, 0] / 4) * rng.normal(size=rows)


def sites_of(count: int = 3, rows: int = 60) -> dict[str, tuple[Floats, Floats]]:
    return {f"site-{k}": rows_of(rows, seed=10 + k) for k in range(count)}


def scored(name: str) -> tuple[Any, Any]:
    x, y = rows_of(seed=1)
    f = LinearRegression().fit(x, y)
    if name == "cqr":
        return fc.CQR(), (LOW.fit(x, y), HIGH.fit(x, y))
    if name == "normalized":
        return fc.Normalized(), (f, lambda rows: 0.2 + rows[:, 0] / 4)
    return (fc.Signed() if name == "signed" else fc.Residual()), f


@pytest.mark.parametrize("name", ["residual", "normalized", "cqr", "signed"])
def test_it_is_the_sum_of_its_parts(name: str) -> None:
    score, estimator = scored(name)
    sites, (x, y) = sites_of(), rows_of(seed=9)
    made = CONFORMAL(estimator=estimator, score=score, alpha=0.2).calibrate(sites)

    def predicted(rows: Floats) -> Any:
        parts = estimator if isinstance(estimator, tuple) else (estimator,)
        return np.column_stack([one.predict(rows) if hasattr(one, "predict") else one(rows) for one in parts])

    summaries = [
        fc.summarize(predicted(rows), truth, kind="exact", score=score, alpha=0.2, site=site)
        for site, (rows, truth) in sites.items()
    ]
    expected = fc.calibrate(summaries, alpha=0.2)
    assert made.predictor.to_bytes() == expected.to_bytes()
    assert np.array_equal(made.predict_interval(x), expected.predict_interval(predicted(x)))
    assert np.array_equal(made.predict_interval(x, alpha=0.3), expected.predict_interval(predicted(x), alpha=0.3))
    point = predicted(x).mean(axis=1) if name == "cqr" else predicted(x)[:, 0]
    assert np.allclose(made.predict(x), point)
    assert made.score(x, y) == pytest.approx(r2_score(y, point))
    weights = np.arange(200)
    assert made.score(x, y, sample_weight=weights) == pytest.approx(r2_score(y, point, sample_weight=weights))
    found = made.evaluate(x, y, sites=["a"] * 200, groups={"x": np.where(x[:, 0] > 2, "high", "low")})
    assert set(found.by_group) == {"x"}
    assert found.coverage == expected.evaluate(predicted(x), y).coverage
    ends = tuple(expected.thresholds.values())
    assert made.threshold_ == (ends or expected.threshold)
    assert made.certificate_.sites == 3


def test_lists_ids_and_predictions_alone() -> None:
    sites = sites_of()
    whole = [np.concatenate([one[i] for one in sites.values()]) for i in (0, 1)]
    ids = np.repeat(list(sites), 60)
    f = LinearRegression().fit(*rows_of(seed=1))
    named = CONFORMAL(estimator=f).calibrate(sites)
    assert CONFORMAL(estimator=f).calibrate(*whole, sites=ids).predictor.to_bytes() == named.predictor.to_bytes()
    assert CONFORMAL(estimator=f).calibrate(list(sites.values())).threshold_ == named.threshold_
    assert CONFORMAL().calibrate(f.predict(whole[0]), whole[1], sites=ids).threshold_ == named.threshold_
    both = CONFORMAL(estimator=lambda x: np.column_stack([x[:, 0], x[:, 0] + 1]), score=fc.CQR()).calibrate(sites)
    pair = CONFORMAL(estimator=[lambda x: x[:, 0], lambda x: x[:, 0] + 1], score=fc.CQR()).calibrate(sites)
    assert both.threshold_ == pair.threshold_


@pytest.mark.parametrize(
    ("score", "estimator"),
    [
        ("residual", LinearRegression()),
        (fc.CQR(), (LOW, HIGH)),
        (fc.Normalized(), (LinearRegression(), KNeighborsRegressor(50))),
        (fc.Signed(scaled=True), (LinearRegression(), KNeighborsRegressor(50))),
    ],
)
def test_fit_trains_each_part_on_some_rows_and_calibrates_on_others(score: Any, estimator: Any) -> None:
    x, y = rows_of(600)
    made = CONFORMAL(estimator=estimator, score=score, random_state=0).fit(x, y, sites=np.arange(600) % 3)
    assert made.certificate_.scores == 150
    assert made.n_features_in_ == 1
    ends = made.predict_interval(np.array([[0.5], [3.5]]))
    if score != "residual":
        assert np.diff(ends[1]) > 1.3 * np.diff(ends[0])  # wider where the noise is larger
    again = clone(made).fit(x, y, sites=np.arange(600) % 3)
    assert again.threshold_ == made.threshold_
    assert made.calibrate(x, y).certificate_.scores == 600  # with what was trained


def test_a_frozen_pair_is_only_calibrated() -> None:
    x, y = rows_of()
    pair = CONFORMAL(estimator=(FrozenEstimator(LOW.fit(x, y)), FrozenEstimator(HIGH.fit(x, y))), score=fc.CQR())
    assert clone(pair).fit(x, y).certificate_.scores == len(y)


@pytest.mark.parametrize(
    ("given", "fragment"),
    [
        ({"score": fc.LAC()}, "score is LAC"),
        ({"score": "lac"}, "no regression score is called 'lac'; there are cqr"),
        ({"score": fc.CQR(), "estimator": (len,)}, "estimator has 1 estimators, expected one for lower and one for"),
        ({"estimator": (len, len)}, "estimator has 2 estimators, expected one"),
        ({"estimator": 3}, "estimator is 3, which has no predict"),
        (
            {"score": fc.CQR(), "estimator": LinearRegression().fit([[0.0]], [0.0])},
            "estimator predicts one number per row, the score takes lower and upper",
        ),
        ({"score": fc.Normalized(), "estimator": lambda x: x * [1, 0]}, "site 'a': predictions: row 0 has prediction"),
    ],
)
def test_what_is_refused_is_one_line(given: dict[str, Any], fragment: str) -> None:
    with refused(fragment):
        CONFORMAL(**given).calibrate({"a": (np.ones((2, 1)), [1.0, 2.0])})
