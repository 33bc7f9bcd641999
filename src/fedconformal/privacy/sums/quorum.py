"""How many sites may work together with the coordinator, and the numbers that hold against them.

Promised: t = ceil(K / 3) sites that show the coordinator all they know learn no other site's counts, only the sum over
those who answered. Three numbers keep the promise; sites and coordinator refuse to go below them.

`quorum` sites at least have to be in every sum, and have to sign the list of those who answered before any of them
reveals anything. An honest site signs one list a round. Two lists would take 2 (q - t) > K - t honest signers, so there
is one at most; and as q > t + 1, each sum holds the counts of two honest sites at least, which hide each other.

`needed` shares put the secret of a lost site together: more than the colluders hold. Holders are the neighbours. Up to
102 sites these are all others, and t + 1 are needed. Of more sites they are a hundred in a circle whose order follows
from everybody's keys; colluders choose theirs last and can try 2^64 circles, and in none of them one of the K sites
has this many colluders among its neighbours, but for a chance of 2^-40. As many neighbours have to be present, too.

`unbroken` neighbours have to be present where the sum has noise. Two gaps in the circle, each of fifty places in a row
with colluders and sites that are left out, would cut it: two sums, of which each has a part of the noise only.
"""

from __future__ import annotations

from functools import cache
from math import comb

FEWEST = 3
"""Sums of fewer sites hide too little: of two sites, each knows the other's counts from the sum."""
NEIGHBOURS = 100
"""The number of neighbours that a site shares masks with, if there are more than 101 other sites."""
TRIES = 64
"""Colluders can look at two to the power of this many circles before they choose their keys."""
MARGIN = 40
"""They find what they look for with a chance of at most one half to the power of this."""


def colluders(sites: int) -> int:
    """Return how many sites may work with the coordinator.

    >>> [colluders(sites) for sites in (3, 4, 6, 7, 10)]
    [1, 2, 2, 3, 4]
    """
    return -(-sites // 3)


def quorum(sites: int) -> int:
    """Return how many of the sites have to be in a sum, and to sign the list of those who are.

    >>> [quorum(sites) for sites in (3, 4, 5, 6, 7, 10, 100)]
    [3, 4, 4, 5, 6, 8, 68]
    """
    return (sites + colluders(sites)) // 2 + 1


@cache
def needed(sites: int) -> int:
    """Return how many shares put a secret together, and how many of its neighbours a site needs to hide behind.

    >>> [needed(sites) for sites in (3, 4, 10, 100, 1000, 10_000)]
    [2, 3, 5, 35, 90, 93]
    """
    others, bad = sites - 1, colluders(sites)
    if others <= NEIGHBOURS + 1:
        return bad + 1
    ways, allowed = 0, comb(others, NEIGHBOURS) // (sites << TRIES + MARGIN)
    for found in range(min(bad, NEIGHBOURS), 0, -1):
        ways += comb(bad, found) * comb(others - bad, NEIGHBOURS - found)
        if ways > allowed:
            return found + 1
    raise AssertionError("a third of the sites are never so few")


@cache
def unbroken(sites: int) -> int:
    """Return how many of its neighbours a site needs so that the circle stays in one piece.

    The site beside a gap sees all of it, so fewer places of it than are left here can be those of sites left out.

    >>> [unbroken(sites) for sites in (10, 102, 250, 1000)]
    [5, 35, 94, 97]
    """
    bad, row = colluders(sites), NEIGHBOURS // 2
    if sites - 1 <= NEIGHBOURS + 1:
        return needed(sites)  # all others are neighbours: there are no gaps
    ways, allowed = 0, comb(sites, row) ** 2 // (sites**2 << TRIES + MARGIN)
    for out in range(row):
        ways += comb(bad, row - out) * comb(sites - bad, out)
        if ways**2 > allowed:
            return max(needed(sites), NEIGHBOURS - out + 1)
    raise AssertionError("a third of the sites are never so few")
