"""What every guarantee there is must do."""

from __future__ import annotations

import dataclasses
import json
from fractions import Fraction
from itertools import accumulate
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedconformal as fc
from fedconformal._base import registry
from fedconformal._base.arrays import Floats, as_alpha
from fedconformal.certificates import text
from fedconformal.guarantees.guarantee import Shortfall, feasible
from tests.contracts.tools import (
    GUARANTEES,
    PUBLIC,
    SITES,
    alphas,
    checks,
    guarantee_examples,
    maybe_infeasible,
    promised_many,
    refused,
    true_counts,
    vectors,
)

one_threshold = pytest.mark.parametrize("guarantee", guarantee_examples(), ids=repr)
EXAMPLES = guarantee_examples() + guarantee_examples(by_class=True)
every_guarantee = pytest.mark.parametrize("guarantee", EXAMPLES, ids=repr)
"""Those that need summaries by class or group are calibrated in tests/test_by_class.py, test_prevalence.py and
test_by_group.py."""
some_sizes = st.lists(st.integers(1, 60), min_size=len(SITES), max_size=len(SITES))
scores_of_sites = st.lists(vectors(25), min_size=len(SITES), max_size=len(SITES))


def promised_by(bound: fc.Guarantee, rank: int, sizes: list[int]) -> Fraction:
    """Return what a rank of all scores promises, or of the one site that counts; full counts if there are fewer."""
    if isinstance(bound, fc.OneSite):
        return bound.promised([min(rank, n) for n in sizes], sizes)
    counts = [min(n, max(0, rank - before)) for n, before in zip(sizes, accumulate([0, *sizes]), strict=False)]
    return bound.promised(counts, sizes)


def summaries_of(scores: list[Floats]) -> list[fc.Summary]:
    return [fc.Summary.of_scores(part, kind="exact", site=site) for part, site in zip(scores, SITES, strict=True)]


def test_there_is_an_example_of_every_guarantee() -> None:
    assert set(GUARANTEES) == {guarantee.name for guarantee in EXAMPLES}
    assert {name: cls.name for name, cls in GUARANTEES.items()} == {name: name for name in GUARANTEES}


@every_guarantee
def test_a_guarantee_is_a_frozen_value(guarantee: fc.Guarantee) -> None:
    assert eval(repr(guarantee), dict(PUBLIC)) == guarantee  # noqa: S307
    assert hash(dataclasses.replace(guarantee)) == hash(guarantee)
    for field in dataclasses.fields(guarantee):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(guarantee, field.name, 1)


@every_guarantee
def test_a_guarantee_survives_json(guarantee: fc.Guarantee) -> None:
    described = json.loads(json.dumps(guarantee.to_dict(), allow_nan=False))
    assert described == guarantee.to_dict()
    again = registry.build(described, fc.Guarantee)
    assert again == guarantee
    assert type(again) is type(guarantee)


