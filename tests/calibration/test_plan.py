"""The planner: what can be had from sites of these sizes, and what is missing."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedconformal as fc
from fedconformal._base.registry import build
from fedconformal.calibration.plan import USUAL
from tests.contracts.tools import alphas, checks, coverage_at, maybe_infeasible, one_curve, refused


def test_by_hand() -> None:
    found = fc.plan(alpha=0.1, sizes=[200, 50, 5])
    assert (found.alpha, found.sizes) == (0.1, [200, 50, 5])
    rows = {option.guarantee: option for option in found.options}
    assert list(rows) == [*USUAL]
    assert [name for name, option in rows.items() if not option.feasible] == ["every-site", "new-site"]
    mixture = rows["mixture"]
    assert (mixture.rank, mixture.rank_out_of) == (231, 255)  # ceil(.9 * 255) + 1
    assert (mixture.coverage_at_least, mixture.coverage_at_most) == (230 / 255, 231 / 255)
    assert mixture.smallest_alpha == pytest.approx(1 / 255)
    assert rows["every-site"].missing == "calibration scores needed: 4 more at site '#3'"
    assert rows["every-site"].smallest_alpha == pytest.approx(1 / 6)
    assert rows["mixture:weights=uniform"].coverage_at_most == pytest.approx(0.9 + (1 / 201 + 1 / 51 + 1 / 6) / 3)
    assert fc.plan(alpha="0.1", sizes=[5, 4]).options[0].missing.endswith("1 more in all, at any site")


@given(st.lists(st.integers(1, 40), min_size=1, max_size=4), alphas)
@checks(25)
def test_the_plan_is_what_calibration_then_gives(sizes: list[int], alpha: Fraction) -> None:
    found = fc.plan(alpha=alpha, sizes=sizes, guarantees=["one-site:#1"])
    names = [f"#{k + 1}" for k in range(len(sizes))]
    sites = [fc.Summary.of_scores(np.arange(n), kind="exact", site=name) for n, name in zip(sizes, names, strict=True)]
    for option in found.options:
        guarantee = build(option.guarantee, fc.Guarantee)
        with maybe_infeasible():
            result = fc.calibrate(sites, alpha=alpha, guarantee=guarantee, exact=True)
        about = result.certificate
        assert option.feasible == (result.threshold < np.inf) == (not option.missing)
        assert (option.rank, option.rank_out_of) == (about.promises[0].rank, about.promises[0].rank_out_of)
        assert (option.coverage_at_least, option.coverage_at_most) == (about.coverage_at_least, about.coverage_at_most)
        assert option.smallest_alpha == pytest.approx(float(1 - coverage_at(one_curve(result), np.inf)))
        assert option.feasible == (alpha >= 1 - guarantee.bind(names, sizes).promised(sizes, sizes))
        assert option.feasible or re.search(r"\d+ more", option.missing)


def test_scores_or_sites_are_missing() -> None:
    rows = {option.guarantee: option for option in fc.plan(alpha=0.05, sizes=[20, 20]).options}
    assert rows["pac"].missing == "calibration scores needed: 19 more in all, at any site"
    assert rows["new-site"].missing == "sites needed: 17 more, from the same population"
    assert rows["new-site"].smallest_alpha == pytest.approx(1 / 3)


def test_sites_have_their_names() -> None:
    found = fc.plan(alpha=0.1, sizes=[3, 20], sites=["north", "south"], guarantees=[fc.OneSite(site="north")])
    assert found.options[-1].missing.endswith("6 more at site 'north'")
    assert found.options[-1].guarantee == "OneSite(site='north')"


@pytest.mark.parametrize("sizes", [[], [0], [-1], [5, 0], [2.5], ["a"], ["5"], [None], [float("nan")], [float("inf")]])
def test_bad_sizes(sizes: Any) -> None:
    with refused("sizes"):
        fc.plan(alpha=0.1, sizes=sizes)


@pytest.mark.parametrize("sites", [[], ["a"], ["a", "b", "c"]])
def test_bad_names(sites: Any) -> None:
    with refused(param="sites"):
        fc.plan(alpha=0.1, sizes=[3, 4], sites=sites)
