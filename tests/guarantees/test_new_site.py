"""A promise to fresh sites: the formula, and what is missing."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import pytest

import fedconformal as fc


@pytest.mark.parametrize(("alpha", "needed"), [("0.2", 4), ("0.1", 9), ("0.05", 19), ("0.3", 3), ("0.5", 1)])
def test_it_takes_sites_and_not_scores(alpha: str, needed: int) -> None:
    exact = Fraction(alpha)
    assert fc.NewSite().missing(exact, [1] * needed).sites == 0
    assert fc.NewSite().missing(exact, [1] * (needed - 1)).sites == 1


def orders(sizes: list[int]) -> Iterator[list[int]]:
    """Go through all orders of the rows of these sites, from the least score to the largest, as positions of sites."""
    if not any(sizes):
        yield []
    for site, left in enumerate(sizes):
        if left:
            for rest in orders([n - (k == site) for k, n in enumerate(sizes)]):
                yield [site, *rest]


def promised_below(order: list[int], sizes: list[int]) -> list[Fraction]:
    """Return, row by row, what the other sites promise just below it: it is covered as long as that is not enough."""
    found, below = [], [0] * len(sizes)
    for site in order:
        others = [k for k in range(len(sizes)) if k != site]
        found.append(fc.NewSite().promised([below[k] for k in others], [sizes[k] for k in others]))
        below[site] += 1
    return found


def check_every_order(sizes: list[int]) -> tuple[Fraction, Fraction]:
    """If n_k is part of the draw, any of K + 1 sites may be the fresh one: average over all of them, exactly.

    Return how far coverage is from 1 - alpha, in shares of 1 / (K + 1): the least and the most of all orders.
    """
    alphas = [Fraction(i, 60) for i in range(60 // len(sizes), 60)]
    distances = []
    for order in orders(sizes):
        promised = promised_below(order, sizes)
        for alpha in alphas:
            rows = [Fraction(1, sizes[site]) for site, below in zip(order, promised, strict=True) if below < 1 - alpha]
            distances.append(sum(rows, start=Fraction(0)) - (1 - alpha) * len(sizes))
    assert min(distances) >= 0, "coverage is below 1 - alpha"
    assert max(distances) < 1, "coverage is above 1 - alpha + 1/(K + 1)"
    return min(distances), max(distances)


@pytest.mark.parametrize("sizes", [[1, 1, 1, 1], [2, 2, 2], [1, 2, 3], [4, 3], [1, 1, 2, 2]])
def test_the_band_is_one_site_wide_if_sizes_are_part_of_the_draw(sizes: list[int]) -> None:
    least, most = check_every_order(sizes)
    assert least == 0
    assert most > Fraction(9, 10)


@pytest.mark.parametrize(("change", "seen"), [(Fraction(1, 6), "is below"), (-Fraction(1, 12), "is above")])
def test_a_promise_of_more_or_less_is_seen_in_some_order(
    monkeypatch: pytest.MonkeyPatch, change: Fraction, seen: str
) -> None:
    """Two sites of two rows: a score more is 1/6; both ends are sharp."""
    promised = fc.NewSite.promised
    monkeypatch.setattr(fc.NewSite, "promised", lambda *given: max(Fraction(0), promised(*given) + change))
    with pytest.raises(AssertionError, match=seen):
        check_every_order([2, 2, 2])
