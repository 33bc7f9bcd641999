"""The two proofs of a mixture in plain fractions, written out a second time: docs/proofs.md, "Mixture"."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import permutations
from typing import NamedTuple

Shares = Sequence[Fraction]
Counts = Sequence[int | Fraction]
Sizes = Sequence[int]


class Form(NamedTuple):
    """Divisors of the counts of each site, and the deduction."""

    rows: list[int]
    price: Fraction


def total(values: Sequence[Fraction]) -> Fraction:
    return sum(values, start=Fraction(0))


def form(mixtures: Sequence[Shares], sizes: Sizes) -> Form:
    """Return the form that costs less in the worst of these mixtures; a site without rows is promised nothing."""
    held = [k for k, n in enumerate(sizes) if n]
    largest = max((shares[k] / sizes[k] for shares in mixtures for k in held), default=Fraction(0))
    stand_ins = max(total([shares[k] / (sizes[k] + 1) for k in held]) for shares in mixtures)
    if largest <= stand_ins:
        return Form([max(n, 1) for n in sizes], largest)
    return Form([n + 1 for n in sizes], Fraction(0))


def of_mixture(shares: Shares, counts: Counts, sizes: Sizes) -> Fraction:
    """Return what a mixture is promised: sum lambda_k m_k / n_k less the largest lambda_k / n_k, or by stand-ins."""
    return of_mixtures([shares], counts, sizes)


def of_mixtures(mixtures: Sequence[Shares], counts: Counts, sizes: Sizes) -> Fraction:
    """Return what all of these mixtures are promised; those in between are promised no less."""
    rows, price = form(mixtures, sizes)
    sums = [total([w * m / n for w, m, n in zip(shares, counts, rows, strict=True)]) for shares in mixtures]
    return max(Fraction(0), min(sums) - price)


def in_class(mixtures: Sequence[Shares], counts: Counts, sizes: Sizes, totals: Sizes) -> Fraction:
    """Return what a class is promised under all of these mixtures, from its counts and sizes and those of all rows."""
    rows, price = form(mixtures, totals)
    found = []
    for shares in mixtures:
        worth = [w / n for w, n in zip(shares, rows, strict=True)]
        unseen = [w for w, n in zip(worth, totals, strict=True) if not price or not n]
        top = total([w * m for w, m in zip(worth, counts, strict=True)]) - price
        found.append(top / (total([w * n for w, n in zip(worth, sizes, strict=True)]) + total(unseen) or 1))
    return max(Fraction(0), min(found))


def corners(lower: Shares, upper: Shares) -> list[list[Fraction]]:
    """Return the corners of the mixtures with these bounds: what is left is given to one site after another."""
    found = []
    for order in permutations(range(len(lower))):
        weights, left = list(lower), 1 - total(lower)
        for k in order:
            more = min(left, upper[k] - lower[k])
            weights[k], left = weights[k] + more, left - more
        found.append(weights)
    return found
