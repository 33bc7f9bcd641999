"""What is missing for a guarantee: more scores, more sites, and how to say so.

All of it follows from what full counts promise. A guarantee that knows better registers a function of its own with
`missing`, `missing_sites`, `shortfall` or `counting`, in its own file (functools.singledispatch).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import singledispatch

from fedconformal.guarantees.guarantee import MOST_SCORES, Counts, Guarantee


def feasible(guarantee: Guarantee, alpha: Fraction, sizes: Counts) -> bool:
    """Whether some finite threshold promises 1 - alpha: at the largest score every count is full.

    >>> from fedconformal import Mixture
    >>> [feasible(Mixture(), Fraction(1, 10), sizes) for sizes in ([5, 4], [5, 5])]
    [False, True]
    """
    return guarantee.promised(sizes, sizes) >= 1 - alpha


@singledispatch
def missing(guarantee: Guarantee, alpha: Fraction, sizes: Counts) -> dict[int, int]:
    """Return how many more scores, at which sites, make the promise feasible; nothing if scores alone do not help.

    Where all scores weigh alike the first site stands for any. Else every site whose scores count is brought up to the
    same number.

    >>> from fedconformal import EverySite, Mixture
    >>> missing(Mixture(), Fraction(1, 10), [1, 2, 4]), missing(EverySite(), Fraction(1, 10), [9, 2, 4])
    ({0: 3}, {1: 7, 2: 5})
    """
    if feasible(guarantee, alpha, sizes) or missing_sites(guarantee, alpha, sizes):
        return {}
    if not guarantee.sites_apart:
        extra = least_enough(lambda more: feasible(guarantee, alpha, [sizes[0] + more, *sizes[1:]]), most=2**100)
        return {0: extra} if extra else {}
    places = counting(guarantee, sizes)
    inside = set(places)

    def raised(number: int) -> list[int]:
        return [max(n, number) if k in inside else n for k, n in enumerate(sizes)]

    high = least_enough(lambda number: feasible(guarantee, alpha, raised(number)))
    return {k: high - sizes[k] for k in places if sizes[k] < high} if high else {}


@singledispatch
def missing_sites(guarantee: Guarantee, alpha: Fraction, sizes: Counts) -> int:
    """Return how many more sites make the promise feasible, where more scores alone do not."""
    return 0


@singledispatch
def counting(guarantee: Guarantee, sizes: Counts) -> Sequence[int]:
    """Return the positions of the sites whose scores count; by default all."""
    return range(len(sizes))


@singledispatch
def shortfall(guarantee: Guarantee, alpha: Fraction, sizes: Counts, sites: Sequence[str]) -> str:
    """Say in words what is missing."""
    return what_is_missing(guarantee, alpha, sizes, sites)


def what_is_missing(
    guarantee: Guarantee, alpha: Fraction, sizes: Counts, sites: Sequence[str], *, classes: bool = False
) -> str:
    """Say how many sites or scores are missing, and where; or of which class, where classes play the sites.

    >>> from fedconformal import EverySite
    >>> what_is_missing(EverySite(), Fraction(1, 10), [9, 2, 4], ["a", "b", "c"])
    "calibration scores needed: 7 more at site 'b', 5 more at site 'c'"
    """
    if more := missing_sites(guarantee, alpha, sizes):
        return f"sites needed: {more} more, from the same population"
    needed = missing(guarantee, alpha, sizes)
    if not guarantee.sites_apart:
        return f"calibration scores needed: {needed[0]} more in all, at any site"
    names = [repr(site) for site in sites] or [f"number {k + 1}" for k in range(len(sizes))]
    one, many = ("of class", "of {} more classes") if classes else ("at site", "at {} more sites")
    if not needed:
        return "no number of calibration scores is enough, as failure is not below alpha; take a smaller one"
    parts = [f"{extra} more {one} {names[k]}" for k, extra in list(needed.items())[:5]]
    if len(needed) > len(parts):
        parts.append(f"and likewise {many.format(len(needed) - len(parts))}")
    return f"calibration scores needed: {', '.join(parts)}"


def least_enough(enough: Callable[[int], bool], most: int = MOST_SCORES) -> int:
    """Return the smallest number from 1 that is enough, if larger ones are too; 0 if none up to about `most` is.

    >>> least_enough(lambda number: number >= 37)
    37
    """
    high = 1
    while not enough(high):
        high *= 2
        if high > most:
            return 0
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
