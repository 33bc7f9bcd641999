"""The contract of every guarantee: the checks for plug-ins on any sizes, and the search for its threshold."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedconformal as fc
from fedconformal._base import registry
from fedconformal._base.arrays import Floats
from fedconformal.certificates import text
from fedconformal.guarantees.guarantee import feasible
from fedconformal.testing import check_guarantee
from tests.contracts.tools import (
    GUARANTEES,
    PUBLIC,
    SITES,
    alphas,
    checks,
    guarantee_examples,
    maybe_infeasible,
    refused,
    true_counts,
    vectors,
)

one_threshold = pytest.mark.parametrize("guarantee", guarantee_examples(), ids=repr)
EXAMPLES = guarantee_examples() + guarantee_examples(by_class=True)
every_guarantee = pytest.mark.parametrize("guarantee", EXAMPLES, ids=repr)
"""Those that need summaries by class or group are calibrated in tests/test_strata.py and test_prevalence.py."""
some_sizes = st.lists(st.integers(1, 60), min_size=len(SITES), max_size=len(SITES))
scores_of_sites = st.lists(vectors(25), min_size=len(SITES), max_size=len(SITES))


def summaries_of(scores: list[Floats]) -> list[fc.Summary]:
    return [fc.Summary.of_scores(part, kind="exact", site=site) for part, site in zip(scores, SITES, strict=True)]


def test_there_is_an_example_of_every_guarantee() -> None:
    assert set(GUARANTEES) == {guarantee.name for guarantee in EXAMPLES}
    assert {name: cls.name for name, cls in GUARANTEES.items()} == {name: name for name in GUARANTEES}


@every_guarantee
def test_a_guarantee_is_rebuilt_from_its_repr_and_from_json(guarantee: fc.Guarantee) -> None:
    assert eval(repr(guarantee), dict(PUBLIC)) == guarantee  # noqa: S307
    described = json.loads(json.dumps(guarantee.to_dict(), allow_nan=False))
    assert registry.rebuild(described, fc.Guarantee) == guarantee


@every_guarantee
@given(some_sizes, st.integers(0, 2**32 - 1), st.sampled_from([1, 10**6]))
@checks(60)
def test_any_sizes(guarantee: fc.Guarantee, sizes: list[int], seed: int, scale: int) -> None:
    check_guarantee(guarantee, [n * scale for n in sizes], seed=seed)


@pytest.mark.parametrize(
    "described",
    [
        {"name": "mixture"},
        {"name": "mixture", "weights": "rows", "least_scores": 5},
        {"name": "robust", "most_scores": None},
        {"name": "robust", "liars": 1, "most_scores": None},  # what is not given is not written
        {"name": "quantile-of-quantiles", "least_scores": 5},
        {"name": "quantile-of-quantiles", "liars": 1, "least_scores": None},
        {"name": "pac"},
        {"name": "fcp", "more": 1},
    ],
    ids=repr,
)
def test_nothing_may_be_absent_or_added(described: dict[str, Any]) -> None:
    """Only what a description leaves out of itself may be absent: every guarantee has one form in a file."""
    with refused(f"{described['name']}: has the parameters", "expected ["):
        registry.rebuild(described, fc.Guarantee)


@every_guarantee
def test_it_says_what_it_promises_and_assumes(guarantee: fc.Guarantee) -> None:
    rendered = [render(guarantee, SITES) for render in (text.assumption, text.promise, text.lay_description)]
    for words in (*rendered, text.caveat(guarantee), text.caveat(guarantee, text.INTERVALS)):
        assert words.strip() == words
        assert len(words.splitlines()) == 1
        assert len(words) > 20


@one_threshold
@given(scores_of_sites, alphas)
@checks(40)
def test_the_threshold_is_the_smallest_that_promises_enough(
    guarantee: fc.Guarantee, scores: list[Floats], alpha: Fraction
) -> None:
    sizes = [len(part) for part in scores]
    bound = guarantee.bind(SITES, sizes)
    enough = [
        q
        for q in np.unique(np.concatenate(scores)).tolist()
        if bound.promised([int(true_counts(part, np.array([q]))[0]) for part in scores], sizes) >= 1 - alpha
    ]
    with maybe_infeasible():
        result = fc.calibrate(summaries_of(scores), alpha=alpha, guarantee=guarantee, exact=True)
    assert result.threshold == min(enough, default=np.inf)
    assert result.curve.threshold(alpha) == result.threshold
    assert feasible(bound, alpha, sizes) == (result.threshold < np.inf)


@one_threshold
def test_an_infeasible_promise_warns_and_takes_every_label(guarantee: fc.Guarantee) -> None:
    sites = [fc.Summary.of_scores([0.1, 0.2], kind="exact", site=site, score=fc.LAC()) for site in SITES]
    with pytest.warns(
        fc.InfeasibleWarning,
        match=r"alpha=0\.01 cannot be promised .*(scores|sites|_scores is \d+,) needed: \d+ (or )?more",
    ) as caught:
        result = fc.calibrate(sites, alpha=0.01, guarantee=guarantee, exact=True)
    assert len(caught) == 1
    assert result.threshold == np.inf
    assert result.certificate.threshold == float("inf")
    assert (result.certificate.coverage_at_least, result.certificate.coverage_at_most) == (1.0, 1.0)
    with pytest.warns(fc.InfeasibleWarning, match=r"alpha=0\.01 cannot be promised"):
        assert result.predict_set([[0.9, 0.1, 0.0]], allow_empty=True).all()


@one_threshold
def test_pooled_sites_are_taken_or_refused(guarantee: fc.Guarantee) -> None:
    rng = np.random.default_rng(0)
    sites = summaries_of([rng.normal(size=30) for _ in SITES])
    pooled = [fc.pool(sites[:2]), sites[2]]
    if guarantee.bind(SITES, [30] * 3).sites_apart:
        with pytest.raises(fc.InputError, match=r"site 'a' and 1 more are pooled.*send one summary per site"):
            fc.calibrate(pooled, alpha=0.2, guarantee=guarantee, exact=True)
        return
    apart, together = (fc.calibrate(given, alpha=0.2, guarantee=guarantee, exact=True) for given in (sites, pooled))
    assert apart.threshold == together.threshold
    assert apart.certificate.promises[0].rank == together.certificate.promises[0].rank
    assert apart.certificate.sites == together.certificate.sites == 3
    assert apart.certificate.scores == together.certificate.scores == 90
