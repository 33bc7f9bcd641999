"""DDSketch: the same edges everywhere, sure counts, and a middle that is an estimate only."""

from __future__ import annotations

import hashlib
import math
from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import given

import fedconformal as fc
from fedconformal._base.arrays import Floats
from fedconformal.summaries.ddsketch import DDSketchSummary, upper_edges
from tests.contracts.tools import checks, probes, vectors

LARGEST = math.nextafter(math.inf, 0.0)
LOWER = np.append(-math.inf, upper_edges()[:-1])


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
    assert (len(upper_edges()), upper_edges()[106_327]) == (141_816, 1.0)


def test_the_table_is_the_same_on_every_machine() -> None:
    digest = hashlib.sha256(upper_edges().astype("<f8").tobytes()).hexdigest()
    assert digest == "5a4b93caf14db28da9e88713cb736578900f46baf45789224d01b8dfc60bbfe7"
    assert not upper_edges().flags.writeable


@given(vectors(40))
@checks(100)
def test_a_bucket_holds_what_lies_between_its_edges(scores: Floats) -> None:
    scores = np.unique(np.concatenate([scores, upper_edges()[[0, 1, 70_907, 70_908, 70_909, 141_815]]]) + 0.0)
    for score in probes(scores)[1:-1].tolist():
        if math.isfinite(score):
            (bucket,) = sketch([score]).buckets
            assert LOWER[bucket] < score <= upper_edges()[bucket]
            assert sketch([-score]).n == 1


# --- counts ---


@given(vectors(60), vectors(20))
@checks(60)
def test_bounds_are_the_best_that_follow_from_the_histogram(scores: Floats, more: Floats) -> None:
    """Compare with a slow reading of every bucket, at edges and beside them."""
    summary = sketch(scores)
    buckets = np.searchsorted(upper_edges(), scores, side="left")
    edges = np.concatenate([upper_edges()[buckets], LOWER[buckets[buckets > 0]]])
    for q in probes(np.concatenate([scores, edges]), more.tolist()).tolist():
        low = sum(upper_edges()[b] <= q for b in buckets)
        high = sum(LOWER[b] < q for b in buckets)
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


def test_the_gap_of_equal_scores_is_not_what_is_stated() -> None:
    summary = sketch([0.3] * 100)
    assert summary.gap == 99
    assert [summary.count_at_most(q) for q in (0.2999, 0.3, 0.3001)] == [(0, 0), (100, 100), (100, 100)]
