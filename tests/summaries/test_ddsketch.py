"""DDSketch: the same edges everywhere, sure counts, and a middle that is an estimate only."""

from __future__ import annotations

import hashlib
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedconformal as fc
from fedconformal._base.arrays import Floats
from fedconformal.summaries.ddsketch import DDSketchSummary, lower_edges, upper_edges
from scripts.vector_cases.tools import ABSENT, File, counts
from tests.contracts.tools import checks, probes, refusal, vectors
from tests.summaries.test_format import check_decoded, decode, golden

LARGEST = math.nextafter(math.inf, 0.0)


def sketch(scores: Any, **about: Any) -> DDSketchSummary:
    summary = fc.Summary.of_scores(scores, kind="ddsketch", **about)
    assert isinstance(summary, DDSketchSummary)
    return summary


# --- the table of edges ---


def test_the_table_is_what_the_format_says() -> None:
    """Build it as docs/wire-format.md does, one number at a time."""
    growth = float(Fraction(101, 99))
    up = [1.0]
    while up[-1] * growth < math.inf:
        up.append(up[-1] * growth)
    down = [1 / edge for edge in up[1:] if 1 / edge >= 2.0**-1022]
    positive = [*reversed(down), *up, LARGEST]
    assert upper_edges().tolist() == [*(-edge for edge in reversed(positive)), -(2.0**-1074), 0.0, *positive]
    assert lower_edges().tolist() == [-math.inf, *upper_edges().tolist()[:-1]]
    assert (len(upper_edges()), upper_edges()[106_327]) == (141_816, 1.0)


def test_the_table_is_the_same_on_every_machine() -> None:
    digest = hashlib.sha256(upper_edges().astype("<f8").tobytes()).hexdigest()
    assert digest == "5a4b93caf14db28da9e88713cb736578900f46baf45789224d01b8dfc60bbfe7"
    assert not upper_edges().flags.writeable


def test_edges_grow_by_one_part_in_fifty() -> None:
    positive = upper_edges()[upper_edges() > 0]
    ratios = positive[1:] / positive[:-1]
    assert (ratios[:-1] > 1.0202).all()
    assert ratios.max() < 101 / 99 + 1e-15


@given(vectors(40))
@checks(100)
def test_a_bucket_holds_what_lies_between_its_edges(scores: Floats) -> None:
    scores = np.unique(np.concatenate([scores, upper_edges()[[0, 1, 70_907, 70_908, 70_909, 141_815]]]) + 0.0)
    for score in probes(scores)[1:-1].tolist():
        if math.isfinite(score):
            (bucket,) = sketch([score]).buckets
            assert lower_edges()[bucket] < score <= upper_edges()[bucket]
            assert sketch([-score]).n == 1


# --- counts ---


@given(vectors(60), vectors(20))
@checks(60)
def test_bounds_are_the_best_that_follow_from_the_histogram(scores: Floats, more: Floats) -> None:
    """Compare with a slow reading of every bucket, at edges and beside them."""
    summary = sketch(scores)
    buckets = np.searchsorted(upper_edges(), scores, side="left")
    edges = np.concatenate([upper_edges()[buckets], lower_edges()[buckets[buckets > 0]]])
    for q in probes(np.concatenate([scores, edges]), more.tolist()).tolist():
        low = sum(upper_edges()[b] <= q for b in buckets)
        high = sum(lower_edges()[b] < q for b in buckets)
        if q >= scores.min():
            low = max(low, 1)
        if q < scores.max():
            high = min(high, len(scores) - 1)
        found = summary.count_at_most(q)
        assert found == (len(scores) if q >= scores.max() else low, 0 if q < scores.min() else high)
        if q in edges:
            assert found[0] == found[1] == np.count_nonzero(scores <= q)


@given(vectors(60), vectors(60), vectors(30))
@checks(60)
def test_nothing_is_lost_by_pooling(a: Floats, b: Floats, c: Floats) -> None:
    parts = [sketch(part, site=name) for part, name in zip((a, b, c), "abc", strict=True)]
    pooled, whole = fc.pool(parts), sketch(np.concatenate([a, b, c]))
    assert isinstance(pooled, DDSketchSummary)
    assert pooled.buckets.tolist() == whole.buckets.tolist()
    assert pooled.counts.tolist() == whole.counts.tolist()
    assert fc.pool([fc.pool(parts[:2]), parts[2]]).to_bytes() == pooled.to_bytes()


def test_a_threshold_is_never_too_low_however_many_scores_crowd_together() -> None:
    rng = np.random.default_rng(0)
    sites = [1 - rng.beta(0.1, 5, 400) * 0.02 for _ in range(5)]
    result = fc.calibrate([sketch(scores, site=f"s{k}") for k, scores in enumerate(sites)], alpha=0.1)
    exact = fc.calibrate([fc.Summary.of_scores(s, kind="exact", site=f"s{k}") for k, s in enumerate(sites)], alpha=0.1)
    assert result.certificate.status == "certified"
    assert result.threshold >= exact.threshold


