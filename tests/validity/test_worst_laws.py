"""The worst of all laws of the rows that fulfil the assumption, by linear programming, for a few rows with ties.

What Mixture needs is said of each site by itself: given the calibration rows of the others, its own rows and its next
one are exchangeable. So there is a law for the next row of each site, and all of these agree on the calibration rows.
A law that covered less than promised would be found. The second part does the same for patients that sites share.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.sparse import coo_array

import fedconformal as fc

Parts = Sequence[Sequence[int]]
ALPHAS = [
    Fraction(1, 5),
    Fraction(1, 3),
    Fraction(2, 5),
    Fraction(1, 2),
    Fraction(3, 5),
    Fraction(2, 3),
    Fraction(4, 5),
]
GUARANTEES = [fc.Mixture(), fc.Mixture(weights=(0.7, 0.3)), fc.Mixture(weights=(0.2, 0.8)), fc.Mixture(weights=(0, 1))]


def finder(guarantee: fc.Guarantee, alpha: Fraction) -> Callable[[Parts], float]:
    """Return what finds the threshold: the smallest score whose counts promise enough."""

    def found(parts: Parts) -> float:
        for q in sorted({score for part in parts for score in part}):
            if guarantee.promised([sum(s <= q for s in part) for part in parts], list(map(len, parts))) >= 1 - alpha:
                return q
        return np.inf

    return found


def least_coverage(sizes: Sequence[int], values: int, shares: Sequence[float], find: Callable[[Parts], float]) -> float:
    """Return the least coverage over all laws of scores from 0 to `values` - 1."""
    ends = np.cumsum([0, *sizes]).tolist()
    places: dict[object, int] = {}  # a probability for each bag of a site's own rows, given those of the others
    cost: dict[int, float] = {}
    entries: list[tuple[int, int, float]] = []
    calibrations = list(product(range(values), repeat=sum(sizes)))
    for row, z in enumerate(calibrations):
        q = find([z[start:end] for start, end in pairwise(ends)])
        for k, (start, end) in enumerate(pairwise(ends)):
            for score in range(values):
                key = k, z[:start], z[end:], tuple(sorted((*z[start:end], score)))
                place = places.setdefault(key, len(places))
                cost[place] = cost.get(place, 0.0) + shares[k] * (score <= q)
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


def shares_of(guarantee: fc.Mixture, sizes: Sequence[int]) -> list[float]:
    parts = guarantee.parts(sizes)
    return [part / sum(parts) for part in parts]


@pytest.mark.parametrize("sizes", [(1, 1), (2, 1)])
@pytest.mark.parametrize("guarantee", GUARANTEES, ids=str)
def test_no_law_that_fulfils_the_assumption_covers_less(guarantee: fc.Mixture, sizes: tuple[int, int]) -> None:
    for alpha in ALPHAS:
        found = least_coverage(sizes, 4, shares_of(guarantee, sizes), finder(guarantee, alpha))
        assert found >= 1 - alpha - 1e-9


def test_a_rank_out_of_n_plus_one_is_found_out() -> None:
    shares = shares_of(fc.Mixture(), (2, 1))
    assert least_coverage((2, 1), 4, shares, finder(fc.Exchangeable(), Fraction(1, 2))) == pytest.approx(0.4)
    assert least_coverage((2, 1), 4, shares, finder(fc.Mixture(), Fraction(2, 5))) >= 0.6 - 1e-9


@pytest.mark.parametrize("seen", [((0, 1), (0,)), ((0, 1), (0, 1)), ((0,), (0, 1))], ids=str)
def test_shared_patients_and_a_new_one(seen: Sequence[Sequence[int]]) -> None:
    """Any bag of patients, each with a score at both sites, and any of them the new one; `seen` says who was where."""
    sizes = [sum(k in sites for sites in seen) for k in (0, 1)]
    for guarantee in GUARANTEES[:3]:
        shares = shares_of(guarantee, sizes)
        for alpha in ALPHAS[1::2]:
            find, bags = finder(guarantee, alpha), dict[object, list[float]]()
            for patients in product(product(range(3), repeat=2), repeat=len(seen) + 1):
                new, known = patients[-1], list(zip(patients, seen, strict=False))
                q = find([[scores[k] for scores, sites in known if k in sites] for k in (0, 1)])
                covered = sum(share * (score <= q) for share, score in zip(shares, new, strict=True))
                bags.setdefault(tuple(sorted(patients)), []).append(covered)
            assert min(map(np.mean, bags.values())) >= 1 - alpha - 1e-9
