"""What every kind of summary there is must do."""

from __future__ import annotations

import dataclasses
import hashlib
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedconformal as fc
from fedconformal._base.arrays import Floats
from fedconformal.summaries.summary import digest_of
from tests.contracts.tools import (
    KINDS,
    certified_kinds,
    checks,
    probes,
    refused,
    says_a_gap,
    summary_examples,
    true_counts,
    vectors,
)

every_kind = pytest.mark.parametrize("kind", sorted(KINDS))
certified_kind = pytest.mark.parametrize("kind", sorted(certified_kinds()))
some_alphas = st.sampled_from([None, 0.1, 0.01, 0.5, 1e-15, 0.999])

ABOUT = {
    "score": fc.RAPS(randomized=True, random_state=2**63 - 1, penalty=0.5, free_ranks=3),
    "model": "sha256:" + "f" * 57,
    "temperature": 1.25,
}


def check_bounds(summary: fc.Summary, scores: Floats) -> None:
    """Compare with the scores that went in, wherever the count may change."""
    q = probes(scores, summary.points.tolist())
    lower, upper = summary.bounds(q)
    truth = true_counts(scores, q)
    assert lower.dtype == upper.dtype == np.int64
    assert (lower <= truth).all()
    assert (truth <= upper).all()
    assert (upper - lower <= summary.gap).all()
    assert (np.diff(lower) >= 0).all()
    assert (np.diff(upper) >= 0).all()
    assert lower[0] == 0
    assert (lower[-1], upper[-1]) == (len(scores), len(scores))
    for i in (0, len(q) // 2, len(q) - 1):
        assert summary.count_at_most(float(q[i])) == (int(lower[i]), int(upper[i]))


def check_round_trip(summary: fc.Summary) -> None:
    data = summary.to_bytes()
    again = fc.Summary.from_bytes(data)
    assert type(again) is type(summary)
    assert again.to_bytes() == data
    assert (again.sizes, again.sites, again.provenance, again.n) == (
        summary.sizes,
        summary.sites,
        summary.provenance,
        summary.n,
    )
    assert again.gap == summary.gap
    assert repr(again) == repr(summary)
    q = probes(summary.points)
    assert np.array_equal(np.stack(again.bounds(q)), np.stack(summary.bounds(q)))
    assert again.points.tobytes() == summary.points.tobytes()
    assert digest_of(again) == digest_of(summary) == hashlib.sha256(data).hexdigest()
    assert fc.Summary.from_bytes(bytearray(data)).to_bytes() == data  # type: ignore[arg-type]
    assert fc.Summary.from_bytes(memoryview(data)).to_bytes() == data  # type: ignore[arg-type]


def test_kinds_have_names_of_their_own() -> None:
    assert {name: cls.name for name, cls in KINDS.items()} == {name: name for name in KINDS}


@certified_kind
@given(vectors(80), some_alphas)
@checks(120)
def test_counts_are_bracketed(kind: str, scores: Floats, alpha: float | None) -> None:
    check_bounds(fc.Summary.of_scores(scores, kind=kind, alpha=alpha), scores)


@certified_kind
@pytest.mark.parametrize("size", [99, 100, 101, 999, 5000])
def test_counts_are_bracketed_at_larger_sites(kind: str, size: int) -> None:
    rng = np.random.default_rng(size)
    for scores in (rng.normal(size=size), rng.integers(0, 9, size).astype(float), np.full(size, 0.5)):
        check_bounds(fc.Summary.of_scores(scores, kind=kind, alpha=0.1), scores)


@certified_kind
def test_larger_sites_are_pooled_and_extended(kind: str) -> None:
    rng = np.random.default_rng(6)
    sites = [rng.normal(size=2000), rng.exponential(size=900), rng.integers(0, 50, 1500) / 25]
    parts = [fc.Summary.of_scores(scores, kind=kind, alpha=0.1, site=f"s{i}") for i, scores in enumerate(sites)]
    check_bounds(fc.pool(parts), np.concatenate(sites))
    check_round_trip(fc.pool(parts))
    more = rng.normal(size=700)
    check_bounds(parts[0].extend(more), np.concatenate([sites[0], more]))
    check_bounds(fc.pool([parts[0].extend(more), *parts[1:]]), np.concatenate([sites[0], more, *sites[1:]]))


@every_kind
@given(vectors(80), vectors(60))
@checks(60)
def test_counts_rise_from_nothing_to_all(kind: str, scores: Floats, more: Floats) -> None:
    """What estimates must do too."""
    summary = fc.Summary.of_scores(scores, kind=kind, alpha=0.1)
    other = fc.Summary.of_scores(more, kind=kind, site="b")
    for one in (summary, summary.extend(more), fc.pool([fc.Summary.of_scores(scores, kind=kind, site="a"), other])):
        everything = scores if one is summary else np.concatenate([scores, more])
        assert one.n == len(everything)
        lower, upper = one.bounds(probes(everything, one.points.tolist()))
        assert lower.dtype == upper.dtype == np.int64
        assert ((lower <= upper) & (upper - lower <= one.gap)).all()
        assert (np.diff(lower) >= 0).all()
        assert (np.diff(upper) >= 0).all()
        assert one.count_at_most(math.nextafter(everything.min(), -math.inf))[0] == 0
        assert one.count_at_most(everything.max()) == (one.n, one.n)
        assert one.points[-1] == everything.max()
        assert (one.points[1:] >= one.points[:-1]).all()


@every_kind
@given(vectors(60), vectors(60))
@checks(60)
def test_bytes_round_trip(kind: str, scores: Floats, more: Floats) -> None:
    summary = fc.Summary.of_scores(scores, kind=kind, alpha=0.1)
    check_round_trip(summary)
    check_round_trip(summary.extend(more))
    named = [fc.Summary.of_scores(part, kind=kind, site=f"site {i}") for i, part in enumerate((scores, more))]
    check_round_trip(fc.pool(named))


@every_kind
@pytest.mark.parametrize("site", [None, "clinic-a", "Krankenhaus Köln", "病院" * 32, "🏥"])
def test_what_a_summary_was_made_from_travels_along(kind: str, site: str | None) -> None:
    summary = fc.Summary.of_scores([0.5, 0.25, 2.0], kind=kind, site=site, alpha=0.1, **ABOUT)  # type: ignore[arg-type]
    for one in (summary, summary.extend([0.1, 0.5]), fc.pool([summary])):
        check_round_trip(one)
        assert dataclasses.asdict(one.provenance)["model"] == ABOUT["model"]
        assert (one.provenance.score, one.provenance.temperature) == (ABOUT["score"], ABOUT["temperature"])
        assert one.sites == (() if site is None else (site,))


@every_kind
@given(vectors(40), st.integers(0, 2**32 - 1))
@checks(40)
def test_the_order_of_rows_does_not_matter(kind: str, scores: Floats, seed: int) -> None:
    shuffled = np.random.default_rng(seed).permutation(scores)
    assert (
        fc.Summary.of_scores(shuffled, kind=kind, alpha=0.1).to_bytes()
        == fc.Summary.of_scores(scores, kind=kind, alpha=0.1).to_bytes()
    )


@every_kind
def test_minus_zero_is_zero(kind: str) -> None:
    left, right = fc.Summary.of_scores([-0.0, 1.0], kind=kind), fc.Summary.of_scores([0.0, 1.0], kind=kind)
    assert left.to_bytes() == right.to_bytes()
    assert left.extend([-0.0]).to_bytes() == right.extend([0.0]).to_bytes()


@certified_kind
@given(vectors(60), st.lists(vectors(30), min_size=1, max_size=4), some_alphas)
@checks(60)
def test_extending_is_concatenating(kind: str, first: Floats, more: list[Floats], alpha: float | None) -> None:
    summary = fc.Summary.of_scores(first, kind=kind, alpha=alpha, site="a", **ABOUT)  # type: ignore[arg-type]
    before = summary.to_bytes()
    grown = summary
    for part in more:
        grown = grown.extend(part)
    together = np.concatenate([first, *more])
    check_bounds(grown, together)
    assert (grown.sizes, grown.sites, grown.provenance) == ((len(together),), summary.sites, summary.provenance)
    assert summary.to_bytes() == before


@certified_kind
@given(st.lists(vectors(40), min_size=1, max_size=5), some_alphas)
@checks(60)
def test_pooling_is_concatenating(kind: str, sites: list[Floats], alpha: float | None) -> None:
    parts = [fc.Summary.of_scores(scores, kind=kind, alpha=alpha, site=f"s{i}") for i, scores in enumerate(sites)]
    pooled = fc.pool(parts)
    check_bounds(pooled, np.concatenate(sites))
    assert pooled.sizes == tuple(len(scores) for scores in sites)
    assert pooled.sites == tuple(f"s{i}" for i in range(len(sites)))
    if any(says_a_gap(part) for part in parts):
        assert pooled.gap <= sum(part.gap for part in parts)


@certified_kind
@given(st.lists(vectors(30), min_size=3, max_size=3), vectors(20))
@checks(30)
def test_poolers_can_be_pooled(kind: str, sites: list[Floats], more: Floats) -> None:
    a, b, c = (fc.Summary.of_scores(scores, kind=kind, site=name) for scores, name in zip(sites, "abc", strict=True))
    nested = fc.pool([fc.pool([a.extend(more), b]), c])
    check_bounds(nested, np.concatenate([sites[0], more, *sites[1:]]))
    check_round_trip(nested)
    assert (nested.sizes, nested.sites) == ((len(sites[0]) + len(more), len(sites[1]), len(sites[2])), ("a", "b", "c"))


@certified_kind
def test_a_site_may_grow_for_a_long_time(kind: str) -> None:
    rng = np.random.default_rng(1)
    scores = rng.normal(size=4200)
    first = summary = fc.Summary.of_scores(scores[:300], kind=kind, alpha=0.1, site="a")
    for start in range(300, 4200, 60):
        summary = summary.extend(scores[start : start + 60])
    check_bounds(summary, scores)
    check_round_trip(summary)
    if says_a_gap(first):
        assert summary.gap <= 0.05 * summary.n


@pytest.mark.long
@certified_kind
def test_a_summary_that_grew_every_day_can_still_be_sent(kind: str) -> None:
    rng = np.random.default_rng(0)
    summary = fc.Summary.of_scores(rng.random(1100), kind=kind, alpha=0.1)
    for _ in range(100 if kind == "exact" else 2200):
        summary = summary.extend(rng.random(1100))
    assert summary.gap < summary.n
    assert fc.Summary.from_bytes(summary.to_bytes()).n == summary.n


@certified_kind
def test_the_gap_is_known_before_the_scores(kind: str) -> None:
    rng = np.random.default_rng(2)
    for size in (1, 7, 250, 3000):
        gaps = {fc.Summary.of_scores(rng.normal(size=size), kind=kind, alpha=0.1).gap for _ in range(3)}
        gaps |= {fc.Summary.of_scores(np.zeros(size), kind=kind, alpha=0.1).gap}
        assert len(gaps) == 1


@every_kind
def test_repr_tells_what_it_holds(kind: str) -> None:
    a, b = fc.Summary.of_scores([1.0, 2.0], kind=kind, site="a"), fc.Summary.of_scores([3.0], kind=kind, site="b")
    assert repr(a) == f"<{kind} summary of 2 scores from site 'a'>"
    assert repr(fc.pool([a, b])) == f"<{kind} summary of 3 scores from 2 sites pooled>"
    assert (
        repr(fc.Summary.of_scores([1.0], kind=kind))
        == f"<{kind} summary of 1 scores from a summary without a site name>"
    )


@every_kind
def test_a_summary_is_frozen_and_keeps_no_hold_of_its_input(kind: str) -> None:
    scores = np.array([0.3, 0.1, 0.2])
    summary = fc.Summary.of_scores(scores, kind=kind)
    data = summary.to_bytes()
    scores[:] = 9.0
    assert summary.to_bytes() == data
    with pytest.raises(dataclasses.FrozenInstanceError):
        summary.sizes = (4,)  # type: ignore[misc]


@every_kind
def test_bad_growth_is_refused(kind: str) -> None:
    summary = fc.Summary.of_scores([0.1, 0.2], kind=kind, site="a")
    with refused("is empty"):
        summary.extend([])
    with refused("row 1", "nan"):
        summary.extend([0.1, np.nan])
    with refused("pooled"):
        fc.pool([summary, fc.Summary.of_scores([0.3], kind=kind, site="b")]).extend([0.4])


@every_kind
def test_a_count_at_nan_is_refused(kind: str) -> None:
    with refused("NaN"):
        fc.Summary.of_scores([0.1, 0.2], kind=kind).count_at_most(float("nan"))


def test_names_may_be_numpy_strings() -> None:
    site, model = np.array(["clinic-a", "m-1"])
    summary = fc.Summary.of_scores([0.1], site=site, model=model)
    assert fc.Summary.from_bytes(summary.to_bytes()).sites == ("clinic-a",)


@every_kind
def test_the_examples_of_a_kind_keep_its_promises(kind: str) -> None:
    for example in summary_examples(kind):
        check_round_trip(example)
        lower, upper = example.bounds(probes(example.points))
        assert ((lower >= 0) & (lower <= upper) & (upper <= example.n)).all()
        assert (np.diff(lower) >= 0).all()
        last = np.append(example.points[1:] != example.points[:-1], True)  # of points that are equal
        assert np.array_equal(example.lower_counts[last], example.bounds(example.points)[0][last])
        assert example.lower_counts[-1] == example.n
