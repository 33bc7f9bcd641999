"""Sites claim how many scores they have, up to 2^32 each: what is promised is exact however much they claim.

Every guarantee there is, and what stands in for it by class, against its formula in docs/guarantees.md, worked out
in fractions, one threshold at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache
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
from fedconformal.summaries.ranks import POINTS, RankSummary, scheduled_ranks
from tests.contracts.tools import SITES, checks, guarantee_examples, promised_many
from tests.guarantees.plain_fractions import in_class, of_mixture, of_mixtures, total

UNIT = Fraction(1, ALPHA_UNIT)
CLAIM = 2**32
"""The most that a summary may claim."""

claims = st.one_of(st.integers(1, 60), st.integers(1, CLAIM), st.sampled_from([CLAIM, CLAIM - 1, CLAIM // 3, 2**31]))
beyond = st.sampled_from([3, CLAIM, 2**61, 2**62, 2**62 + 3])
"""What no summary may claim, but a plan may ask for, and pools of many sites add up to."""

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


def lying(share: int, name: str, claim: int = 590_000_000) -> fc.Summary:
    """Claim 5.9e8 scores in less than a kilobyte, this many in a hundred of them at -1 and the rest at 2."""
    values = np.where(np.arange(POINTS) < share, -1.0, 2.0)
    assert len(scheduled_ranks(claim, POINTS, None)) == POINTS
    provenance = fc.Summary.of_scores([0.5], site=name).provenance
    return RankSummary.scheduled(values, (POINTS, None), sizes=(claim,), sites=(name,), provenance=provenance)


def test_claims_that_overflowed_do_not_lower_the_threshold() -> None:
    """Thirteen liars of 150: in 64 bits the products wrapped round, and -1 was certified at 0.9."""
    rng = np.random.default_rng(0)
    honest = [fc.Summary.of_scores(rng.random(200), site=f"h{k}") for k in range(137)]
    liars = [lying(86 if k < 7 else 99, f"l{k}") for k in range(13)]
    assert max(len(liar.to_bytes()) for liar in liars) < 1000
    sent = [fc.Summary.from_bytes(site.to_bytes()) for site in (*honest, *liars)]
    assert float(fc.calibrate(sent, alpha=0.1, guarantee=fc.Robust(liars=13)).threshold) > 0.85


def solved(rows: list[list[Fraction]], right: list[Fraction]) -> list[Fraction] | None:
    """Solve linear equations, as many as there are unknowns; None if there is no single solution."""
    table = [[*row, limit] for row, limit in zip(rows, right, strict=True)]
    for i in range(len(table)):
        pivot = next((j for j in range(i, len(table)) if table[j][i]), None)
        if pivot is None:
            return None
        table[i], table[pivot] = table[pivot], table[i]
        table[i] = [entry / table[i][i] for entry in table[i]]
        for j in range(len(table)):
            if j != i:
                table[j] = [a - table[j][i] * b for a, b in zip(table[j], table[i], strict=True)]
    return [row[-1] for row in table]


@cache
def corners(guarantee: fc.WorstCase, sizes: tuple[int, ...]) -> list[list[Fraction]]:
    """Return the corners of the set of mixtures: where one inequality less than there are sites is an equality."""
    K = len(sizes)
    centre = [Fraction(n, sum(sizes)) for n in sizes]
    rows = [([-Fraction(j == k) for j in range(K)], Fraction(0)) for k in range(K)]
    if guarantee.contamination is not None:
        kept = 1 - Fraction(repr(guarantee.contamination))
        rows += [(row, -kept * centre[k]) for k, (row, _) in enumerate(rows)]
    if guarantee.box is not None:
        low, high = (bound if isinstance(bound, tuple) else (bound,) * K for bound in guarantee.box)
        for k in range(K):
            unit = [Fraction(j == k) for j in range(K)]
            rows += [([-u for u in unit], -Fraction(repr(low[k]))), (unit, Fraction(repr(high[k])))]
    found = []
    for tight in combinations(rows, K - 1):
        w = solved([[Fraction(1)] * K, *(row for row, _ in tight)], [Fraction(1), *(limit for _, limit in tight)])
        if w is not None and all(total([a * x for a, x in zip(row, w, strict=True)]) <= limit for row, limit in rows):
            found.append(w)
    return found


def shares(guarantee: fc.Mixture, sizes: Column) -> list[Fraction]:
    if guarantee.weights == "uniform":
        return [Fraction(1, len(sizes))] * len(sizes)
    if guarantee.weights == "rows":
        counted = [min(n, guarantee.most_scores or n) for n in sizes]
        return [Fraction(n, sum(counted)) for n in counted]
    return [Fraction(repr(w)) for w in np.asarray(guarantee.weights).tolist()]


def mixture(guarantee: Any, counts: Column, sizes: Column) -> Fraction:
    return of_mixture(shares(guarantee, sizes), counts, sizes)


def one_site(guarantee: Any, counts: Column, sizes: Column) -> Fraction:
    return Fraction(counts[guarantee.site], sizes[guarantee.site] + 1)


def worst_case(guarantee: Any, counts: Column, sizes: Column) -> Fraction:
    return of_mixtures(corners(guarantee, tuple(sizes)), counts, sizes)


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
        """How many sites have reached their rank, less those that may lie."""
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


def new_site_in_class(guarantee: Any, counts: Column, sizes: Column, totals: Column) -> Fraction:
    held = [total([Fraction(v, n) for v, n in zip(values, totals, strict=True)]) for values in (counts, sizes)]
    return held[0] / (held[1] + 1)


IN_CLASS: dict[str, Callable[[Any, Column, Column, Column], Fraction]] = {
    "mixture": lambda g, counts, sizes, totals: in_class([shares(g, totals)], counts, sizes, totals),
    "new-site": new_site_in_class,
}
"""With the sizes of the class, and of all rows; the others take the rows of the class for all there are."""

EXAMPLES = [guarantee for guarantee in guarantee_examples() if not isinstance(guarantee, fc.PAC)]
every_guarantee = pytest.mark.parametrize("guarantee", EXAMPLES, ids=repr)
every_sum = pytest.mark.parametrize("guarantee", [g for g in EXAMPLES if g.name != "quantile-of-quantiles"], ids=repr)
"""The mean coverage of a pair is worked out in floats, and for what a summary may claim."""


def test_there_is_a_formula_for_every_guarantee() -> None:
    assert set(FORMULAS) == {guarantee.name for guarantee in EXAMPLES}


@every_guarantee
@given(counted(claims))
@checks(15)
def test_promises_are_exact(guarantee: fc.Guarantee, case: tuple[list[int], Integers]) -> None:
    check_promises(guarantee, *case)


@every_sum
@given(counted(beyond))
@checks(12)
def test_promises_are_exact_where_totals_do_not_fit(guarantee: fc.Guarantee, case: tuple[list[int], Integers]) -> None:
    check_promises(guarantee, *case)


def check_promises(guarantee: fc.Guarantee, sizes: list[int], counts: Integers) -> None:
    bound = guarantee.bind(SITES, sizes)
    expected = [FORMULAS[guarantee.name](bound, column, sizes) for column in counts.T.tolist()]
    assert promised_many(bound, counts, sizes) == expected
    assert [bound.promised(column, sizes) for column in counts.T.tolist()] == expected
    if not bound.sites_apart and sum(sizes) < 2**63:  # the search adds them up before it asks
        assert promised_many(bound, counts.sum(axis=0, keepdims=True), sizes) == expected


@every_guarantee
@given(counted(claims), st.lists(st.integers(0, 2**32), min_size=3, max_size=3))
@checks(12)
def test_promises_to_a_class_are_exact(
    guarantee: fc.Guarantee, case: tuple[list[int], Integers], others: list[int]
) -> None:
    sizes, counts = case
    check_class(guarantee, sizes, counts, [n + more for n, more in zip(sizes, others, strict=True)])


@every_sum
@given(counted(beyond))
@checks(8)
def test_promises_to_a_class_are_exact_where_totals_do_not_fit(
    guarantee: fc.Guarantee, case: tuple[list[int], Integers]
) -> None:
    check_class(guarantee, *case, case[0])


def check_class(guarantee: fc.Guarantee, sizes: list[int], counts: Integers, totals: list[int]) -> None:
    if isinstance(guarantee, fc.FCP | fc.WorstCase):
        return  # for one threshold only
    if isinstance(guarantee, fc.Robust) and max(totals) > (guarantee.most_scores or max(totals)):
        return  # refused, see test_robust.py
    bound = guarantee.bind(SITES, totals)
    of_class = bound.bind((), totals, "class")
    expected = [
        IN_CLASS[guarantee.name](bound, column, sizes, totals)
        if guarantee.name in IN_CLASS
        else FORMULAS[guarantee.name](bound, column, sizes)
        for column in counts.T.tolist()
    ]
    assert promised_many(of_class, counts, sizes) == expected
    assert [of_class.promised(column, sizes) for column in counts.T.tolist()] == expected


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


def test_the_reference_knows_binomial_tails() -> None:
    chance = Fraction(7, 10)
    whole = sum(math.comb(300, j) * chance**j * (1 - chance) ** (300 - j) for j in range(230, 301))
    assert abs(Fraction(binomial_tail(230, 300, chance)) / whole - 1) < Fraction(1, 10**20)


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
