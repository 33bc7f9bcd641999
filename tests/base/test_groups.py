"""Groups as users have them: dictionaries, frames and single columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import fedconformal as fc
from fedconformal.evaluation import evaluate_intervals
from tests.contracts.tools import refused

RNG = np.random.default_rng(0)
PROBS = RNG.dirichlet([1, 1, 1], 120)
LABELS = PROBS.argmax(axis=1)
COLUMNS = {"sex": RNG.choice(["F", "M"], 120), "age": RNG.choice([60, 70], 120)}
BY_GROUP = fc.ByGroup()
pytestmark = pytest.mark.filterwarnings("ignore::fedconformal.errors.ClassCountsWarning")


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table, lambda columns: columns])
def test_frames(make: Any) -> None:
    groups = make(COLUMNS)
    plain = fc.calibrate([fc.summarize(PROBS, LABELS, groups=COLUMNS, site="a")], alpha=0.2, guarantee=BY_GROUP)
    found = fc.calibrate([fc.summarize(PROBS, LABELS, groups=groups, site="a")], alpha=0.2, guarantee=BY_GROUP)
    assert found.to_bytes() == plain.to_bytes()
    assert np.array_equal(found.predict_set(PROBS, groups=groups), plain.predict_set(PROBS, groups=COLUMNS))
    assert np.array_equal(found.predict_p(PROBS, groups=groups), plain.predict_p(PROBS, groups=COLUMNS))
    assert found.evaluate(PROBS, LABELS, groups=groups) == plain.evaluate(PROBS, LABELS, groups=COLUMNS)
    made = fc.FederatedConformalClassifier(alpha=0.2, guarantee="by-group").calibrate(PROBS, LABELS, groups=groups)
    assert made.predict_set(PROBS, groups=groups).shape == PROBS.shape
    ends = np.stack([np.zeros(120), np.ones(120)], axis=1)
    assert set(evaluate_intervals(ends, np.full(120, 0.5), groups=groups).by_group) == {"sex", "age"}


@pytest.mark.parametrize("make", [pd.Series, lambda values, name: pl.Series(name, values)])
def test_a_series_is_a_column(make: Any) -> None:
    plain = fc.summarize(PROBS, LABELS, groups={"sex": COLUMNS["sex"]}, site="a")
    assert fc.summarize(PROBS, LABELS, groups=make(COLUMNS["sex"], name="sex"), site="a").to_bytes() == plain.to_bytes()


def test_a_column_without_a_name_is_refused() -> None:
    bad: list[Any] = [pd.Series(COLUMNS["sex"]), COLUMNS["sex"], ["F"] * 120, {}, pd.DataFrame()]
    for groups in bad:
        with refused(param="groups"):
            fc.summarize(PROBS, LABELS, groups=groups)
