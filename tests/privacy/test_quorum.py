"""The numbers that hold against a third of the sites: exact, and as small as they can be."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from fedconformal.privacy.sums.masks import (
    MARGIN,
    NEIGHBOURS,
    PRIME,
    SECRET,
    TRIES,
    colluders,
    combine,
    needed,
    quorum,
    split,
    unbroken,
)


@pytest.mark.parametrize("sites", [*range(3, 20), *range(100, 106), 1000])
def test_one_list_a_round_and_two_honest_sites_in_every_sum(sites: int) -> None:
    bad, least = colluders(sites), quorum(sites)
    assert bad == max(1, math.ceil(Fraction(sites, 3)))
    assert bad + 2 <= least <= sites
    assert 2 * (least - bad) > sites - bad  # two lists would need more honest signers than there are
    assert 2 * (least - 1 - bad) <= sites - bad or least == bad + 2
    assert needed(sites) > bad or sites > NEIGHBOURS + 2


def chance(sites: int, bad: int, many: int) -> Fraction:
    """Return the chance that of the hundred neighbours of one site at least this many are among the bad ones."""
    law = Fraction(1)  # of none
    for draw in range(NEIGHBOURS):
        law *= Fraction(sites - 1 - bad - draw, sites - 1 - draw)
    total, laws = Fraction(0), law
    for found in range(1, NEIGHBOURS + 1):
        laws *= Fraction((bad - found + 1) * (NEIGHBOURS - found + 1), found * (sites - bad - 1 - NEIGHBOURS + found))
        total += laws if found >= many else 0
    return total


@pytest.mark.parametrize("sites", [1_000, 10_000])
def test_colluders_who_choose_their_keys_last_do_not_find_a_circle(sites: int) -> None:
    bad, enough = colluders(sites), needed(sites)
    likely = Fraction(1, 2**MARGIN)
    assert sites * 2**TRIES * chance(sites, bad, enough) <= likely
    assert sites * 2**TRIES * chance(sites, bad, enough - 1) > likely
    assert float(chance(sites, bad, 50)) == pytest.approx(stats.hypergeom(sites - 1, bad, NEIGHBOURS).sf(49))


def test_colluders_who_choose_their_keys_last_do_not_cut_the_circle() -> None:
    """With noise the circle has to stay in one piece; as many neighbours as `needed` would not keep it so."""

    def cut(sites: int, present: int) -> Fraction:
        """Bound the chance of two gaps: fifty places in a row without an honest site that is there."""
        bad, out = colluders(sites), NEIGHBOURS - present
        ways = sum(math.comb(bad, 50 - k) * math.comb(sites - bad, k) for k in range(min(out, 50) + 1))
        return sites**2 * Fraction(ways, math.comb(sites, 50)) ** 2

    for sites in (103, 250, 300, 1_000, 10_000):
        assert cut(sites, unbroken(sites)) <= Fraction(1, 2 ** (TRIES + MARGIN))
        assert cut(sites, unbroken(sites) - 1) > Fraction(1, 2 ** (TRIES + MARGIN))
    assert cut(300, needed(300)) > Fraction(1, 2**20)  # a million circles would have been enough


def test_as_many_shares_as_are_needed() -> None:
    secrets, held = split(holders=6, enough=4, secrets=3)
    assert {len(secret) for secret in secrets} == {SECRET}
    for k, secret in enumerate(secrets):
        mine = [share[SECRET * k : SECRET * (k + 1)] for share in held]
        for places in combinations(range(6), 4):
            assert combine({place: mine[place] for place in places}) == secret
        for fewer in combinations(range(6), 3):
            assert combine({place: mine[place] for place in fewer}) != secret
    secrets, held = split(holders=100, enough=90, secrets=1)
    assert combine(dict(list(enumerate(held))[10:])) == secrets[0]


def test_fewer_shares_fit_every_secret() -> None:
    """One share less than needed and any word at all: there is a share that makes this word the secret."""
    _, held = split(holders=3, enough=3, secrets=1)
    known = {0: held[0], 1: held[1]}
    last = np.frombuffer(held[2], "<u2").astype(np.int64)
    found = {combine({**known, 2: ((last + step) % PRIME).astype("<u2").tobytes()})[:2] for step in range(0, PRIME, 97)}
    assert len(found) == len(range(0, PRIME, 97))


def test_shares_are_uniform_words() -> None:
    words = np.concatenate([np.frombuffer(split(5, 3, 4)[1][0], "<u2") for _ in range(200)])
    assert words.max() < PRIME
    assert stats.kstest(words / PRIME, "uniform").pvalue > 1e-6
