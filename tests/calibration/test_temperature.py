"""The temperature: against a fine grid, against all rows in one place, and at the bounds."""

import logging
import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fedconformal.errors import InputError

pytest.importorskip("torch", reason="training needs torch")

from fedconformal.calibration.temperature import LEAST, MOST, Temperature, fit_temperature, likelihood_of

Site = tuple[NDArray[Any], NDArray[Any]]


def sites(true: float, rows: tuple[int, ...] = (300, 200, 50)) -> list[Site]:
    """Draw labels from logits at a known temperature."""
    rng = np.random.default_rng(7)
    made = []
    for n in rows:
        logits = 3 * rng.normal(size=(n, 4))
        noise = rng.gumbel(size=(n, 4))
        made.append((logits, np.argmax(logits / true + noise, axis=1)))
    return made


def apart(data: list[Site]) -> tuple[list[NDArray[Any]], list[NDArray[Any]]]:
    return [z for z, _ in data], [y for _, y in data]


@pytest.mark.parametrize("true", [0.4, 1.0, 5.0])
def test_pooled_is_the_fit_on_all_rows(true: float) -> None:
    logits, labels = apart(sites(true))
    found = fit_temperature(logits, labels)
    together = fit_temperature([np.concatenate(logits)], [np.concatenate(labels)])
    assert math.isclose(found.value, together.value, rel_tol=1e-9)
    assert math.isclose(found.value, true, rel_tol=0.25)
    assert found == Temperature(value=found.value)
    ask = likelihood_of(np.concatenate(logits), np.concatenate(labels))
    best = ask(1 / found.value)[0]
    assert all(best < ask(1 / (found.value * factor))[0] for factor in (0.5, 0.99, 1.01, 2.0))


def test_slope_and_curvature_are_those_of_the_likelihood() -> None:
    ask = likelihood_of(*sites(2.0)[0])
    step = 1e-4
    for b in (0.3, 1.0, 4.0):
        (below, _, _), (here, slope, curvature), (above, _, _) = ask(b - step), ask(b), ask(b + step)
        assert math.isclose((above - below) / (2 * step), slope, rel_tol=1e-4, abs_tol=1e-3)
        assert math.isclose((above - 2 * here + below) / step**2, curvature, rel_tol=1e-2)


def test_mean_is_the_plain_mean() -> None:
    logits, labels = apart(sites(2.0))
    found = fit_temperature(logits, labels, method="mean")
    own = [fit_temperature([z], [y]).value for z, y in zip(logits, labels, strict=True)]
    assert math.isclose(found.value, sum(own) / 3)
    assert not found.at_bound


def test_a_site_with_one_class_is_held_at_the_bound(caplog: pytest.LogCaptureFixture) -> None:
    data = sites(2.0)
    certain = np.zeros((20, 4))
    certain[:, 1] = 3.0
    data.append((certain, np.ones(20, dtype=np.int64)))
    logits, labels = apart(data)
    with caplog.at_level(logging.WARNING):
        mean = fit_temperature(logits, labels, method="mean")
    assert mean.at_bound
    caplog.clear()
    pooled = fit_temperature(logits, labels)
    assert not pooled.at_bound
    assert 1.0 < pooled.value < 3.0
    assert not caplog.text


def test_bounds_on_both_sides(caplog: pytest.LogCaptureFixture) -> None:
    right, wrong = [[5.0, 0.0]] * 3, [[0.0, 5.0]] * 3
    assert fit_temperature([right], [[0, 0, 0]]) == Temperature(value=LEAST, at_bound=True)
    assert fit_temperature([wrong], [[0, 0, 0]]) == Temperature(value=MOST, at_bound=True)
    assert caplog.text.count("bound") == 2


def test_rows_that_say_nothing() -> None:
    assert fit_temperature([[[1.0, 1.0]]], [[0]]) == Temperature(value=1.0)
    assert fit_temperature([[[1e300, -1e300]]], [[0]]) == Temperature(value=1.0)


def test_sites_without_rows_are_left_out() -> None:
    logits, labels = apart(sites(2.0))
    empty = np.empty((0, 4)), np.empty(0, dtype=np.int64)
    for method in ("pooled", "mean"):
        with_empty = fit_temperature([empty[0], *logits], [empty[1], *labels], method=method)
        assert with_empty == fit_temperature(logits, labels, method=method)
    with pytest.raises(InputError, match="no site has rows"):
        fit_temperature([empty[0]], [empty[1]])


@pytest.mark.parametrize(
    ("logits", "labels", "method", "message"),
    [
        ([[[0.0, 1.0]]], [[0]], "median", "temperature is 'median'; there are pooled, mean, none"),
        ([[[0.0, 1.0]]], [[0], [1]], "pooled", "logits of 1 sites and labels of 2"),
        ([[[0.0, 1.0]]], [[2]], "pooled", "site 0: labels: row 0 is 2"),
        ([[[0.0, 1.0]], [[0.0, np.nan]]], [[0], [1]], "mean", "site 1: logits: row 0 holds a value that is not finite"),
    ],
)
def test_bad_input(logits: Any, labels: Any, method: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        fit_temperature(logits, labels, method=method)
