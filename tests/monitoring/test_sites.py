"""E-values over sites: their mean, and which sites stand out."""

import math

import numpy as np
import pytest

from fedconformal.errors import InputError
from fedconformal.monitoring.combine import log_mean, standing_out


def test_few_sites_are_named_wrongly() -> None:
    """90 of 100 sites keep the promise: of those that are named, at most a tenth is wrong on average."""
    rng, wrong, right = np.random.default_rng(0), [], []
    for _ in range(2000):
        # exp(m x - m^2 / 2) is one on average for normal x, and large if its mean is m.
        draws = rng.normal(size=100) + np.repeat([3.0, 0.0], [10, 90])
        named = [int(name) for name in standing_out({str(i): 3 * x - 4.5 for i, x in enumerate(draws)})]
        wrong.append(sum(i >= 10 for i in named) / max(1, len(named)))
        right.append(sum(i < 10 for i in named))
    assert np.mean(wrong) < 0.1
    assert np.mean(right) > 2
    naive = [i for i, x in enumerate(draws) if 3 * x - 4.5 >= math.log(10)]
    assert len(naive) > len(named)


def test_bad_e_values_are_refused() -> None:
    for values in ([], [math.nan], [[1.0]]):
        with pytest.raises(InputError, match="log_e_values"):
            log_mean(values)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="false_share is 1"):
        standing_out({"a": 1.0}, false_share=1)
    with pytest.raises(InputError, match="no NaN"):
        standing_out({"a": math.nan, "b": 9.0})
    assert standing_out({}) == []