@pytest.mark.parametrize(
    "described",
    [
        {"name": "mixture"},
        {"name": "mixture", "weights": "rows", "most_scores": None},  # what is not given is not written
        {"name": "mixture", "weights": "rows", "least_scores": 5},
        {"name": "mixture", "most_scores": 5},
        {"name": "robust", "most_scores": None},
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
        registry.build(described, fc.Guarantee)


def test_scores_are_described_in_full() -> None:
    for described in ({"name": "raps"}, {"name": "lac", "more": 1}):
        with refused("has the parameters", "expected ["):
            registry.build(described, fc.Score)


@every_guarantee
def test_a_description_without_one_of_its_parts_is_refused(guarantee: fc.Guarantee) -> None:
    described = guarantee.to_dict()
    optional = {"name", *(one.name for one in dataclasses.fields(guarantee) if one.default is None)}
    for absent in set(described) - optional:
        with refused("has the parameters"):
            registry.build({key: value for key, value in described.items() if key != absent}, fc.Guarantee)


@every_guarantee
def test_it_says_what_it_promises_and_assumes(guarantee: fc.Guarantee) -> None:
    rendered = [render(guarantee, SITES) for render in (text.assumption, text.promise, text.lay_description)]
    for words in (*rendered, text.caveat(guarantee), text.caveat(guarantee, text.INTERVALS)):
        assert words.strip() == words
        assert len(words.splitlines()) == 1
        assert len(words) > 20


@every_guarantee
@given(some_sizes, st.data())
@checks(40)
def test_the_promise_rises_with_the_counts(guarantee: fc.Guarantee, sizes: list[int], data: st.DataObject) -> None:
    bound = guarantee.bind(SITES, sizes)
    low = [data.draw(st.integers(0, n)) for n in sizes]
    high = [data.draw(st.integers(m, n)) for m, n in zip(low, sizes, strict=True)]
    promised = [bound.promised(counts, sizes) for counts in ([0] * len(sizes), low, high, sizes)]
    assert all(isinstance(coverage, Fraction) for coverage in promised)
    assert promised == sorted(promised)
    assert promised[0] >= 0
    assert promised[-1] < 1  # a finite threshold never promises certainty


@every_guarantee
@given(some_sizes, st.integers(0, 2**32 - 1), st.sampled_from([1, 10**6]))
@checks(40)
def test_many_at_once_are_the_same(guarantee: fc.Guarantee, sizes: list[int], seed: int, scale: int) -> None:
    sizes = [n * scale for n in sizes]
    bound = guarantee.bind(SITES, sizes)
    counts = np.random.default_rng(seed).integers(0, np.array(sizes)[:, None] + 1, size=(len(sizes), 7))
    counts = np.concatenate([counts, np.zeros((len(sizes), 1), dtype=np.int64), np.array(sizes)[:, None]], axis=1)
    assert promised_many(bound, counts, sizes) == [bound.promised(column.tolist(), sizes) for column in counts.T]


@every_guarantee
@given(some_sizes, alphas, st.data())
@checks(40)
def test_the_band_is_in_order(guarantee: fc.Guarantee, sizes: list[int], alpha: Fraction, data: st.DataObject) -> None:
    bound = guarantee.bind(SITES, sizes)
    gaps = [data.draw(st.integers(0, n - 1)) for n in sizes]
    exact, rough = bound.band(alpha, sizes), bound.band(alpha, sizes, gaps)
    least = exact.least
    assert exact == bound.band(alpha, sizes, [0] * len(sizes))
    assert rough == exact._replace(most=rough.most, slack=rough.slack)
    assert 1 - alpha <= least <= 1
    assert least <= exact.most <= rough.most <= 1
    assert 0 == exact.slack <= rough.slack <= 1
    if exact.rank is not None and exact.out_of is not None:
        assert Fraction(exact.rank, exact.out_of) >= least
        assert promised_by(bound, exact.rank - 1, sizes) < 1 - alpha  # no smaller rank is enough
        assert not feasible(bound, alpha, sizes) or promised_by(bound, exact.rank, sizes) >= least
        if feasible(bound, alpha, sizes):  # the mean coverage if the sites are alike and scores distinct
            alike = Fraction(exact.rank, exact.out_of if bound.sites_apart else sum(sizes) + 1)
            assert least <= alike <= exact.most


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


@every_guarantee
@given(some_sizes, alphas)
@checks(50)
def test_what_is_missing_is_just_enough(guarantee: fc.Guarantee, sizes: list[int], alpha: Fraction) -> None:
    bound = guarantee.bind(SITES, sizes)
    found = bound.missing(alpha, sizes)
    if feasible(bound, alpha, sizes):
        assert found == Shortfall()
        return
    words = text.shortfall(bound, alpha, sizes, SITES, stratum="class")
    if found.sites:
        if found.sites < 10**4:
            assert feasible(bound, alpha, sizes + [1] * found.sites)
            assert not feasible(bound, alpha, sizes + [10**6] * (found.sites - 1))
        assert f"sites needed: {found.sites} more" in words
        assert found == Shortfall(sites=found.sites)
    elif found.parameter:  # a number that was fixed beforehand is in the way
        name, stated, needed = found.parameter
        assert getattr(bound, name) == stated < needed
        enough, short = (dataclasses.replace(bound, **{name: number}) for number in (needed, needed - 1))
        assert feasible(enough, alpha, [max(n, needed) for n in sizes])
        assert not feasible(short, alpha, [max(n, needed - 1) for n in sizes])
        assert words == f"{name} is {stated}, needed: {needed} or more"
    else:
        more = {0: found.anywhere} if found.anywhere else found.scores
        assert all(extra > 0 for extra in more.values())
        assert feasible(bound, alpha, [n + more.get(k, 0) for k, n in enumerate(sizes)])
        assert not feasible(bound, alpha, [n + max(0, more.get(k, 0) - 1) for k, n in enumerate(sizes)])
        assert f" {next(iter(more.values()))} more" in words


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
        with pytest.raises(fc.InputError, match=r"site 'a' and 1 more came pooled.*send the sites apart"):
            fc.calibrate(pooled, alpha=0.2, guarantee=guarantee, exact=True)
        return
    apart, together = (fc.calibrate(given, alpha=0.2, guarantee=guarantee, exact=True) for given in (sites, pooled))
    assert apart.threshold == together.threshold
    assert apart.certificate.promises[0].rank == together.certificate.promises[0].rank
    assert apart.certificate.sites == together.certificate.sites == 3
    assert apart.certificate.scores == together.certificate.scores == 90


@one_threshold
@pytest.mark.parametrize("alpha", [0, 1, -1, 2, float("nan"), float("inf"), "x", "", None, [0.1]])
def test_bad_alphas_are_refused(guarantee: fc.Guarantee, alpha: object) -> None:
    sites = summaries_of([np.array([0.1, 0.2]) for _ in SITES])
    with pytest.raises(fc.InputError, match="expected a number between 0 and 1"):
        fc.calibrate(sites, alpha=alpha, guarantee=guarantee, exact=True)


@one_threshold
def test_alpha_is_the_decimal_that_was_typed(guarantee: fc.Guarantee) -> None:
    rng = np.random.default_rng(5)
    sites = summaries_of([rng.normal(size=39) for _ in SITES])
    forms = [0.1, "0.1", np.float32(0.1), np.float64(0.1), Fraction(1, 10), "1e-1", np.float16(0.1)]
    with maybe_infeasible():
        found = {fc.calibrate(sites, alpha=form, guarantee=guarantee, exact=True).threshold for form in forms}
    assert {as_alpha(form) for form in forms} == {Fraction(1, 10)}
    assert len(found) == 1
