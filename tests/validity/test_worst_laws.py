"""The worst of all laws of the rows that fulfil the assumption, by linear programming, for a few rows with ties.

What Mixture needs is said of each site by itself: given the calibration rows of the others, its own rows and its next
one are exchangeable. So there is a law for the next row of each site, and all of these agree on the calibration rows.
A law that covered less than promised would be found. The last part does the same for patients that sites share.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.sparse import coo_array

import fedconformal as fc
from fedconformal.guarantees.mixture import StratumShare
from fedconformal.testing import summed
from tests.guarantees.plain_fractions import corners

Parts = Sequence[Sequence[Any]]
"""The calibration rows of every site."""
Gain = Callable[[Parts], Callable[[Any], float]]
"""From calibration rows to what the next row is worth."""

ALPHAS = list(map(Fraction, ["1/5", "1/3", "2/5", "1/2", "3/5", "2/3", "4/5"]))
MIXTURES = [fc.Mixture(), fc.Mixture(weights=(0.7, 0.3)), fc.Mixture(weights=(0.2, 0.8)), fc.Mixture(weights=(0, 1))]


def smallest(guarantee: fc.Guarantee, alpha: Fraction, parts: Parts) -> float:
    """Return the threshold: the smallest score whose counts promise enough."""
    for q in sorted({score for part in parts for score in part}):
        if guarantee.promised([sum(s <= q for s in part) for part in parts], list(map(len, parts))) >= 1 - alpha:
            return float(q)
    return np.inf


def covering(guarantee: fc.Guarantee, alpha: Fraction) -> Gain:
    def gain(parts: Parts) -> Callable[[Any], float]:
        q = smallest(guarantee, alpha, parts)
        return lambda score: float(score <= q)

    return gain


def at_rank(rank: int) -> Gain:
    def gain(parts: Parts) -> Callable[[Any], float]:
        q = sorted(score for part in parts for score in part)[rank - 1]
        return lambda score: float(score <= q)

    return gain


def least_mean(sizes: Sequence[int], values: Sequence[Any], shares: Sequence[Any], gain: Gain) -> float:
    """Return the least mean of what the next row is worth, over all laws of rows that are one of `values`."""
    ends = np.cumsum([0, *sizes]).tolist()
    places: dict[object, int] = {}  # a probability for each bag of a site's own rows, given those of the others
    cost: dict[int, float] = {}
    entries: list[tuple[int, int, float]] = []
    calibrations = list(product(range(len(values)), repeat=sum(sizes)))
    for row, z in enumerate(calibrations):
        worth = gain([[values[i] for i in z[start:end]] for start, end in pairwise(ends)])
        worths = [worth(value) for value in values]
        for k, (start, end) in enumerate(pairwise(ends)):
            for following in range(len(values)):
                key = k, z[:start], z[end:], tuple(sorted((*z[start:end], following)))
                place = places.setdefault(key, len(places))
                cost[place] = cost.get(place, 0.0) + float(shares[k]) * worths[following]
                if k == 0:
                    entries += [(len(calibrations) * len(sizes), place, 1.0)]
                    entries += [(len(calibrations) * j + row, place, -1.0) for j in range(1, len(sizes))]
                else:
                    entries.append((len(calibrations) * k + row, place, 1.0))
    rows, columns, numbers = zip(*entries, strict=True)
    table = coo_array((numbers, (rows, columns)), shape=(len(calibrations) * len(sizes) + 1, len(places)))
    wanted = np.zeros(table.shape[0])
    wanted[-1] = 1
    solved = linprog([cost[place] for place in range(len(places))], A_eq=table.tocsr(), b_eq=wanted, method="highs")
    assert solved.status == 0
    return float(solved.fun)


@pytest.mark.parametrize("sizes", [(1, 1), (2, 1), (0, 2)])
@pytest.mark.parametrize("guarantee", MIXTURES, ids=str)
def test_no_law_that_fulfils_the_assumption_covers_less(guarantee: fc.Mixture, sizes: tuple[int, int]) -> None:
    for alpha in ALPHAS:
        found = least_mean(sizes, range(4), guarantee.site_shares(sizes), covering(guarantee, alpha))
        assert found >= 1 - alpha - 1e-9


@pytest.mark.parametrize("sizes", [(1, 1, 1), (2, 2), (1, 0, 2), (1, 1, 1, 1)], ids=str)
@pytest.mark.parametrize("guarantee", [fc.Mixture(), fc.Mixture(weights="uniform")], ids=str)
def test_nor_any_of_more_sites(guarantee: fc.Mixture, sizes: tuple[int, ...]) -> None:
    for alpha in ALPHAS[::2]:
        found = least_mean(sizes, range(3), guarantee.site_shares(sizes), covering(guarantee, alpha))
        assert found >= 1 - alpha - 1e-9


def test_four_sites_of_one_row() -> None:
    """Rank 4 promises 3/4, which the paper's promises to be 1/2; more different scores come as close as one likes."""
    sizes, shares = (1, 1, 1, 1), [Fraction(1, 4)] * 4
    assert fc.Mixture().rank(Fraction(1, 4), sizes) == (4, 4)
    assert fc.Mixture().promised(sizes, sizes) == Fraction(3, 4)
    assert fc.FCP().promised(sizes, sizes) == Fraction(1, 2)
    assert least_mean(sizes, range(3), shares, at_rank(4)) == pytest.approx(13 / 17, abs=1e-9)  # .7647
    assert least_mean(sizes, range(5), shares, at_rank(4)) == pytest.approx(0.7516, abs=1e-4)
    assert least_mean(sizes, range(3), shares, at_rank(3)) < 0.54  # one rank lower


