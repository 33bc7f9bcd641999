"""Hostile bytes of sketches, ddsketch and tdigest: places, counts at them, and the extreme scores."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedconformal as fc
from fedconformal.summaries.ddsketch import upper_edges
from scripts.vector_cases.tools import ABSENT, File, counts, floats
from tests.contracts.tools import checks, refusal
from tests.summaries.test_format import check_decoded, decode

BAD = (math.nan, math.inf, -math.inf)

# Bucket 70,908 is zero's, and 106,327 ends at 1.
FINE: dict[str, dict[str, Any]] = {
    "ddsketch": {"places": counts(70_908, 106_327, 106_328), "smallest": 0.0, "largest": 1.01},
    "tdigest": {"places": floats(0.1, 0.5, 0.9), "smallest": 0.0, "largest": 1.0},
}
BOTH: dict[str, dict[str, Any]] = {
    "no places": {"places": b"", "counts": b""},
    "places without counts": {"counts": b""},
    "one count too few": {"counts": counts(3, 7)},
    "an empty place": {"counts": counts(3, 7, 0)},
    "more than n": {"counts": counts(3, 5, 3)},
    "fewer than n": {"counts": counts(3, 5, 1)},
    "a count of 2^64 - 1": {"counts": counts(3, 5, 2**64 - 1)},
    "counts as floats": {"counts": floats(3.0, 5.0, 2.0)},
    "another size": {"sizes": [11]},
    "smallest of minus zero": {"smallest": -0.0},
    "smallest as an integer": {"smallest": 0},
    "largest as a text": {"largest": "1.01"},
    "no largest": {"largest": None},
    **{f"smallest {bad}": {"smallest": bad} for bad in BAD},
    **{f"largest {bad}": {"largest": bad} for bad in BAD},
}
OWN: dict[str, dict[str, dict[str, Any]]] = {
    "ddsketch": {
        "half a bucket": {"places": counts(70_908, 106_327, 106_328)[:-4]},
        "unsorted buckets": {"places": counts(106_327, 70_908, 106_328)},
        "a bucket twice": {"places": counts(70_908, 106_328, 106_328)},
        "a bucket of 2^63": {"places": counts(2**63, 106_327, 106_328)},
        **{f"bucket {k}": {"places": counts(70_908, 106_327, k)} for k in (141_816, 2**40, 2**64 - 1)},
        "counts that wrap around": {
            "places": counts(*range(70_908, 70_908 + 4097)),
            "counts": counts(*[2**52] * 4096, 10),
            "largest": float(upper_edges()[70_908 + 4096]),
        },
        "smallest not in the first bucket": {"smallest": 0.5},
        "smallest below the first bucket": {"smallest": -5e-324},
        "largest not in the last bucket": {"largest": 1.0},
        "largest above the last bucket": {"largest": 1.03},
        "extremes in the wrong order": {
            "places": counts(106_328),
            "counts": counts(10),
            "smallest": 1.01,
            "largest": 1.005,
        },
        "two extremes of one score": {
            "sizes": [1],
            "places": counts(106_328),
            "counts": counts(1),
            "smallest": 1.005,
            "largest": 1.01,
        },
    },
    "tdigest": {
        "half a mean": {"places": floats(0.1, 0.5, 0.9)[:-4]},
        "unsorted means": {"places": floats(0.5, 0.1, 0.9)},
        "a mean of minus zero": {"places": floats(-0.0, 0.5, 0.9)},
        **{f"a mean of {bad}": {"places": floats(0.1, 0.5, bad)} for bad in BAD},
        "counts that wrap around": {"places": floats(*[0.5] * 4097), "counts": counts(*[2**52] * 4096, 10)},
        "smallest above the first mean": {"smallest": 0.2},
        "largest below the last mean": {"largest": 0.8},
        "two extremes of one score": {"sizes": [1], "places": floats(0.5), "counts": counts(1)},
    },
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


@pytest.mark.parametrize(("kind", "what"), [(kind, what) for kind in FINE for what in BOTH | OWN[kind]])
def test_a_hostile_body_is_refused(kind: str, what: str) -> None:
    refusal(decode(altered(kind, **(BOTH | OWN[kind])[what])))


def check_refused_or_sound(data: bytes) -> None:
    try:
        summary = fc.Summary.from_bytes(data)
    except fc.InputError:
        return
    check_decoded(summary, data)


@given(st.data())
@checks(150)
def test_altered_buckets_are_refused_or_sound(data: st.DataObject) -> None:
    places = sorted(data.draw(st.sets(st.sampled_from([0, 1, 70_907, 70_908, 70_909, 106_327, 141_815]), min_size=1)))
    some = data.draw(st.lists(st.integers(0, 6), min_size=len(places), max_size=len(places)))
    low, high = upper_edges()[[places[0], places[-1]]] * data.draw(st.sampled_from([1.0, 1.0, 0.999])) + 0.0
    about: dict[str, Any] = {"sizes": [max(1, sum(some))], "places": counts(*places), "counts": counts(*some)}
    check_refused_or_sound(altered("ddsketch", smallest=float(low), largest=float(high), **about))


@given(st.data())
@checks(150)
def test_altered_means_are_refused_or_sound(data: st.DataObject) -> None:
    drawn = st.lists(st.sampled_from([-1e308, -1.0, 0.0, 5e-324, 0.5, 1e308]), min_size=1, max_size=6)
    means = sorted(data.draw(drawn))
    some = data.draw(st.lists(st.integers(0, 4), min_size=len(means), max_size=len(means)))
    less, more = (data.draw(st.sampled_from([0.0, 0.0, 1.0, 1e300])) for _ in range(2))
    about: dict[str, Any] = {"sizes": [max(1, sum(some))], "places": floats(*means), "counts": counts(*some)}
    check_refused_or_sound(altered("tdigest", smallest=means[0] - less, largest=means[-1] + more, **about))


def test_a_claim_of_very_many_scores_costs_nothing() -> None:
    halves: dict[str, Any] = {"places": floats(-1e308, 1e308), "counts": counts(2**31 - 1, 2**31 - 1)}
    data = altered("tdigest", sizes=[2**32 - 2], smallest=-1.7e308, largest=1.7e308, **halves)
    summary = fc.Summary.from_bytes(data)
    check_decoded(summary, data)
    assert len(summary.points) < 5000
