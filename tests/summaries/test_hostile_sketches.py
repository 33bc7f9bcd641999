"""Hostile bytes of sketches, ddsketch and tdigest: places, counts at them, and the extreme scores."""

from __future__ import annotations

import math
from typing import Any

import pytest

import fedconformal as fc
from scripts.vector_cases.tools import ABSENT, File, counts, floats
from tests.contracts.tools import refusal
from tests.summaries.test_format import check_decoded, decode

# Bucket 70,908 is zero's, and 106,327 ends at 1.
FINE: dict[str, dict[str, Any]] = {
    "ddsketch": {"places": counts(70_908, 106_327, 106_328), "smallest": 0.0, "largest": 1.01},
    "tdigest": {"places": floats(0.1, 0.5, 0.9), "smallest": 0.0, "largest": 1.0},
}
BUCKETS = [0, 1, 70_907, 70_908, 70_909, 106_327, 141_815]
MEANS = [-1e308, -1.0, 0.0, 5e-324, 0.5, 1e308]
ODD: dict[str, dict[str, Any]] = {
    "counts as floats": {"counts": floats(3.0, 5.0, 2.0)},
    "another size": {"sizes": [11]},
    "smallest of minus zero": {"smallest": -0.0},
    "largest as a text": {"largest": "1.01"},
    **{f"smallest {bad}": {"smallest": bad} for bad in (math.nan, -math.inf)},
    "smallest above the first place": {"smallest": 0.2},
    "largest below the last place": {"largest": 0.8},
    "two extremes of one score": {"sizes": [1], "places": floats(0.5), "counts": counts(1)},
}


def altered(kind: str, **changes: Any) -> bytes:
    """Encode a summary of ten scores with some fields altered."""
    fields = {"sizes": [10], "counts": counts(3, 5, 2), **FINE[kind], **changes}
    arrays, numbers = ([fields.pop(name) for name in pair] for pair in (("places", "counts"), ("smallest", "largest")))
    return File(fc.Summary.of_scores([0.1, 0.5], kind=kind)).having(arrays, numbers=numbers, sites=ABSENT, **fields)


@pytest.mark.parametrize("kind", FINE)
def test_an_honest_body_is_decoded(kind: str) -> None:
    data = altered(kind)
    check_decoded(fc.Summary.from_bytes(data), data)


@pytest.mark.parametrize("kind", FINE)
@pytest.mark.parametrize("what", ODD)
def test_a_hostile_body_is_refused(kind: str, what: str) -> None:
    """tests/vectors/wire has more of them."""
    refusal(decode(altered(kind, **ODD[what])))


def test_a_claim_of_very_many_scores_costs_nothing() -> None:
    halves: dict[str, Any] = {"places": floats(-1e308, 1e308), "counts": counts(2**31 - 1, 2**31 - 1)}
    data = altered("tdigest", sizes=[2**32 - 2], smallest=-1.7e308, largest=1.7e308, **halves)
    summary = fc.Summary.from_bytes(data)
    check_decoded(summary, data)
    assert len(summary.points) < 5000
