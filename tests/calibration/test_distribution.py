"""The predictive distribution, and the band that says how exact it is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fedconformal as fc
from tests.contracts.tools import refused


def predictor(size: int = 1000, kind: str = "ranks", **about: Any) -> fc.Predictor:
    rng = np.random.default_rng(4)
    sites = [
        fc.Summary.of_scores(rng.normal(size=size), kind=kind, score=fc.Signed(), site=site, alpha=0.1)
        for site in ("a", "b")
    ]
    return fc.calibrate(sites, alpha=0.1, **about, exact=True)


def test_at_one_site_it_is_the_order_statistic() -> None:
    """With N + 1 weights level c is the ceil(c (N + 1))-th smallest error, as in crepes' predictive systems."""
    scores = np.sort(np.random.default_rng(1).normal(size=99))
    rule = fc.calibrate([fc.Summary.of_scores(scores, kind="exact", score=fc.Signed())], alpha=0.2, exact=True)
    levels = [0.01, 0.1, 0.25, 0.5, 0.755, 0.99]
    ranks = [1, 10, 25, 50, 76, 99]
    assert np.array_equal(rule.predict_distribution([0.0, 0.0], levels), [scores[np.array(ranks) - 1]] * 2)


def test_the_band_counts_what_the_summaries_leave_open() -> None:
    exact, ranks = (predictor(kind=kind).distribution_band([0.5, 0.9]) for kind in ("exact", "ranks"))
    slack = predictor().certificate.promises[0]
    assert slack.slack > 0.01
    # (r - 1) / N to r / N at r = ceil(c N) + 1, with N = 2000.
    assert exact.tolist() == pytest.approx(np.array([[1000, 1001], [1800, 1801]]) / 2000)
    assert (ranks[:, 0] == exact[:, 0]).all()
    assert ranks[:, 1].tolist() == pytest.approx((exact[:, 1] + slack.slack).tolist())


def test_between_hundredths_the_band_is_that_of_the_next() -> None:
    rule = predictor(kind="exact")
    assert rule.distribution_band([0.333])[0][1] == rule.distribution_band([0.34])[0][1]
    assert rule.distribution_band([0.333])[0][0] >= 0.333


def test_values_rise_with_the_level_and_have_a_scale() -> None:
    rule = predictor()
    values = rule.predict_distribution([1.0, 2.0], np.linspace(0.02, 0.98, 33))
    assert values.shape == (2, 33)
    assert (np.diff(values) >= 0).all()
    assert values[1] - values[0] == pytest.approx(np.ones(33))
    scores = np.random.default_rng(2).normal(size=500)
    scaled = fc.calibrate([fc.Summary.of_scores(scores, score=fc.Signed(scaled=True))], alpha=0.1, exact=True)
    found = scaled.predict_distribution([[0.0, 1.0], [0.0, 3.0]], [0.9])
    assert found[1] == pytest.approx(3 * found[0])


def test_levels_that_cannot_be_promised_are_at_infinity() -> None:
    rule = fc.calibrate([fc.Summary.of_scores(np.arange(9.0), score=fc.Signed())], alpha=0.5, exact=True)
    with pytest.warns(fc.InfeasibleWarning, match=r"promises no level above 0.9"):
        assert rule.predict_distribution([0.0], [0.5, 0.95]).tolist() == [[4.0, np.inf]]
    assert rule.distribution_band([0.95]).tolist() == [[1.0, 1.0]]


def test_estimates_have_no_band() -> None:
    assert predictor(kind="tdigest").distribution_band([0.5]).tolist() == [[0.0, 1.0]]


def test_where_a_guarantee_has_no_upper_end_neither_has_the_band() -> None:
    found = predictor(guarantee=fc.EverySite()).distribution_band([0.5])
    assert found.tolist() == [[0.5, 1.0]]


def test_bad_levels_and_scores_without_a_sign_are_refused() -> None:
    rule = predictor()
    for levels in ([], [0.0], [1.0], [np.nan], ["x"], 0.5):
        with refused("levels"):
            rule.predict_distribution([0.0], levels)  # type: ignore[arg-type]
    plain = fc.calibrate([fc.Summary.of_scores(np.arange(19.0), score=fc.Residual())], alpha=0.1, exact=True)
    with refused("residual has no sign", "Signed"):
        plain.predict_distribution([0.0])
    with refused("residual has no sign"):
        plain.distribution_band()
