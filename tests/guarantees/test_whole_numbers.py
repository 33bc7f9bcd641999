"""Sites claim how many scores they have, up to 2^32 each: what is promised is exact however much they claim.

Every guarantee there is, and what stands in for it by class, against its formula in docs/guarantees.md, worked out
in fractions, one threshold at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedconformal as fc
from fedconformal._base.arrays import ALPHA_UNIT, Integers
from fedconformal.guarantees.guarantee import whole_type
from fedconformal.guarantees.quantile_of_quantiles import mean_miss
from tests.contracts.tools import SITES, checks, guarantee_examples, promised_many, strata_examples
from tests.guarantees.plain_fractions import corners, in_class, of_mixture, of_mixtures, total

UNIT = Fraction(1, ALPHA_UNIT)
CLAIM = 2**32
"""The most that a summary may claim."""

claims = st.one_of(st.integers(1, 60), st.integers(1, CLAIM), st.sampled_from([CLAIM, CLAIM - 1, CLAIM // 3, 2**31]))
beyond = st.sampled_from([3, CLAIM, 2**61, 2**62, 2**62 + 3])
"""Sizes beyond those of a summary, which plans may have, and pools of many sites."""

Column = Sequence[int]


@st.composite
def counted(draw: st.DrawFn, sizes: st.SearchStrategy[int]) -> tuple[list[int], Integers]:
    """Draw the sizes of three sites, and counts at some thresholds: few, nearly all, all."""
    claimed = draw(st.lists(sizes, min_size=3, max_size=3))
    count = st.tuples(
        *(st.one_of(st.integers(0, n), st.integers(max(0, n - n // 8), n), st.sampled_from([0, n])) for n in claimed)
    )
    columns = draw(st.lists(count, min_size=1, max_size=4))
    return claimed, np.array([*columns, claimed], dtype=np.int64).T


@pytest.mark.parametrize(("most", "kind"), [(2**62, np.int64), (2**62 + 1, object), (2**200, object)])
def test_64_bits_are_used_only_where_everything_fits(most: int, kind: type) -> None:
    assert whole_type(most) is kind


def shares(guarantee: fc.Mixture, sizes: Column) -> list[Fraction]:
    if guarantee.weights == "uniform":
        return [Fraction(1, len(sizes))] * len(sizes)
    if guarantee.weights == "rows":
        return [Fraction(n, sum(sizes)) for n in sizes]
    return [Fraction(repr(w)) for w in np.asarray(guarantee.weights).tolist()]


def mixture(guarantee: Any, counts: Column, sizes: Column) -> Fraction:
    return of_mixture(shares(guarantee, sizes), counts, sizes)


def one_site(guarantee: Any, counts: Column, sizes: Column) -> Fraction:
    return Fraction(counts[guarantee.site], sizes[guarantee.site] + 1)


def worst_case(guarantee: Any, counts: Column, sizes: Column) -> Fraction:
    rest = 1 - Fraction(repr(1.0 if guarantee.contamination is None else guarantee.contamination))
    lower, upper = [rest * n / sum(sizes) for n in sizes], [Fraction(1)] * len(sizes)
    if guarantee.box is not None:
        ends = (bound if isinstance(bound, tuple) else (bound,) * len(sizes) for bound in guarantee.box)
        lower, upper = ([Fraction(repr(bound)) for bound in each] for each in ends)
    return of_mixtures(corners(lower, upper), counts, sizes)


def new_site(guarantee: Any, counts: Column, sizes: Column) -> Fraction:
    return total([Fraction(m, n) for m, n in zip(counts, sizes, strict=True)]) / (len(sizes) + 1)


def robust(guarantee: Any, counts: Column, sizes: Column) -> Fraction:
    weights = [min(n, guarantee.most_scores or n) for n in sizes]
    held = [m * w // n for m, w, n in zip(counts, weights, sizes, strict=True)]
    return min(
        Fraction(max(0, sum(held[k] for k in honest) - 1), sum(weights[k] for k in honest))
        for honest in combinations(range(len(sizes)), len(sizes) - guarantee.liars)
    )


def quantile_of_quantiles(guarantee: Any, counts: Column, sizes: Column) -> Fraction:
    n, honest = guarantee.least_scores or min(sizes), len(sizes) - guarantee.liars
    middle = math.ceil(honest / 2)

    def naming(level: int) -> int:
        """Number of sites that have reached their rank, less those that may lie."""
        ranks = [math.ceil(Fraction(level * (size + 1), n + 1)) for size in sizes]
        named = [m >= rank for m, rank, size in zip(counts, ranks, sizes, strict=True) if size >= n]
        return named.count(True) - int(guarantee.liars)

    level, out_of_reach = 0, n + 1
    while out_of_reach - level > 1:
        between = (level + out_of_reach) // 2
        level, out_of_reach = (between, out_of_reach) if naming(between) >= middle else (level, between)
    if not level:
        return Fraction(0)
    among = naming(n) if level == n else middle
    ranks = tuple((math.ceil(Fraction(level * (size + 1), n + 1)), size) for size in sorted(set(sizes)) if size >= n)
    miss = mean_miss(ranks, among, honest)
    return max(Fraction(0), 1 - math.ceil(Fraction(miss) / UNIT) * UNIT)


FORMULAS: dict[str, Callable[[Any, Column, Column], Fraction]] = {
    "mixture": mixture,
    "fcp": lambda _, counts, sizes: Fraction(sum(counts), sum(sizes) + len(sizes)),
    "one-site": one_site,
    "every-site": lambda _, counts, sizes: min(Fraction(m, n + 1) for m, n in zip(counts, sizes, strict=True)),
    "worst-case": worst_case,
    "new-site": new_site,
    "robust": robust,
    "quantile-of-quantiles": quantile_of_quantiles,
}
"""From a guarantee, counts and sizes to what is promised; those by rank have tests of their own."""


EXAMPLES = [guarantee for guarantee in guarantee_examples() if not isinstance(guarantee, fc.PAC)]
every_guarantee = pytest.mark.parametrize("guarantee", EXAMPLES, ids=repr)


def test_there_is_a_formula_for_every_guarantee() -> None:
    assert set(FORMULAS) == {guarantee.name for guarantee in EXAMPLES}


def drawn(data: st.DataObject, guarantee: fc.Guarantee) -> tuple[list[int], Integers]:
    """Draw what a summary may claim, or more; the mean coverage of a pair of ranks is worked out in floats."""
    both = [claims] if guarantee.name == "quantile-of-quantiles" else [claims, beyond]
    found: tuple[list[int], Integers] = data.draw(st.one_of(*map(counted, both)))
    return found


@every_guarantee
@given(st.data())
@checks(25)
def test_promises_are_exact(guarantee: fc.Guarantee, data: st.DataObject) -> None:
    sizes, counts = drawn(data, guarantee)
    bound = guarantee.bind(SITES, sizes)
    expected = [FORMULAS[guarantee.name](bound, column, sizes) for column in counts.T.tolist()]
    assert promised_many(bound, counts, sizes) == expected
    assert [bound.promised(column, sizes) for column in counts.T.tolist()] == expected
    if not bound.sites_apart and sum(sizes) < 2**63:  # the search adds them up before it asks
        assert promised_many(bound, counts.sum(axis=0, keepdims=True), sizes) == expected


@pytest.mark.parametrize("guarantee", [one for one in strata_examples() if not isinstance(one, fc.PAC)], ids=repr)
@given(st.data(), st.lists(st.integers(0, 2**32), min_size=3, max_size=3))
@checks(20)
def test_promises_to_a_class_are_exact(guarantee: fc.Guarantee, data: st.DataObject, others: list[int]) -> None:
    """Mixtures weigh the rows of a class as all rows; the others take the rows of the class for all there are."""
    sizes, counts = drawn(data, guarantee)
    totals = [n + more for n, more in zip(sizes, others, strict=True)]
    bound = guarantee.bind(SITES, totals)
    of_class = bound.bind((), totals, "class")
    for column in counts.T.tolist():
        expected = FORMULAS[guarantee.name](bound, column, sizes)
        if isinstance(bound, fc.Mixture):
            expected = in_class([shares(bound, totals)], column, sizes, totals)
        assert promised_many(of_class, np.array([column]).T, sizes) == [expected]
        assert of_class.promised(column, sizes) == expected


def ln_factorial(n: int) -> Decimal:
    """Return ln n! by Stirling's series, to about forty places."""
    if n < 200:
        return Decimal(math.factorial(n)).ln()
    bernoulli = [(1, 12), (-1, 360), (1, 1260), (-1, 1680), (1, 1188), (-691, 360360), (1, 156)]
    series = sum((Decimal(a) / b / Decimal(n) ** (2 * i + 1) for i, (a, b) in enumerate(bernoulli)), start=Decimal(0))
    two_pi = Decimal("6.283185307179586476925286766559005768394338798750211641949889")
    return n * Decimal(n).ln() - n + (two_pi * n).ln() / 2 + series


