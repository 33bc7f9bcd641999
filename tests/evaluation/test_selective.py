"""When to abstain, and how sure a model may be: both against plain counting."""

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.evaluation import reliability, selective_classification


def rows(
    count: int = 500,
) -> tuple[np.ndarray[tuple[int, int], np.dtype[np.float64]], np.ndarray[tuple[int], np.dtype[np.int64]]]:
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.full(5, 0.5), count)
    return probs, np.array([rng.choice(5, p=p) for p in probs])


def test_limits_are_counts_of_what_is_kept() -> None:
    probs, labels = rows()
    sets = fc.LAC().predict_set(probs, 0.9)
    sizes = sets.sum(axis=1)
    found = selective_classification(sets, probs, labels)
    assert [one.size for one in found] == np.unique(sizes).tolist()
    for one in found:
        kept = sizes <= one.size
        assert one.rows == kept.sum()
        assert one.accuracy == pytest.approx((probs.argmax(axis=1) == labels)[kept].mean())
        assert one.coverage == pytest.approx(sets[np.arange(500), labels][kept].mean())
    assert found[-1].kept == 1.0


def test_sets_of_another_shape_are_refused() -> None:
    probs, labels = rows()
    with pytest.raises(fc.InputError, match="expected booleans of shape"):
        selective_classification(np.ones((3, 5), dtype=bool), probs, labels)


def test_a_calibrated_model_has_a_small_error() -> None:
    probs, labels = rows(20_000)
    honest = reliability(probs, labels)
    sure = reliability(probs**2 / (probs**2).sum(axis=1, keepdims=True), labels)
    assert honest.ece < 0.02
    assert sure.ece > 3 * honest.ece
    assert honest.mce >= honest.ece
    assert sum(one.rows for one in honest.bins) == 20_000
    assert all(one.low < one.confidence <= one.high for one in honest.bins)
    assert honest.accuracy == (probs.argmax(axis=1) == labels).mean()
