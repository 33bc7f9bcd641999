"""The planner: what can be had from sites of these sizes, and what is missing."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedconformal as fc
from fedconformal.guarantees.guarantee import feasible
from tests.contracts.tools import alphas, checks, maybe_infeasible, one_curve, refused

GUARANTEES: dict[str, fc.Guarantee] = {
    "mixture": fc.Mixture(),
    "mixture uniform": fc.Mixture(weights="uniform"),
    "fcp": fc.FCP(),
    "every-site": fc.EverySite(),
    "worst-case d=0.1": fc.WorstCase(contamination=0.1),
    "new-site": fc.NewSite(),
    "pac 0.05": fc.PAC(),
}


def test_by_hand() -> None:
    found = fc.plan(alpha=0.1, sizes=[200, 50, 5])
    assert (found.alpha, found.sizes) == (0.1, [200, 50, 5])
    rows = {option.guarantee: option for option in found.options}
    assert list(rows) == [*GUARANTEES, "one-site #1", "one-site #2", "one-site #3"]
    assert [option.feasible for option in found.options] == [
        True,
        True,
        True,
        False,
        True,
        False,
        True,
        True,
        True,
        False,
    ]
    mixture = rows["mixture"]
    assert (mixture.rank, mixture.rank_out_of) == (231, 255)  # ceil(.9 * 255) + 1
    assert (mixture.coverage_at_least, mixture.coverage_at_most) == (230 / 255, 231 / 255)
    assert mixture.expected_coverage == 231 / 256
    assert rows["mixture uniform"].expected_coverage is None
    assert mixture.smallest_alpha == pytest.approx(1 / 255)
    assert rows["one-site #3"].missing == "calibration scores needed: 4 more at site '#3'"
    assert rows["one-site #3"].smallest_alpha == pytest.approx(1 / 6)
    assert rows["mixture uniform"].coverage_at_most == pytest.approx(0.9 + (1 / 201 + 1 / 51 + 1 / 6) / 3)
    assert found.condition.endswith("rank 231 of N = 255, which is enough")


def test_the_condition_of_the_theorem() -> None:
    assert "mixture needs 1/alpha = 10 scores in all:" in fc.plan(alpha=0.1, sizes=[5, 5]).condition
    assert fc.plan(alpha=0.1, sizes=[5, 5]).condition.endswith("which is enough")
    assert fc.plan(alpha=0.1, sizes=[5, 4]).condition.endswith("which is too few")
    assert fc.plan(alpha="0.1", sizes=[5, 4]).options[0].missing.endswith("1 more in all, at any site")


@given(st.lists(st.integers(1, 40), min_size=1, max_size=4), alphas)
@checks(60)
def test_the_plan_is_what_calibration_then_gives(sizes: list[int], alpha: Fraction) -> None:
    found = fc.plan(alpha=alpha, sizes=sizes)
    names = [f"#{k + 1}" for k in range(len(sizes))]
    sites = [fc.Summary.of_scores(np.arange(n), kind="exact", site=name) for n, name in zip(sizes, names, strict=True)]
    for option in found.options:
        guarantee = GUARANTEES.get(option.guarantee) or fc.OneSite(site=option.guarantee.removeprefix("one-site "))
        with maybe_infeasible():
            result = fc.calibrate(sites, alpha=alpha, guarantee=guarantee, exact=True)
        about = result.certificate
        assert option.feasible == (result.threshold < np.inf) == (not option.missing)
        assert (option.rank, option.rank_out_of) == (about.promises[0].rank, about.promises[0].rank_out_of)
        assert (option.coverage_at_least, option.coverage_at_most) == (about.coverage_at_least, about.coverage_at_most)
        assert option.smallest_alpha == pytest.approx(float(1 - one_curve(result).coverage(np.inf)))
        assert option.feasible == (alpha >= 1 - guarantee.bind(names, sizes).promised(sizes, sizes))
        assert option.feasible or re.search(r"\d+ more", option.missing)


def test_scores_or_sites_are_missing() -> None:
    rows = {option.guarantee: option for option in fc.plan(alpha=0.05, sizes=[20, 20]).options}
    assert rows["pac 0.05"].missing == "calibration scores needed: 19 more in all, at any site"
    assert rows["new-site"].missing == "sites needed: 17 more, from the same population"
    assert rows["new-site"].smallest_alpha == pytest.approx(1 / 3)


def test_the_set_of_mixtures_and_the_failure_rate_can_be_chosen() -> None:
    sets = {
        "worst-case tv=0.2": fc.WorstCase(total_variation=0.2),
        "worst-case box": fc.WorstCase(box=(0.2, 0.8)),
        "worst-case polytope": fc.WorstCase(polytope=([[1, 0]], [0.5])),
        "worst-case any": fc.WorstCase(),
    }
    for name, worst_case in sets.items():
        found = fc.plan(alpha=0.1, sizes=[30, 40], worst_case=worst_case, pac=fc.PAC(failure=0.01))
        assert [option.guarantee for option in found.options][4:7] == [name, "new-site", "pac 0.01"]
        assert found.notes == []
    with refused("box: 3 bounds were given for 2 sites"):
        fc.plan(alpha=0.1, sizes=[30, 40], worst_case=fc.WorstCase(box=((0, 0, 0), 1)))


def test_a_pilot_gives_set_sizes() -> None:
    rng = np.random.default_rng(6)
    probs = rng.dirichlet([0.5] * 5, size=10000)
    labels = (probs.cumsum(axis=1) > rng.random((10000, 1))).argmax(axis=1)
    pilot = fc.FederatedConformalClassifier(score=fc.LAC()).calibrate([(probs[:4000], labels[:4000])]).predictor
    sizes = [2000, 2000, 2000]
    found = fc.plan(alpha=0.1, sizes=sizes, pilot=pilot, probs=probs)
    assert "estimates" in found.notes[-1]
    rest = [(probs[start : start + 2000], labels[start : start + 2000]) for start in (4000, 6000, 8000)]
    for option in found.options[:7]:
        guarantee = GUARANTEES[option.guarantee]
        with maybe_infeasible():
            real = fc.FederatedConformalClassifier(score=fc.LAC(), guarantee=guarantee).calibrate(rest)
            assert option.mean_size == pytest.approx(real.predict_set(probs).sum(axis=1).mean(), abs=0.1)
    assert found.options[5].mean_size == 5  # new-site needs more sites, so every label is in the set
    with refused("no rows"):
        fc.plan(alpha=0.1, sizes=sizes, pilot=pilot, probs=probs[:0])
    with refused("a pilot predictor and probabilities go together"):
        fc.plan(alpha=0.1, sizes=sizes, pilot=pilot)


def test_sites_have_their_names() -> None:
    found = fc.plan(alpha=0.1, sizes=[3, 20], sites=["north", "south"])
    assert found.options[-2].guarantee == "one-site north"
    assert found.options[-2].missing.endswith("6 more at site 'north'")


def test_it_is_plain_json() -> None:
    stated = fc.plan(alpha=0.1, sizes=[200, 50, 5]).to_dict()
    assert json.loads(json.dumps(stated, allow_nan=False)) == stated


@pytest.mark.parametrize("sizes", [[], [0], [-1], [5, 0], [2.5], ["a"], ["5"], [None], [float("nan")], [float("inf")]])
def test_bad_sizes(sizes: Any) -> None:
    with refused("sizes"):
        fc.plan(alpha=0.1, sizes=sizes)


@pytest.mark.parametrize("sites", [[], ["a"], ["a", "b", "c"]])
def test_bad_names(sites: Any) -> None:
    with refused("site"):
        fc.plan(alpha=0.1, sizes=[3, 4], sites=sites)


@pytest.mark.parametrize("alpha", [0, 1, -1, "x", float("nan")])
def test_bad_alphas(alpha: Any) -> None:
    with refused("alpha is "):
        fc.plan(alpha=alpha, sizes=[5])


@pytest.mark.parametrize(("alpha", "enough"), [(0.1, 10), (0.05, 20), (0.3, 4)])
@pytest.mark.parametrize("sites", [1, 20])
def test_what_every_class_takes(alpha: float, enough: int, sites: int) -> None:
    """As `ByClass` finds it: with as many scores of a class there is a threshold, with one less over several none."""
    assert f"takes {enough} scores in all" in fc.plan(alpha=alpha, sizes=[50] * sites).by_class
    bound = fc.Mixture().bind((), [50] * sites, "class")
    held = [[some, *[0] * (sites - 1)] for some in (enough, enough - 1)]
    assert [feasible(bound, Fraction(str(alpha)), sizes) for sizes in held] == [True, sites == 1]