def binomial_tail(rank: int, size: int, chance: Fraction) -> Decimal:
    """Return P(Bin(size, chance) >= rank), rank above the mean, by a continued fraction of forty places."""
    with localcontext(prec=60):
        c, a, b = Decimal(chance.numerator) / chance.denominator, Decimal(rank), Decimal(size - rank + 1)
        ln_first = ln_factorial(size) - ln_factorial(rank) - ln_factorial(size - rank)
        first = (ln_first + rank * c.ln() + (size - rank + 1) * (1 - c).ln()).exp()
        value, numerator, denominator = Decimal(1), Decimal(1), Decimal(0)
        for i in range(1, 10**6):
            m = i // 2
            part = (
                m * (b - m) * c / ((a + 2 * m - 1) * (a + 2 * m))
                if i % 2 == 0
                else -(a + m) * (a + b + m) * c / ((a + 2 * m) * (a + 2 * m + 1))
            )
            denominator = 1 / (1 + part * denominator)
            numerator = 1 + part / numerator
            value *= numerator * denominator
            if abs(numerator * denominator - 1) < Decimal("1e-25"):
                break
        return first / value


@given(counted(beyond), st.sampled_from([0.05, 0.5, 1e-6]))
@checks(60)
def test_pac_promises_no_more_than_its_tail_allows(case: tuple[list[int], Integers], failure: float) -> None:
    """The largest c with P(Bin(N, c) >= m) <= failure and m >= N c + 1, rounded down: to 1e-9 from 5,000 scores on."""
    sizes, counts = case
    size, guarantee = sum(sizes), fc.PAC(failure=failure)
    found = promised_many(guarantee, counts, sizes)
    assert found == [guarantee.promised(column, sizes) for column in counts.T.tolist()]
    for promised, column in zip(found, counts.T.tolist(), strict=True):
        rank = sum(column)
        assert 0 <= promised <= max(Fraction(0), Fraction(rank - 1, size))
        if promised:
            assert binomial_tail(rank, size, promised) <= Decimal(repr(failure))
        more = promised + (UNIT if size <= 5000 else Fraction(2, 10**9) if size <= 2**36 else Fraction(1, 10**4))
        if size * more + 1 <= rank and more < 1:
            assert binomial_tail(rank, size, more) > Decimal(repr(failure * (1 - 2e-6)))


@given(st.data(), st.integers(6, 9), st.sampled_from([None, 10**3, 10**9]))
@checks(60)
def test_shares_of_many_sites_are_compared_exactly(data: st.DataObject, sites: int, most_scores: int | None) -> None:
    """The product of two totals can be far above that of a total and a size."""
    guarantee = fc.Robust(liars=data.draw(st.integers(1, sites - 1)), most_scores=most_scores)
    claim = data.draw(st.sampled_from([10**3, 4 * 10**8, 6 * 10**8, 2**30, CLAIM, 2**62]))
    sizes = data.draw(st.lists(st.sampled_from([claim, claim, claim // 2, 200]), min_size=sites, max_size=sites))
    percents = st.lists(st.integers(0, 100), min_size=sites, max_size=sites)
    columns = data.draw(st.lists(percents, min_size=1, max_size=3))
    counts = np.array(
        [[n * part // 100 for n, part in zip(sizes, column, strict=True)] for column in columns], dtype=np.int64
    ).T
    assert promised_many(guarantee, counts, sizes) == [robust(guarantee, column, sizes) for column in counts.T.tolist()]
