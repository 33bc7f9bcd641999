"""Guarantees on losses: the same promise for fractional rows, or a refusal with a reason."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedconformal as fc
from fedconformal._base.arrays import ALPHA_UNIT, Floats, Integers
from fedconformal.evaluation.intervals import clopper_pearson
from fedconformal.summaries import LossSummary
from fedconformal.summaries.losses import UNIT
from fedconformal.summaries.provenance import Provenance, grid_bytes
from tests.contracts.tools import SITES, checks, guarantee_examples, maybe_infeasible, promised_many, refused
from tests.guarantees.plain_fractions import of_mixtures

EXAMPLES = guarantee_examples() + guarantee_examples(by_class=True)
taking = pytest.mark.parametrize("guarantee", [one for one in EXAMPLES if one.fractional], ids=repr)
refusing = pytest.mark.parametrize("guarantee", [one for one in EXAMPLES if not one.fractional], ids=repr)
some_sizes = st.lists(st.integers(1, 40), min_size=len(SITES), max_size=len(SITES))
GRID = grid_bytes(range(6))


def curves(sizes: list[int], data: st.DataObject) -> list[Floats]:
    seed = data.draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    shares = [-np.sort(-(rng.random((n, 6)) ** data.draw(st.sampled_from([1, 3, 9]))), axis=1) for n in sizes]
    return [share.round(2) if seed % 2 else share for share in shares]


def summaries_of(losses: list[Floats]) -> list[LossSummary]:
    return [
        fc.LossSummary.of_losses(part, thresholds=range(6), site=site) for part, site in zip(losses, SITES, strict=True)
    ]


def test_there_are_both() -> None:
    taken = {one.name for one in EXAMPLES if one.fractional}
    alike = {"mixture", "one-site", "every-site", "worst-case", "new-site", "robust"}
    assert taken == {*alike, "pac", "learn-then-test"}


def promised_parts(bound: fc.Guarantee, parts: Integers, sizes: list[int]) -> list[Fraction]:
    """Add up the parts of every group, and ask what they promise."""
    group, promise = bound.grouped(sizes, UNIT)
    place = np.zeros(len(sizes), dtype=np.int64) if group is None else group
    sums = np.zeros((place.max() + 1, parts.shape[1]), dtype=np.int64)
    np.add.at(sums, place, parts)
    return promise(sums)


@given(some_sizes, st.lists(st.integers(0, UNIT), min_size=len(SITES), max_size=len(SITES)))
@checks(100)
def test_parts_of_rows_against_plain_fractions(sizes: list[int], shares_kept: list[int]) -> None:
    """The price is that of one row, also where rows count in part."""
    kept = [n * share for n, share in zip(sizes, shares_kept, strict=True)]
    rows = [Fraction(part, UNIT) for part in kept]
    by_rows = [Fraction(n, sum(sizes)) for n in sizes]
    given_ = [Fraction(5, 10), Fraction(3, 10), Fraction(2, 10)]
    for guarantee, mixtures in (
        (fc.Mixture(), [by_rows]),
        (fc.Mixture(weights="uniform"), [[Fraction(1, 3)] * 3]),
        (fc.Mixture(weights=(0.5, 0.3, 0.2)), [given_]),
        (
            fc.WorstCase(contamination=0.2),
            [[w * 4 / 5 + Fraction(j == k, 5) for j, w in enumerate(by_rows)] for k in range(3)],
        ),
    ):
        assert promised_parts(guarantee, np.array(kept)[:, None], sizes) == [of_mixtures(mixtures, rows, sizes)]


@refusing
def test_a_guarantee_that_takes_no_losses_says_why(guarantee: fc.Guarantee) -> None:
    sites = summaries_of([np.zeros((9, 6)) for _ in SITES])
    with refused(f"{guarantee.name} is no promise on losses: {guarantee.why_not_fractional}; use another guarantee"):
        fc.calibrate(sites, risk=0.5, guarantee=guarantee, exact=True)


@taking
@given(some_sizes, st.data())
@checks(12)
def test_whole_rows_count_as_scores_do(guarantee: fc.Guarantee, sizes: list[int], data: st.DataObject) -> None:
    bound = guarantee.bind(SITES, sizes)
    counts = np.array([[data.draw(st.integers(0, n)) for _ in range(3)] for n in sizes])
    promised = promised_parts(bound, counts * UNIT, sizes)
    if isinstance(guarantee, fc.PAC):  # at a threshold that is fixed, a bound for any losses is above that for 0 and 1
        kept = counts.sum(axis=0)
        exact = clopper_pearson(kept, np.full(3, sum(sizes)), confidence=1 - 2 * guarantee.failure)[0]
        assert all(0 <= part <= share + 1e-8 for part, share in zip(promised, exact.tolist(), strict=True))
    else:
        assert promised == promised_many(bound, counts, sizes)


@taking
@given(some_sizes, st.data())
@checks(12)
def test_the_threshold_is_the_smallest_that_keeps_the_limit(
    guarantee: fc.Guarantee, sizes: list[int], data: st.DataObject
) -> None:
    sites, bound = summaries_of(curves(sizes, data)), guarantee.bind(SITES, sizes)
    risk = Fraction(data.draw(st.integers(1, 99)), 100)
    with maybe_infeasible():
        result = fc.calibrate(sites, risk=risk, guarantee=guarantee, exact=True)
    found = [Fraction(units, ALPHA_UNIT) for units in result.curve.promised]
    assert found == sorted(found, reverse=True) or isinstance(guarantee, fc.LearnThenTest)  # which may begin anew
    assert result.threshold == min((t for t, r in zip(range(6), found, strict=True) if r <= risk), default=np.inf)
    tighter, looser = (result.curve.threshold(limit) for limit in (risk * Fraction(4, 5), (1 + risk) / 2))
    assert looser <= result.threshold <= tighter
    if not isinstance(guarantee, fc.PAC):
        kept = np.stack([site.n * UNIT - site.units for site in sites])
        exact = [1 - promised for promised in promised_parts(bound, kept, sizes)]
        assert all(0 <= r - e < Fraction(2, ALPHA_UNIT) for r, e in zip(found, exact, strict=True))
        # Never below what the losses themselves give.
        assert all(e >= 0 for e in exact)


@taking
def test_a_row_that_loses_more_never_lowers_the_threshold(guarantee: fc.Guarantee) -> None:
    rng = np.random.default_rng(0)
    losses = [-np.sort(-rng.random((30, 6)), axis=1) for _ in SITES]
    for k in range(len(SITES)):
        worse = [part.copy() for part in losses]
        worse[k][:10, :4] = 1.0
        with maybe_infeasible():
            before, after = (
                fc.calibrate(summaries_of(part), risk=0.6, guarantee=guarantee, exact=True) for part in (losses, worse)
            )
        assert all(a >= b for a, b in zip(after.curve.promised, before.curve.promised, strict=True))


HUGE = [
    fc.Mixture(),
    fc.Mixture(weights="uniform"),
    fc.EverySite(),
    fc.WorstCase(contamination=0.5),
    fc.Robust(liars=1),
    fc.Robust(liars=1, most_scores=1000),
    fc.NewSite(),
]


@pytest.mark.parametrize("guarantee", HUGE, ids=repr)
def test_what_sites_claim_does_not_wrap_round(guarantee: fc.Guarantee) -> None:
    """Sums over many sites of the largest size there is exceed 64 bits."""
    size, count = 2**32, 4000
    units = [size * UNIT // 2, size * UNIT // 4]
    provenance = Provenance(bound=1, grid=grid_bytes([0, 1]))
    sites = [
        LossSummary(units=np.array(units), sizes=(size,), sites=(f"s{i}",), provenance=provenance) for i in range(count)
    ]
    with maybe_infeasible():
        result = fc.calibrate(sites, risk=0.4, guarantee=guarantee, exact=True)
    assert [round(risk / ALPHA_UNIT, 2) for risk in result.curve.promised] == [0.5, 0.25]
    assert result.threshold == 1


@given(st.lists(st.tuples(st.integers(1, 2**32), st.floats(0, 1)), min_size=3, max_size=5), st.integers(0, 2))
@checks(60)
def test_robust_takes_the_worst_honest_sites(claimed: list[tuple[int, float]], liars: int) -> None:
    sizes = [n for n, _ in claimed]
    kept = [int(n * UNIT * share) for n, share in claimed]
    promise = fc.Robust(liars=liars).grouped(sizes, UNIT)[1]
    least = min(
        Fraction(max(0, sum(kept[k] for k in some) - UNIT), UNIT * sum(sizes[k] for k in some))
        for some in combinations(range(len(sizes)), len(sizes) - liars)
    )
    assert promise(np.array(kept)[:, None]) == [least]
