"""Rows that come in clusters: the interval is as wide as it has to be, and the plain one is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.stats import beta, binom, t

from fedconformal._base.arrays import Booleans, Integers
from fedconformal.evaluation.intervals import clopper_pearson, clustered_interval
from tests.contracts.tools import refused
from tests.evaluation.certified import evaluated as evaluate

TRIALS = 400
HONEST = 0.93
SIZES: dict[str, Callable[[np.random.Generator, int], Integers]] = {
    "ten each": lambda _, count: np.full(count, 10),
    "1 to 19": lambda rng, count: rng.integers(1, 20, count),
    "few large": lambda rng, count: np.where(rng.random(count) < 0.2, 41, 2),
}


def rows_of(rng: np.random.Generator, sizes: Integers, chance: float, alike: float) -> tuple[Booleans, Integers]:
    """Draw rows: a share `alike` of the clusters has one answer for all rows, the others one for each."""
    clusters = np.repeat(np.arange(len(sizes)), sizes)
    together, apart = rng.random(len(sizes)) < chance, rng.random(len(clusters)) < chance
    same = rng.random(len(sizes)) < alike
    return np.where(same[clusters], together[clusters], apart), clusters


def share_that_holds(make: Callable[[np.random.Generator], Any], truth: float) -> float:
    """Draw many times, and count how often the interval holds the truth."""
    rng = np.random.default_rng(0)
    found = [make(rng) for _ in range(TRIALS)]
    return float(np.mean([low <= truth <= high for low, high in found]))


def test_ten_images_a_patient_make_the_plain_interval_a_lie() -> None:
    """With 20 patients of 10 images that are all hit or all missed, the exact share follows from the binomial."""
    patients, chance = np.arange(21), 0.95
    low, high = clopper_pearson(10 * patients, np.full(21, 200))
    holds = binom.pmf(patients, 20, chance)[(low <= chance) & (chance <= high)].sum()
    assert holds == pytest.approx(0.38, abs=0.005)
    clusters = np.repeat(np.arange(20), 10)
    found = [clustered_interval(clusters < hit, clusters) for hit in patients.tolist()]
    kept = [one is not None and one[0] <= chance <= one[1] for one in found]
    assert binom.pmf(patients, 20, chance)[kept].sum() >= HONEST


@pytest.mark.parametrize("count", [20, 50, 200])
@pytest.mark.parametrize("sizes", SIZES)
def test_the_interval_holds_with_dependent_rows(count: int, sizes: str) -> None:
    def make(rng: np.random.Generator, alike: float = 1.0) -> Any:
        return clustered_interval(*rows_of(rng, SIZES[sizes](rng, count), 0.9, alike))

    def plain(rng: np.random.Generator) -> Any:
        covered, _ = rows_of(rng, SIZES[sizes](rng, count), 0.9, 1.0)
        return clopper_pearson(np.array(covered.sum()), np.array(len(covered)))

    assert share_that_holds(make, 0.9) >= HONEST
    assert share_that_holds(plain, 0.9) < 0.6
    if (count, sizes) == (200, "1 to 19"):
        assert share_that_holds(lambda rng: make(rng, 0.0), 0.9) >= HONEST
        assert share_that_holds(lambda rng: make(rng, 0.3), 0.9) >= HONEST


def test_the_interval_holds_if_large_clusters_are_more_alike_than_small_ones() -> None:
    """How alike rows are counts by pairs, so that large clusters weigh as much as they do in the variance."""
    clusters = np.repeat(np.arange(440), np.repeat([100, 10], [40, 400]))

    def make(rng: np.random.Generator) -> Any:
        covered = np.where(clusters < 40, (rng.random(440) < 0.9)[clusters], rng.random(len(clusters)) < 0.9)
        return clustered_interval(covered, clusters)

    assert share_that_holds(make, 0.9) >= HONEST


def by_hand(sizes: list[int], hits: list[int]) -> tuple[float, float]:
    """Compute the clustered interval, one number at a time."""
    rows, count = sum(sizes), len(sizes)
    p = sum(hits) / rows
    squares = sum(n * n for n in sizes)
    variance = count / (count - 1) * sum((h - n * p) ** 2 for n, h in zip(sizes, hits, strict=True)) / rows**2
    differ = sum(h * (n - h) for n, h in zip(sizes, hits, strict=True)) / (squares - rows)
    alike = min(1, max(0, 1 - differ / (p * (1 - p) * count / (count - 1))))
    worth = min(p * (1 - p) / variance, rows / (1 + alike * (squares / rows - 1)))
    worth *= (t.ppf(0.975, rows - 1) / t.ppf(0.975, rows**2 / squares - 1)) ** 2
    return beta.ppf(0.025, p * worth, (1 - p) * worth + 1), beta.ppf(0.975, p * worth + 1, (1 - p) * worth)


@pytest.mark.parametrize(
    ("sizes", "hits"),
    [
        ([10, 10, 10, 10], [9, 10, 7, 10]),
        ([3, 1, 8, 20, 2], [2, 1, 8, 17, 2]),
        ([41, 2, 2, 2, 2, 41], [41, 0, 2, 2, 2, 40]),
        ([5, 5, 50], [5, 5, 0]),
        ([30, 30, 30, *[2] * 20], [0, 0, 30, *[2] * 20]),  # large ones are missed more: the variance between counts
    ],
)
def test_by_hand(sizes: list[int], hits: list[int]) -> None:
    covered = np.concatenate([np.arange(n) < h for n, h in zip(sizes, hits, strict=True)])
    found = clustered_interval(covered, np.repeat(np.arange(len(sizes)), sizes))
    assert found == pytest.approx(by_hand(sizes, hits), abs=1e-9)


def test_a_few_small_misses_do_not_make_it_narrow() -> None:
    """One patient of one image missed among 20: the variance between clusters alone would say 1 row of 210."""
    clusters = np.repeat(np.arange(20), [1] + [11] * 19)
    found = clustered_interval(clusters > 0, clusters)
    assert found is not None
    assert found[0] < clopper_pearson(np.array(19), np.array(20))[0] + 0.05
    assert found[1] == pytest.approx(1.0, abs=1e-3)


def test_rows_that_are_independent_cost_little() -> None:
    rng = np.random.default_rng(1)
    covered, clusters = rows_of(rng, np.full(200, 10), 0.9, 0.0)
    low, high = (float(end) for end in clopper_pearson(np.array(covered.sum()), np.array(2000)))
    found = clustered_interval(covered, clusters)
    assert found is not None
    assert found[1] - found[0] < 1.25 * (high - low)
    alone = clustered_interval(covered, np.arange(2000))
    assert alone is not None
    assert (alone[0], alone[1]) == pytest.approx((low, high), abs=1e-3)


def test_all_covered_is_worth_as_many_rows_as_there_are_clusters() -> None:
    clusters = np.repeat(np.arange(30), 10)
    found = clustered_interval(np.ones(300, dtype=bool), clusters)
    assert found is not None
    (low,), _ = clopper_pearson(np.array([30]), np.array([30]))
    assert low - 0.02 < found[0] <= low
    assert found[1] == 1.0
    missed = clustered_interval(np.zeros(300, dtype=bool), clusters)
    assert missed is not None
    assert missed == pytest.approx((0.0, 1 - found[0]))


@pytest.mark.parametrize("alike", [0.0, 1.0])
def test_a_mean_over_sites_holds(alike: float) -> None:
    chances, weights = np.array([0.7, 0.9, 0.99]), np.array([0.2, 0.5, 0.3])

    def make(rng: np.random.Generator) -> Any:
        parts = [
            rows_of(rng, np.full(count, 10), float(p), alike) for count, p in zip((15, 40, 10), chances, strict=True)
        ]
        covered = np.concatenate([part for part, _ in parts])
        clusters = np.concatenate([100 * k + part for k, (_, part) in enumerate(parts)])
        sites = np.repeat(np.arange(3), [150, 400, 100])
        return clustered_interval(covered, clusters, sites=sites, weights=weights)

    assert share_that_holds(make, float(chances @ weights)) >= HONEST


def test_a_mean_over_sites_holds_where_a_site_has_three_rows() -> None:
    """Three rows that are covered do not say that the site always is."""

    def make(rng: np.random.Generator) -> Any:
        sites = np.repeat([0, 1], [3, 300])
        return clustered_interval(rng.random(303) < 0.9, np.arange(303), sites=sites, weights=np.array([0.5, 0.5]))

    assert share_that_holds(make, 0.9) >= HONEST


@pytest.mark.parametrize("rows", [1, 3])
def test_a_mean_over_sites_holds_where_clusters_cross_them(rows: int) -> None:
    """Every patient is at every site, and all or none of the rows are covered: sites are not independent."""
    clusters, sites = np.repeat(np.arange(20), 3 * rows), np.tile(np.repeat(np.arange(3), rows), 20)

    def make(rng: np.random.Generator, ids: Integers = clusters) -> Any:
        covered = (rng.random(20) < 0.9)[clusters]
        return clustered_interval(covered, ids, sites=sites, weights=np.array([0.2, 0.3, 0.5]))

    assert share_that_holds(make, 0.9) >= HONEST
    assert share_that_holds(lambda rng: make(rng, 3 * clusters + sites), 0.9) < HONEST


def test_one_site_is_no_special_case() -> None:
    rng = np.random.default_rng(2)
    covered, clusters = rows_of(rng, rng.integers(1, 20, 40), 0.9, 0.5)
    sites = np.zeros(len(covered), dtype=np.int64)
    weighted = clustered_interval(covered, clusters, sites=sites, weights=np.ones(1))
    assert weighted == clustered_interval(covered, clusters)


def test_evaluation_with_clusters() -> None:
    rng = np.random.default_rng(3)
    covered, clusters = rows_of(rng, np.full(30, 10), 0.9, 1.0)
    names = np.array([f"patient {k:02}" for k in clusters])  # in the order of the numbers: sums are the same to the bit
    sites = np.where(clusters < 20, "a", "b")
    plain, found = evaluate(covered, sites=sites), evaluate(covered, sites=sites, clusters=names)
    assert plain.interval_assumes == "rows are independent"
    assert found.interval_assumes == "clusters are independent"
    assert "if rows are independent" in plain.interval_words
    assert "if clusters are independent" in found.interval_words
    # Other names, another order of adding up.
    assert (found.overall.low, found.overall.high) == pytest.approx(clustered_interval(covered, clusters), abs=1e-12)
    assert [group.clusters for group in [found.overall, *found.by_site]] == [30, 20, 10]
    assert (found.by_site[1].low, found.by_site[1].high) == clustered_interval(covered[200:], clusters[200:])
    assert {group.clusters for group in [plain.overall, *plain.by_site]} == {None}
    assert found.columns == ("rows", "clusters", "coverage", "95% interval", "mean size")
    assert len(found.columns) + 1 == len(found.overall.cells)
    assert len(plain.columns) + 1 == len(plain.overall.cells)
    assert (found.coverage, found.mean_size) == (plain.coverage, plain.mean_size)


def test_a_cluster_at_two_sites_is_one_over_all_and_one_at_each() -> None:
    covered = np.array([True, True, False, True, True, False])
    found = evaluate(covered, sites=list("ababab"), clusters=[1, 1, 2, 2, 3, 3])
    assert [group.clusters for group in [found.overall, *found.by_site]] == [3, 3, 3]
    assert "rows in several groups counts in each, and once over all rows" in found.interval_words


def test_one_cluster_has_no_interval() -> None:
    found = evaluate(np.array([True, False, True]), sites=["a", "a", "b"], clusters=["p", "p", "q"])
    assert found.overall.low is not None
    assert [(group.low, group.high, group.clusters) for group in found.by_site] == [(None, None, 1)] * 2
    assert found.by_site[0].cells[-2] == "none (one cluster)"
    alone = evaluate(np.array([True, False]), clusters=[7, 7])
    assert (alone.overall.low, alone.overall.high) == (None, None)
    assert alone.to_dict()["overall"]["low"] is None


def test_ids_that_only_look_different_are_one_cluster() -> None:
    covered = np.array([True, False, True, True])
    for ids in (["a", "a ", "b", "b"], ["a", "\uff41", "b", "b\t"], [0.0, 0.0, 1.0, 1.0], [False, False, True, True]):
        found = evaluate(covered, clusters=ids)
        assert found.overall.clusters == 2


def test_bad_ids() -> None:
    for ids, expected in (([1, 2], "as there are 3 rows"), (["a", "b", ""], "row 2 has no id")):
        with refused("clusters: ", expected):
            evaluate(np.array([True, False, True]), clusters=ids)