def test_a_threshold_is_within_one_bucket_of_the_exact_one() -> None:
    rng = np.random.default_rng(1)
    sites = [rng.lognormal(k, 1, 500) for k in range(4)]
    found = [
        fc.calibrate(
            [fc.Summary.of_scores(s, kind=kind, site=f"s{k}") for k, s in enumerate(sites)], alpha=0.1
        ).threshold
        for kind in ("exact", "ddsketch")
    ]
    assert found[0] <= found[1] <= found[0] * 101 / 99


def test_the_gap_of_equal_scores_is_not_what_is_stated() -> None:
    summary = sketch([0.3] * 100)
    assert summary.gap == 99
    assert [summary.count_at_most(q) for q in (0.2999, 0.3, 0.3001)] == [(0, 0), (100, 100), (100, 100)]


# --- hostile bytes ---


def altered(**changes: Any) -> bytes:
    """Encode the golden file again with some fields altered."""
    file = File(fc.Summary.from_bytes(golden("ddsketch-pooled")))
    smallest, largest = file.own["numbers"]
    numbers = [changes.pop("smallest", smallest), changes.pop("largest", largest)]
    arrays = [changes.pop(name, array) for name, array in zip(("buckets", "counts"), file.arrays, strict=True)]
    return file.having(arrays, numbers=numbers, **changes)


# Bucket 70,908 is zero's, and 106,327 ends at 1.
FINE: dict[str, Any] = {
    "sizes": [10],
    "sites": ABSENT,
    "buckets": counts(70_908, 106_327, 106_328),
    "counts": counts(3, 5, 2),
    "smallest": 0.0,
    "largest": 1.01,
}
HOSTILE: dict[str, dict[str, Any]] = {
    "no buckets": {"buckets": b"", "counts": b""},
    "buckets without counts": {"counts": b""},
    "one count too few": {"counts": counts(3, 7)},
    "half a bucket": {"buckets": counts(70_908, 106_327, 106_328)[:-4]},
    "unsorted buckets": {"buckets": counts(106_327, 70_908, 106_328)},
    "a bucket twice": {"buckets": counts(70_908, 106_328, 106_328)},
    "a bucket beyond the table": {"buckets": counts(70_908, 106_327, 141_816)},
    "a bucket of 2^40": {"buckets": counts(70_908, 106_327, 2**40)},
    "a bucket of 2^64 - 1": {"buckets": counts(70_908, 106_327, 2**64 - 1)},
    "a bucket of 2^63": {"buckets": counts(2**63, 106_327, 106_328)},
    "an empty bucket": {"counts": counts(3, 7, 0)},
    "a count too many": {"counts": counts(3, 5, 3)},
    "a count too few": {"counts": counts(3, 5, 1)},
    "a count of 2^64 - 1": {"counts": counts(3, 5, 2**64 - 1)},
    "counts that wrap around": {
        "buckets": counts(*range(70_908, 70_908 + 4097)),
        "counts": counts(*[2**52] * 4096, 10),
        "largest": float(upper_edges()[70_908 + 4096]),
    },
    "another size": {"sizes": [11]},
    "smallest not in the first bucket": {"smallest": 0.5},
    "smallest below the first bucket": {"smallest": -5e-324},
    "smallest of minus zero": {"smallest": -0.0},
    "largest not in the last bucket": {"largest": 1.0},
    "largest above the last bucket": {"largest": 1.03},
    "an extreme of the wrong type": {"largest": "1.01"},
    "no extreme": {"largest": None},
    "smallest as an integer": {"smallest": 0},
    **{f"smallest {bad}": {"smallest": bad} for bad in (math.nan, math.inf, -math.inf)},
    **{f"largest {bad}": {"largest": bad} for bad in (math.nan, math.inf, -math.inf)},
    "extremes in the wrong order": {
        "buckets": counts(106_328),
        "counts": counts(10),
        "smallest": 1.01,
        "largest": 1.005,
    },
    "two extremes of one score": {
        "sizes": [1],
        "buckets": counts(106_328),
        "counts": counts(1),
        "smallest": 1.005,
        "largest": 1.01,
    },
}


def test_an_honest_body_is_decoded() -> None:
    data = altered(**FINE)
    check_decoded(fc.Summary.from_bytes(data), data)


@pytest.mark.parametrize("what", list(HOSTILE))
def test_a_hostile_body_is_refused(what: str) -> None:
    refusal(decode(altered(**(FINE | HOSTILE[what]))))


@given(st.data())
@checks(150)
def test_altered_fields_are_refused_or_sound(data: st.DataObject) -> None:
    n = data.draw(st.integers(1, 6))
    places = sorted(data.draw(st.sets(st.sampled_from([0, 1, 70_907, 70_908, 70_909, 106_327, 141_815]), min_size=1)))
    some = data.draw(st.lists(st.integers(0, n), min_size=len(places), max_size=len(places)))
    ends = upper_edges()[[places[0], places[-1]]] * data.draw(st.sampled_from([1.0, 1.0, 0.999]))
    hostile = altered(
        sizes=[max(1, sum(some))],
        sites=[],
        buckets=counts(*places),
        counts=counts(*some),
        smallest=float(ends[0]) + 0.0,
        largest=float(ends[1]) + 0.0,
    )
    try:
        summary = fc.Summary.from_bytes(hostile)
    except fc.InputError:
        return
    check_decoded(summary, hostile)