def test_a_rank_too_low_is_found_out() -> None:
    """The paper's shares, n_k + 1, are not covered by the rank of one pool; nor are n_k / N by a rank less."""
    by_rows, paper = [Fraction(2, 3), Fraction(1, 3)], [Fraction(3, 5), Fraction(2, 5)]
    assert least_mean((2, 1), range(4), by_rows, at_rank(2)) < 0.45
    assert fc.Mixture().rank(Fraction(1, 2), (2, 1)) == (3, 3)
    assert least_mean((2, 1), range(4), paper, at_rank(2)) == pytest.approx(0.4)
    for alpha in ALPHAS:
        assert least_mean((2, 1), range(4), paper, covering(fc.FCP(), alpha)) >= 1 - alpha - 1e-9


def of_class(
    share: fc.Guarantee | None, alpha: Fraction, price_of: Callable[[Parts], fc.Guarantee] | None = None
) -> Gain:
    """Rows are (of the class, score); a row is worth what it gains over 1 - alpha, and nothing if of another class."""

    def gain(parts: Parts) -> Callable[[Any], float]:
        held = [[score for mine, score in part if mine] for part in parts]
        bound = share if price_of is None else price_of(held)
        assert bound is not None
        q = smallest(bound, alpha, held) if any(held) else np.inf
        return lambda row: row[0] * (float(row[1] <= q) - float(1 - alpha))

    return gain


ROWS = [(True, 0), (True, 1), (True, 2), (False, 0)]


@pytest.mark.parametrize("sizes", [(1, 1), (2, 1), (0, 2)])
@pytest.mark.parametrize("guarantee", MIXTURES, ids=str)
def test_no_class_is_covered_less(guarantee: fc.Mixture, sizes: tuple[int, int]) -> None:
    """P(covered, class) >= (1 - alpha) P(class), also if a site without rows holds nothing but the class."""
    for alpha in ALPHAS:
        gain = of_class(guarantee.bind((), sizes, "class"), alpha)
        assert least_mean(sizes, ROWS, guarantee.site_shares(sizes), gain) >= -1e-9


def test_the_price_over_the_holders_alone_is_found_out() -> None:
    """It falls if the only row of the class at the heavy site is swapped for one of another class."""
    sizes, weights, alpha = (4, 1), (1, 4), Fraction(1, 4)
    shares, rows = [Fraction(1, 2)] * 2, [(True, 0), (True, 1), (False, 0)]

    def over_holders(held: Parts) -> fc.Guarantee:
        price = max((w for w, part in zip(weights, held, strict=True) if part), default=0)
        return StratumShare(weights=weights, price=price)

    assert least_mean(sizes, rows, shares, of_class(StratumShare(weights=weights, price=4), alpha)) >= -1e-9
    assert least_mean(sizes, rows, shares, of_class(None, alpha, over_holders)) == pytest.approx(-1 / 16)


CURVES = [(2, 2, 0), (2, 1, 0), (1, 1, 1), (0, 0, 0)]
"""Losses in halves at three thresholds, none of which rises; the safe action loses nothing."""


