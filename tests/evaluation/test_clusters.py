"""Rows that come in clusters: the interval is as wide as it has to be, and the plain one is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from fedconformal._base.arrays import Booleans, Integers
from fedconformal.evaluation.intervals import Sample, clopper_pearson, independent_rows
from tests.contracts.tools import refused
from tests.evaluation.certified import evaluated as evaluate

TRIALS = 400
HONEST = 0.93
SIZES: dict[str, Callable[[np.random.Generator, int], Integers]] = {
    "1 to 19": lambda rng, count: rng.integers(1, 20, count),
    "few large": lambda rng, count: np.where(rng.random(count) < 0.2, 41, 2),
}


def interval(covered: Booleans, clusters: Integers | None, **more: Any) -> tuple[float, float]:
    return Sample.of(covered, clusters=clusters, **more).coverage_interval()


def rows_of(rng: np.random.Generator, sizes: Integers, chance: float, alike: float) -> tuple[Booleans, Integers]:
    """Draw rows: a share `alike` of the clusters has one answer for all rows, the others one for each."""
    clusters = np.repeat(np.arange(len(sizes)), sizes)
    together, apart = rng.random(len(sizes)) < chance, rng.random(len(clusters)) < chance
    same = rng.random(len(sizes)) < alike
    return np.where(same[clusters], together[clusters], apart), clusters


def share_that_holds(
    make: Callable[[np.random.Generator], tuple[float, float]], truth: float, trials: int = TRIALS
) -> float:
    """Draw many times, and count how often the interval holds the truth."""
    rng = np.random.default_rng(0)
    found = [make(rng) for _ in range(trials)]
    return float(np.mean([low <= truth <= high for low, high in found]))


def test_ten_images_a_patient_make_the_plain_interval_a_lie() -> None:
    """With 20 patients of 10 images that are all hit or all missed, the exact share follows from the binomial."""
    patients, chance = np.arange(21), 0.95
    low, high = clopper_pearson(10 * patients, np.full(21, 200))
    holds = binom.pmf(patients, 20, chance)[(low <= chance) & (chance <= high)].sum()
    assert holds == pytest.approx(0.38, abs=0.005)
    clusters = np.repeat(np.arange(20), 10)
    found = [interval(clusters < hit, clusters) for hit in patients.tolist()]
    assert pytest.approx(np.array(clopper_pearson(patients, np.full(21, 20)))) == np.array(found).T


@pytest.mark.parametrize("count", [20, 200])
@pytest.mark.parametrize("sizes", SIZES)
def test_the_interval_holds_with_dependent_rows(count: int, sizes: str) -> None:
    def make(rng: np.random.Generator, alike: float = 1.0) -> tuple[float, float]:
        return interval(*rows_of(rng, SIZES[sizes](rng, count), 0.9, alike))

    def plain(rng: np.random.Generator) -> tuple[float, float]:
        return interval(rows_of(rng, SIZES[sizes](rng, count), 0.9, 1.0)[0], None)

    assert share_that_holds(make, 0.9) >= HONEST
    assert share_that_holds(lambda rng: make(rng, 0.3), 0.9) >= HONEST
    assert share_that_holds(plain, 0.9) < 0.6


@pytest.mark.parametrize("alike", [0.0, 1.0])
def test_a_mean_over_sites_holds(alike: float) -> None:
    chances, weights = np.array([0.7, 0.9, 0.99]), np.array([0.2, 0.5, 0.3])
    sites = np.repeat(np.arange(3), [150, 400, 100])

    def make(rng: np.random.Generator, *, clustered: bool = True) -> tuple[float, float]:
        counts = zip((15, 40, 10), chances.tolist(), strict=True)
        parts = [rows_of(rng, np.full(count, 10), p, alike) for count, p in counts]
        covered = np.concatenate([part for part, _ in parts])
        clusters = np.concatenate([100 * k + part for k, (_, part) in enumerate(parts)])
        return interval(covered, clusters if clustered else None, sites=sites, shares=weights)

    truth = float(chances @ weights)
    assert share_that_holds(make, truth) >= HONEST
    if alike == 0:
        assert share_that_holds(lambda rng: make(rng, clustered=False), truth, trials=40) >= HONEST


def test_a_mean_over_sites_holds_where_clusters_cross_them() -> None:
    """Every patient is at every site, and all or none of the rows are covered: sites are not independent."""
    clusters, sites = np.repeat(np.arange(20), 9), np.tile(np.repeat(np.arange(3), 3), 20)

    def make(rng: np.random.Generator, ids: Integers = clusters) -> tuple[float, float]:
        covered = (rng.random(20) < 0.9)[clusters]
        return interval(covered, ids, sites=sites, shares=np.array([0.2, 0.3, 0.5]))

    assert share_that_holds(make, 0.9) >= HONEST
    assert share_that_holds(lambda rng: make(rng, 3 * clusters + sites), 0.9) < HONEST


def test_evaluation_with_clusters() -> None:
    rng = np.random.default_rng(3)
    covered, clusters = rows_of(rng, rng.integers(1, 20, 30), 0.9, 1.0)
    sites = np.where(clusters < 20, "a", "b")
    plain, found = evaluate(covered, sites=sites), evaluate(covered, sites=sites, clusters=clusters.astype(str))
    assert "if rows are independent" in plain.interval_words
    assert "if clusters are independent" in found.interval_words
    assert (found.overall.low, found.overall.high) == pytest.approx(interval(covered, clusters), abs=1e-12)
    assert [group.clusters for group in [found.overall, *found.by_site]] == [30, 20, 10]
    assert {group.clusters for group in [plain.overall, *plain.by_site]} == {None}
    assert found.columns == ("rows", "clusters", "coverage", "95% interval", "mean size")
    assert len(found.columns) + 1 == len(found.overall.cells)
    assert (found.coverage, found.mean_size) == (plain.coverage, plain.mean_size)
    crossing = evaluate(covered, sites=np.where(np.arange(len(covered)) % 2, "a", "b"), clusters=clusters)
    assert crossing.overall.clusters == 30 < sum(group.clusters or 0 for group in crossing.by_site)


def test_one_cluster_is_worth_one_row() -> None:
    assert independent_rows(np.zeros(7, dtype=int)) == 1
    sites, weights = np.array([0, 0, 0, 1]), np.array([0.5, 0.5])  # the last row weighs as much as three others
    assert Sample.of(sites > 0, sites=sites, shares=weights, clusters=np.arange(4)).trials == pytest.approx([3])
    found = evaluate(np.ones(3, dtype=bool), clusters=["p", "p ", "p"]).overall  # as people read them, one
    assert found.clusters == 1
    assert (found.low, found.high) == pytest.approx((0.025, 1.0))


def test_bad_ids() -> None:
    for ids, expected in (([1, 2], "as there are 3 rows"), (["a", "b", ""], "row 2 has no id")):
        with refused("clusters: ", expected):
            evaluate(np.array([True, False, True]), clusters=ids)
