"""Classes that only some sites can hold: N_c + K_c, and nobody else may send rows of them."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

import fedconformal as fc
from fedconformal._base import registry
from fedconformal.evaluation import why_full
from tests.contracts.tools import refused

pytestmark = pytest.mark.filterwarnings(
    "ignore::fedconformal.errors.ClassCountsWarning", "ignore::fedconformal.errors.InfeasibleWarning"
)

NAMES = ("benign", "malignant")
SITES = ("a", "b", "c", "d", "e")


def rows(site: str, seed: int = 0) -> tuple[Any, Any]:
    """Thirty benign rows everywhere, and 12 malignant ones at two sites."""
    rng = np.random.default_rng([seed, SITES.index(site)])
    return rng.random(42 if site in "ab" else 30), np.repeat([0, 1], [30, 12])[: 42 if site in "ab" else 30]


def made() -> list[fc.Summary]:
    found = []
    for site in SITES:
        scores, labels = rows(site)
        about: dict[str, Any] = {"site": site, "classes": NAMES, "score": fc.LAC()}
        found.append(fc.summarize(scores, "exact", labels=labels, by_class=True, **about))
    return found


@pytest.mark.parametrize("label", ["malignant", 1])
@pytest.mark.parametrize("holders", ["ab", "abc", "abcde"])
def test_the_rank_is_among_those_that_can_hold_the_class(holders: str, label: Any) -> None:
    guarantee = fc.ByClass(holders={label: list(holders)})
    result = fc.calibrate(made(), alpha=0.1, guarantee=guarantee)
    held = np.sort(np.concatenate([rows(site)[0][30:] for site in "ab"]))
    rank = math.ceil(0.9 * (24 + len(holders)))
    assert result.certificate.classes is not None
    benign, malignant = result.certificate.classes
    assert (malignant.rank, malignant.rank_out_of) == (rank, 24 + len(holders))
    assert (benign.rank, benign.rank_out_of) == (math.ceil(0.9 * 155), 155)
    assert malignant.threshold == (held[rank - 1] if rank <= 24 else "inf")
    assert (malignant.threshold == "inf") == (len(holders) > 2)
    predictor = fc.Predictor.of(result)
    again = fc.Predictor.from_bytes(predictor.to_bytes())
    assert fc.verify(again, made()[::-1]) == []
    assert "only the stated sites can hold the classes" in again.certificate.assumption
    assert again.certificate.guarantee["holders"] == [[str(label), list(holders)]]


@pytest.mark.filterwarnings("always::fedconformal.errors.InfeasibleWarning")
def test_what_is_missing_is_missing_at_the_holders() -> None:
    """27 of the class for three sites; scores at a site that cannot hold it would be refused."""
    words = r"class malignant: .*needed: 3 more in all, at sites that can hold it: 'a', 'b', 'c' \(27 of it in all\)"
    with pytest.warns(fc.InfeasibleWarning, match=words):
        result = fc.calibrate(made(), alpha=0.1, guarantee=fc.ByClass(holders={1: list("abc")}))
    assert "at sites that can hold it: 'a', 'b', 'c'" in (why_full(result.certificate) or "")
    guarantee = fc.ByClass(fc.Mixture(weights="uniform"), holders={1: list("abc")})
    words = r"class malignant: .*needed: 7 more at site 'a', 7 more at site 'b', 19 more at site 'c'$"
    with pytest.warns(fc.InfeasibleWarning, match=words):  # 19/20 of the weight, with one stand-in a site
        fc.calibrate(made(), alpha=0.05, guarantee=guarantee)


def test_other_weights_and_pooled_holders() -> None:
    weights = (0.5, 0.2, 0.1, 0.1, 0.1)
    guarantee = fc.ByClass(fc.Mixture(weights=weights), holders={1: ["a", "b"]})
    result = fc.calibrate(made(), alpha=0.2, guarantee=guarantee).threshold
    inner = [fc.summarize(rows(site)[0][30:], "exact") for site in "ab"]
    # Of the class alone, with the weights over all rows of a site: w_k = lambda_k / 43.
    scores = np.unique(np.concatenate([rows(site)[0][30:] for site in "ab"]))
    shares = [
        (0.5 * a.count_at_most(q)[0] + 0.2 * b.count_at_most(q)[0]) / (0.7 * 13) for q in scores for a, b in [inner]
    ]
    assert np.asarray(result)[1] == scores[np.flatnonzero(np.array(shares) >= 0.8)[0]]
    a, b, c, d, e = made()
    holders = fc.ByClass(holders={1: ["a", "b"]})
    alone = fc.calibrate([a, b, c, d, e], alpha=0.1, guarantee=holders).threshold
    assert np.array_equal(np.asarray(fc.calibrate([fc.pool([a, b]), c, d, e], guarantee=holders).threshold), alone)
    with refused("site 'c' is not among the sites that can hold class malignant"):
        fc.calibrate([a, fc.pool([b, c]), d, e], guarantee=holders)


@pytest.mark.parametrize(
    ("holders", "problem"),
    [
        ({}, "holders: expected the sites of a class"),
        (3, "holders: expected the sites of a class"),
        ({"malignant": "a"}, "expected a list of site names"),
        ({"malignant": [1]}, "expected a list of site names"),
        ({"malignant": []}, "or it has no site"),
        ({"malignant": ["a", "a "]}, "there twice"),
        ({-1: ["a"]}, "is not the name of a class"),
    ],
    ids=repr,
)
def test_bad_lists_are_refused(holders: Any, problem: str) -> None:
    with refused(problem):
        fc.ByClass(holders=holders)


@pytest.mark.parametrize(
    ("holders", "problem"),
    [
        ({"malignant": ["a"]}, "site 'b' is not among the sites that can hold class malignant, and sent rows of it"),
        ({"malignant": ["a", "b", "x"]}, "holders: no site is called 'x'; there are a, b, c, d, e"),
        ({"odd": ["a"]}, "holders: no class is called 'odd'; there are benign, malignant"),
        ({"malignant": ["a", "b"], 1: ["a", "b"]}, "holders: class 1 is there twice, by name and by number"),
    ],
    ids=repr,
)
def test_lists_that_do_not_fit_are_refused(holders: Any, problem: str) -> None:
    sites = made()
    with refused(problem):
        fc.calibrate(sites, guarantee=fc.ByClass(holders=holders))


def test_only_around_a_mixture_and_old_files_stay_as_they_are() -> None:
    with refused("holders goes with mixture"):
        fc.ByClass(fc.EveryClient(), holders={0: ["a"]})
    assert "holders" not in fc.ByClass().to_dict()
    described = json.loads(json.dumps(fc.ByClass(holders={1: ["a"]}).to_dict()))
    assert registry.build(described, fc.Guarantee) == fc.ByClass(holders={"1": ("a",)})


def test_the_verdict_knows_the_rank_that_was_used() -> None:
    holders = fc.ByClass(holders={1: ["a", "b"]})
    predictors = [fc.Predictor.of(fc.calibrate(made(), alpha=0.2, guarantee=one)) for one in (holders, fc.ByClass())]
    rng = np.random.default_rng(1)
    probs, labels = rng.dirichlet([1, 1], 200), np.repeat(NAMES, 100)
    limits = []
    for predictor in predictors:
        verdict = predictor.evaluate(probs, labels).verdict
        assert verdict is not None
        limits.append({part.name: part.limit for part in verdict.parts})
    assert limits[0]["class malignant"] > limits[1]["class malignant"]
    assert limits[0]["class benign"] == limits[1]["class benign"]