@pytest.mark.parametrize("sizes", [(1, 1), (2, 1), (0, 2)])
@pytest.mark.parametrize("guarantee", MIXTURES, ids=str)
def test_no_law_loses_more(guarantee: fc.Mixture, sizes: tuple[int, int]) -> None:
    group, promise = guarantee.grouped(sizes, 2)

    def losing(limit: Fraction) -> Gain:
        def gain(parts: Parts) -> Callable[[Any], float]:
            for t in range(3):
                kept = np.array([[sum(2 - curve[t] for curve in part)] for part in parts])
                if promise(summed(kept, group, sizes))[0] >= 1 - limit:
                    return lambda curve: -curve[t] / 2
            return lambda _: 0.0

        return gain

    for limit in ALPHAS:
        assert -least_mean(sizes, CURVES, guarantee.site_shares(sizes), losing(limit)) <= limit + 1e-9


@pytest.mark.parametrize("sizes", [(1, 1, 1), (2, 1, 1), (3, 1)], ids=str)
def test_no_mixture_of_a_set_is_covered_less(sizes: tuple[int, ...]) -> None:
    K, N = len(sizes), sum(sizes)
    tenth, half = Fraction(1, 10), Fraction(1, 2)
    contaminated = [[Fraction(9 * n, 10 * N) + tenth * (j == k) for j, n in enumerate(sizes)] for k in range(K)]
    for guarantee, mixtures in (
        (fc.WorstCase(contamination=0.1), contaminated),
        (fc.WorstCase(box=(0.1, 0.6)), corners([tenth] * K, [Fraction(3, 5)] * K)),
        (fc.WorstCase(box=(0, 0.5)), corners([Fraction(0)] * K, [half] * K)),
        (fc.WorstCase(), [[Fraction(j == k) for j in range(K)] for k in range(K)]),
    ):
        for alpha in (Fraction(1, 3), half, Fraction(2, 3)):
            for shares in mixtures:
                assert least_mean(sizes, range(3), shares, covering(guarantee, alpha)) >= 1 - alpha - 1e-9


@pytest.mark.parametrize("sizes", [(1, 1, 1), (2, 1)], ids=str)
def test_no_liar_lowers_coverage(sizes: tuple[int, ...]) -> None:
    """One more site sees all rows and claims what lowers the threshold most, of one to four scores."""
    robust, shares = fc.Robust(liars=1), [Fraction(n, sum(sizes)) for n in sizes]

    def fooled(alpha: Fraction) -> Gain:
        def gain(parts: Parts) -> Callable[[Any], float]:
            lies = [[-1] * low + [9] * (claim - low) for claim in range(1, 5) for low in range(claim + 1)]
            q = min(smallest(robust, alpha, [*parts, lie]) for lie in lies)
            return lambda score: float(score <= q)

        return gain

    for alpha in (Fraction(1, 3), Fraction(1, 2), Fraction(2, 3)):
        assert least_mean(sizes, range(3), shares, fooled(alpha)) >= 1 - alpha - 1e-9


SEEN = pytest.mark.parametrize("seen", [((0, 1), (0,)), ((0, 1), (0, 1)), ((0,), (0, 1))], ids=str)


def least_of_patients(guarantee: fc.Guarantee, shares: Sequence[Fraction], alpha: Fraction, seen: Parts) -> float:
    """Go through any bag of patients, each with a score at both sites, and any of them the new one."""
    bags = dict[object, list[float]]()
    for patients in product(product(range(3), repeat=2), repeat=len(seen) + 1):
        new, known = patients[-1], list(zip(patients, seen, strict=False))
        q = smallest(guarantee, alpha, [[scores[k] for scores, sites in known if k in sites] for k in (0, 1)])
        covered = sum(float(share) * (score <= q) for share, score in zip(shares, new, strict=True))
        bags.setdefault(tuple(sorted(patients)), []).append(covered)
    return float(min(map(np.mean, bags.values())))


@SEEN
def test_the_paper_covers_a_new_patient_where_others_are_shared(seen: Sequence[Sequence[int]]) -> None:
    """`seen` says who was where."""
    sizes = [sum(k in sites for sites in seen) for k in (0, 1)]
    shares = [Fraction(n + 1, sum(sizes) + 2) for n in sizes]
    for alpha in ALPHAS:
        assert least_of_patients(fc.FCP(), shares, alpha, seen) >= 1 - alpha - 1e-9


def test_the_mixture_does_not() -> None:
    """The second of two patients at both sites has the ranks 3 and 4 of 4, and covers 2/3 at a promised 3/4."""
    half = [Fraction(1, 2)] * 2
    assert least_of_patients(fc.Mixture(), half, Fraction(1, 4), [(0, 1), (0, 1)]) == pytest.approx(2 / 3)
