"""The contract of every kind of summary: the checks for plug-ins on any scores, and the library's own promises."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedconformal as fc
from fedconformal._base.arrays import Floats
from fedconformal.testing import check_summary
from tests.contracts.tools import KINDS, certified_kinds, checks, probes, refused, true_counts, vectors

every_kind = pytest.mark.parametrize("kind", sorted(KINDS))


def test_kinds_have_names_of_their_own() -> None:
    assert {name: cls.name for name, cls in KINDS.items()} == {name: name for name in KINDS}


@every_kind
@given(vectors(80), vectors(60), st.sampled_from([None, 0.1, 0.01, 0.5, 1e-15, 0.999]))
@checks(120)
def test_any_scores(kind: str, scores: Floats, more: Floats, alpha: float | None) -> None:
    check_summary(kind, scores, more, alpha=alpha)


@pytest.mark.parametrize("kind", sorted(certified_kinds()))
@given(st.lists(vectors(30), min_size=3, max_size=3))
@checks(30)
def test_pools_can_be_pooled(kind: str, sites: list[Floats]) -> None:
    a, b, c = (fc.Summary.of_scores(scores, kind=kind, site=name) for scores, name in zip(sites, "abc", strict=True))
    nested, scores = fc.pool([fc.pool([a, b]), c]), np.concatenate(sites)
    assert (nested.sizes, nested.sites) == (tuple(map(len, sites)), ("a", "b", "c"))
    assert nested.gap <= a.gap + b.gap + c.gap or kind == "ddsketch"
    q = probes(scores, nested.points.tolist())
    lower, upper = nested.bounds(q)
    assert ((lower <= true_counts(scores, q)) & (true_counts(scores, q) <= upper)).all()
    assert fc.Summary.from_bytes(nested.to_bytes()).to_bytes() == nested.to_bytes()


@pytest.mark.parametrize("kind", sorted(certified_kinds()))
def test_a_pool_of_large_sites_brackets_the_counts(kind: str) -> None:
    parts = np.random.default_rng(0).normal(size=(2, 700))
    pooled = fc.pool([fc.Summary.of_scores(part, kind=kind, site=site) for part, site in zip(parts, "ab", strict=True)])
    q = probes(parts.ravel())
    (lower, upper), truth = pooled.bounds(q), true_counts(parts.ravel(), q)
    assert ((lower <= truth) & (truth <= upper) & (upper - lower <= pooled.gap)).all()


@every_kind
def test_repr_tells_what_it_holds(kind: str) -> None:
    a, b = fc.Summary.of_scores([1.0, 2.0], kind=kind, site="a"), fc.Summary.of_scores([3.0], kind=kind, site="b")
    bare = fc.Summary.of_scores([1.0], kind=kind)
    assert repr(a) == f"<{kind} summary of 2 scores from site 'a'>"
    assert repr(fc.pool([a, b])) == f"<{kind} summary of 3 scores from 2 sites pooled>"
    assert repr(bare) == f"<{kind} summary of 1 scores from a summary without a site name>"


@every_kind
def test_a_summary_is_frozen_and_keeps_no_hold_of_its_input(kind: str) -> None:
    scores = np.array([0.3, 0.1, 0.2])
    summary = fc.Summary.of_scores(scores, kind=kind)
    data = summary.to_bytes()
    scores[:] = 9.0
    assert summary.to_bytes() == data
    with pytest.raises(dataclasses.FrozenInstanceError):
        summary.sizes = (4,)  # type: ignore[misc]
    with refused("NaN"):
        summary.count_at_most(float("nan"))


def test_ranks_are_whole_for_small_sites_and_below_900_bytes_for_others() -> None:
    assert fc.Summary.of_scores(np.random.default_rng(0).random(100), alpha=0.1).gap == 0
    for n in (500, 5_000, 1_000_000):
        scores = np.random.default_rng(n).random(n)
        assert len(fc.Summary.of_scores(scores, alpha=0.1, score=fc.RAPS(), site="clinic-a").to_bytes()) <= 900
