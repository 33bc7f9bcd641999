"""A threshold for each site, where the site of a row is given at prediction."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import numpy as np
import pytest

import fedconformal as fc
from tests.contracts.tools import altered, maybe_infeasible, refused

SIZES = {"a": 60, "b": 19, "few": 8}
"""At alpha = 0.1 the third has too few."""
PROBS = np.random.default_rng(1).dirichlet([1.0] * 4, 12)
ROWS = np.array(list("aabb") * 3)


def sites(score: Any = None) -> list[fc.Summary]:
    rng, score = np.random.default_rng(3), fc.LAC() if score is None else score
    middle = 0.0 if score.lower_share is None else 0.5
    return [
        fc.Summary.of_scores((rng.random(n) - middle) * (1 + k), kind="exact", site=site, score=score)
        for k, (site, n) in enumerate(SIZES.items())
    ]


def made(score: Any = None, alpha: float = 0.1, *, exact: bool = False) -> Any:
    with maybe_infeasible():
        return fc.calibrate(sites(score), alpha=alpha, guarantee=fc.EverySite(), exact=exact)


def rank_of(n: int, alpha: float = 0.1) -> int:
    return math.ceil(round((1 - alpha) * (n + 1), 9))


def test_every_threshold_is_the_rank_among_the_sites_own_scores() -> None:
    predictor = made(exact=True)
    for summary in sites():
        (site,), n = summary.sites, summary.n
        points = np.sort(summary.points)
        expected = points[rank_of(n) - 1] if rank_of(n) <= n else math.inf
        assert predictor.thresholds[site] == expected
        with maybe_infeasible():
            assert predictor.threshold_at(site=site) == expected
    records = [one for (one,) in predictor.certificate.parts.values()]
    ranks = [(one.site, one.scores, one.rank, one.rank_out_of) for one in records]
    assert ranks == [("a", 60, 55, 61), ("b", 19, 18, 20), ("few", 8, 9, 9)]
    bands = [(one.coverage_at_least, one.coverage_at_most) for one in records]
    assert bands == [(55 / 61, 55 / 61), (0.9, 0.9), (1.0, 1.0)]
    assert predictor.certificate.threshold == float("inf")  # the largest, for a row whose site is not known


def test_a_row_takes_the_threshold_of_its_site() -> None:
    predictor = made()
    sets = predictor.predict_set(PROBS, sites=ROWS, allow_empty=True)
    p = predictor.predict_p(PROBS, sites=ROWS)
    for site in "ab":
        mine = site == ROWS
        alone = fc.calibrate([one for one in sites() if one.sites == (site,)], alpha=0.1)
        assert np.array_equal(sets[mine], alone.predict_set(PROBS[mine], allow_empty=True))
        assert np.array_equal(p[mine], alone.predict_p(PROBS[mine]))
        assert np.array_equal(predictor.predict_set(PROBS, sites=site), alone.predict_set(PROBS))
    for alpha in (0.1, 0.2, 0.35):
        at = predictor.predict_set(PROBS, sites=ROWS, alpha=alpha, allow_empty=True)
        assert np.array_equal(at, p > alpha)


def test_no_rows_have_no_sets() -> None:
    assert made().predict_set(PROBS[:0], sites=ROWS[:0]).shape == (0, 4)
    assert made(fc.Residual()).predict_interval([], sites=ROWS[:0]).shape == (0, 2)


def test_without_sites_the_largest_threshold_counts() -> None:
    predictor = made(alpha=0.2, exact=True)
    assert predictor.threshold == max(predictor.thresholds.values()) < math.inf
    everywhere = [predictor.predict_set(PROBS, sites=site) for site in SIZES]
    assert np.array_equal(predictor.predict_set(PROBS), np.any(everywhere, axis=0))
    each = [predictor.predict_p(PROBS, sites=site) for site in SIZES]
    assert np.array_equal(predictor.predict_p(PROBS), np.max(each, axis=0))


def test_a_site_with_too_few_scores_is_named() -> None:
    with pytest.warns(fc.InfeasibleWarning, match=r"to every site, so every label.*needed: 1 more at site 'few'"):
        predictor = fc.calibrate(sites(), alpha=0.1, guarantee=fc.EverySite())
    with pytest.warns(fc.InfeasibleWarning, match="cannot be promised to few, where every label is in every set"):
        assert predictor.predict_set(PROBS[:2], sites=["a", "few"])[1].all()
    predictor.predict_set(PROBS, sites=ROWS)  # where a warning is an error


@pytest.mark.parametrize("sites_", [["a", "x"], "x", ["a"], [None, "a"], [["a"], ["b"]] * 2])
def test_unknown_sites_are_refused(sites_: Any) -> None:
    for predictor, given in ((made(), PROBS[:2]), (made(fc.Residual()), [1.0, 2.0])):
        ask = predictor.predict_interval if predictor.certificate.intervals else predictor.predict_set
        with refused("sites: "):
            ask(given, sites=sites_)
    with refused("row 1 is of x", param="sites"):
        made().predict_p(PROBS[:2], sites=["a", "x"])


def test_one_threshold_for_all_takes_no_sites() -> None:
    other = fc.calibrate(sites())
    with refused(param="sites"):
        other.predict_set(PROBS, sites=ROWS)
    assert other.thresholds == {}
    found = other.evaluate(PROBS, np.zeros(12, dtype=int), sites=ROWS)  # which groups by them
    assert [group.name for group in found.by_site] == ["a", "b"]


@pytest.mark.parametrize("score", [fc.Residual(), fc.Signed()], ids=repr)
def test_intervals_of_a_site(score: Any) -> None:
    predictor, given = made(score), np.linspace(-3, 3, 12)
    found = predictor.predict_interval(given, sites=ROWS)
    for site in "ab":
        mine = site == ROWS
        with maybe_infeasible():
            alone = fc.calibrate([one for one in sites(score) if one.sites == (site,)])
            assert np.array_equal(found[mine], alone.predict_interval(given[mine]))
            ends = alone.thresholds
            assert predictor.thresholds[site] == (tuple(ends.values()) if ends else alone.threshold)
    y = given + 0.1
    inside = (found[:, 0] <= y) & (y <= found[:, 1])
    assert predictor.evaluate(given, y, sites=ROWS).coverage == inside.mean()


@pytest.mark.parametrize("score", [fc.LAC(), fc.Residual(), fc.Signed()], ids=repr)
def test_it_is_saved_and_verified(score: Any) -> None:
    predictor = made(score)
    again = type(predictor).from_bytes(predictor.to_bytes())
    assert again.to_bytes() == predictor.to_bytes()
    assert again.thresholds == predictor.thresholds
    assert fc.verify(again, sites(score)) == []
    promises = predictor.certificate.promises
    for change in ({"scores": 61}, {"rank": 54}, {"coverage_at_least": 0.95}, {"slack": 0.5}):
        forged = [*promises[:-1], msgspec.structs.replace(promises[-1], **change)]
        (problem,) = fc.verify(altered(predictor, promises=forged), sites(score))
        assert problem.startswith(f"promises[{len(promises) - 1}].")


@pytest.mark.parametrize("seed", range(5))
def test_a_row_without_a_site_gets_no_smaller_a_set_than_with_any_site(seed: int) -> None:
    rng = np.random.default_rng(seed)
    own = [
        fc.Summary.of_scores(rng.beta(2, rng.uniform(1, 9), size=rng.integers(20, 400)), site=f"s{k}", score="lac")
        for k in range(5)
    ]
    predictor = fc.calibrate(own, alpha=0.1, guarantee="every-site")
    assert predictor.threshold >= max(predictor.thresholds.values())
    for alpha in (0.05, 0.2):
        with maybe_infeasible():
            every = [predictor.threshold_at(alpha, site=site) for site in (None, *predictor.thresholds)]
        assert every[0] >= max(every[1:])
