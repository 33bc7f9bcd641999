"""Numbers that are no probabilities: percentages, rounded decimals, a stray column, logits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fedconformal as fc
from fedconformal._base.arrays import as_probabilities
from fedconformal.errors import SuspiciousInputWarning
from fedconformal.tables import columns_that_add_up, table_of
from tests.contracts.tools import refused

RNG = np.random.default_rng(0)
PROBS = RNG.dirichlet([1, 1, 1, 1], 200)
AGE = RNG.integers(20, 90, (200, 1))


@pytest.mark.parametrize("decimals", [1, 2, 3])
def test_rounded_decimals_are_accepted_as_they_are(decimals: int) -> None:
    rounded = PROBS.round(decimals)
    assert not np.isclose(rounded.sum(axis=1), 1).all()
    with pytest.warns(SuspiciousInputWarning, match=f"rounded to {decimals} decimal"):
        assert as_probabilities(rounded) is rounded
    with pytest.warns(SuspiciousInputWarning):
        scores = fc.LAC().evaluate(rounded.astype(np.float32), [0] * 200)
    assert np.allclose(scores, 1 - rounded[:, 0])
    step = 10.0**-decimals
    rounded[7, 0] += 2 * step  # more than four entries can be off together
    with refused("row 7", code="not-a-distribution"):
        as_probabilities(rounded)


@pytest.mark.parametrize(
    "probs", [[[0.0] * 20], [[1.0, 1.0]], [[0.5, 0.49]], [[0.9, 0.2]], [[0.25, 0.251, 0.25, 0.24]]]
)
def test_no_rounding_explains_these(probs: Any) -> None:
    with refused("row 0", code="not-a-distribution"):
        as_probabilities(probs)


def test_percentages_and_a_stray_column() -> None:
    aged = np.concatenate([PROBS[:, :2], AGE, PROBS[:, 2:]], axis=1)
    for take in (as_probabilities, fc.softmax):  # whatever they are said to be
        for values in (PROBS * 100, (PROBS * 100).round()):
            with refused(code="percentages"):
                take(values)
        with refused(code="stray-column"):
            take(aged)


@pytest.mark.parametrize(
    ("values", "logits"),
    [
        (np.log(PROBS + 1e-9) + 3, True),
        ([[2.5, -1.0], [0.5, 0.5], [-1.0, 3.0]], True),
        ([[0.9, 0.1], [1.05, -0.05]], False),
        ([[0.9, 0.1], [0.8, 0.2], [3.0, -1.0]], False),
        ([[0.9, 0.1], [0.9, 0.3]], False),
        ([[3.0, 4.0], [1.0, 2.0]], False),
    ],
)
def test_logits_are_named_only_if_they_look_like_logits(values: Any, logits: bool) -> None:
    with refused(code="logits" if logits else "not-a-distribution"):
        as_probabilities(values)


def test_columns_that_add_up() -> None:
    benign = PROBS[:, 0]
    table = table_of(
        {"id": [f"p{k}" for k in range(200)], "age": AGE[:, 0], "yes": benign, "no": 1 - benign, "sex": ["F"] * 200}
    )
    assert columns_that_add_up(table, table.columns) == ["yes", "no"]
    table = table_of({"risk": PROBS[:, 3], "yes": benign.round(2), "no": 1 - benign.round(2)})
    assert columns_that_add_up(table, table.columns) == ["yes", "no"]
    assert columns_that_add_up(table, table.columns[:2]) is None
    gaps = table_of({"age": AGE[:3, 0], "yes": [0.25, None, 0.5], "no": [0.75, 0.5, 0.5]})
    assert columns_that_add_up(gaps, gaps.columns) == ["yes", "no"]
