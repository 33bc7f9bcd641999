"""The screen flags sites that are far from the rest, and drops nobody."""

from __future__ import annotations

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.privacy import screen
from tests.contracts.tools import refused


def sites(count: int, *, seed: int, kind: str = "ranks", spread: float = 0.0) -> list[fc.Summary]:
    rng = np.random.default_rng(seed)
    return [fc.Summary.of_scores(rng.normal(spread * k, 1, 200), kind=kind, site=f"site-{k}") for k in range(count)]


def flagged(summaries: list[fc.Summary]) -> list[str]:
    return [found.site for found in screen(summaries) if found.flagged]


@pytest.mark.parametrize("kind", ["exact", "ranks", "ddsketch"])
def test_alike_sites_are_not_flagged(kind: str) -> None:
    assert [flagged(sites(20, seed=seed, kind=kind)) for seed in range(5)] == [[]] * 5


@pytest.mark.parametrize("value", [-1e300, 0.3, 1e300])
def test_a_third_of_liars_is_flagged(value: float) -> None:
    liars = [fc.Summary.of_scores([value] * 200, site=f"liar-{k}") for k in range(6)]
    assert flagged([*sites(12, seed=1), *liars]) == [f"liar-{k}" for k in range(6)]


def test_where_sites_differ_more_is_needed() -> None:
    different = sites(12, seed=2, spread=0.3)
    shifted = fc.Summary.of_scores(np.random.default_rng(3).normal(4.0, 1, 200), site="shifted")
    assert flagged([*sites(12, seed=2), shifted]) == ["shifted"]
    assert "shifted" not in flagged([*different, shifted])


def test_sites_are_numbered_where_they_have_no_names() -> None:
    unnamed = [fc.Summary.of_scores([0.1, 0.2]) for _ in range(3)]
    assert [found.site for found in screen(unnamed)] == ["#1", "#2", "#3"]


def test_two_sites_and_pooled_ones_are_refused() -> None:
    a, b, c = sites(3, seed=0)
    for few in ([a, b], [fc.pool([a, b]), c]):
        with refused("three sites or more, none of them pooled"):
            screen(few)
