"""Masks that hide each site's counts and cancel in the sum, shares of secrets, and how many sites may collude.

Bonawitz et al., "Practical secure aggregation for privacy-preserving machine learning", 2017; Bell et al., "Secure
single-server aggregation with (poly)logarithmic overhead", 2020. Neighbours derive a mask from a shared key and from
what the round is about, so sites that were asked different things add masks that do not cancel. t = ceil(K / 3) sites
that show the coordinator all they know learn only the sum over those who answered (docs/threat-model.md).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from functools import cache
from math import comb
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedconformal.privacy.signatures import MaskingKey
from fedconformal.privacy.sums.radix import Counted

KEY = 32
NONCE = bytes(12)
PURPOSE = b"fedconformal 2"


def circle_of(names: tuple[str, ...], secret: bytes) -> tuple[list[int], list[int]]:
    """Put the sites in a circle, in an order that follows from the secret; return it, and the place of each site."""
    order = sorted(range(len(names)), key=lambda k: hashlib.sha256(secret + names[k].encode()).digest())
    return order, np.argsort(order).tolist()


def near(order: list[int], here: int) -> list[int]:
    """Return the neighbours of the site at a place in the circle, nearest first: look both ways.

    >>> near([2, 0, 1, 3], here=1)
    [1, 2, 3]
    """
    count = len(order)
    reach = min(NEIGHBOURS // 2, (count - 1) // 2)
    found = [order[(here + step) % count] for away in range(1, reach + 1) for step in (away, -away)]
    if count % 2 == 0 and reach == (count - 1) // 2:  # a small circle: everybody, also the one just opposite
        found.append(order[(here + count // 2) % count])
    return found


class PairKeys(NamedTuple):
    """Secret shared by two neighbours."""

    mask: bytes
    seal: bytes
    """For shares on their way from one to the other."""


def pair_keys(mine: MaskingKey, theirs: bytes, fingerprint: str) -> PairKeys:
    """Agree with a neighbour on keys, for invitation and roster with this fingerprint: they open nothing of another.

    They follow from both public keys as well (RFC 7748, section 6.1). Several spellings of a key agree on the same, so
    who joins with somebody else's would have its masks added where those of the owner are subtracted.
    """
    about = bytes.fromhex(fingerprint) + b"".join(sorted((mine.public, theirs)))
    both = hashlib.blake2b(about, key=mine.agreed_with(theirs), person=PURPOSE).digest()
    return PairKeys(both[:KEY], both[KEY:])


def check_public(key: bytes) -> None:
    """Refuse a public key with which no neighbour could agree on anything secret."""
    _any_key().agreed_with(key)


@cache
def _any_key() -> MaskingKey:
    return MaskingKey.new()


def round_key(secret: bytes, about: bytes) -> bytes:
    """Return the key of one round: of two neighbours from their key, of a site's own mask from its secret of the round.

    >>> round_key(bytes(32), b"one list of sites") == round_key(bytes(32), b"another")
    False
    """
    return hashlib.blake2b(about, key=secret, digest_size=KEY).digest()  # a fifth of the time of HMAC-SHA-256


def masks_of(keys: Iterable[bytes], words: int, dtype: np.dtype[Any]) -> Counted:
    """Expand each key to pseudorandom words, and add these up.

    Zeros encrypted are the key stream itself. A key is expanded to one stream only, so its nonce can stay the same; and
    AES-GCM is the one-call form of AES in counter mode, whose tag of 16 bytes is of no use here.
    """
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    zeros = bytes(words * dtype.itemsize)
    streams = b"".join([AESGCM(key).encrypt(NONCE, zeros, None) for key in keys])
    table = np.frombuffer(streams, dtype=dtype).reshape(-1, words + 16 // dtype.itemsize)
    total: Counted = table[:, :words].sum(axis=0, dtype=dtype)
    return total


def seal(key: bytes, share: bytes, about: bytes) -> bytes:
    """Encrypt shares for their holder, by AES-GCM; `about` (session, from, to) is different every time."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(key).encrypt(about[-12:], share, about)  # a key is for one session; from and to are in the nonce


def unseal(key: bytes, sealed: bytes, about: bytes) -> bytes | None:
    """Decrypt shares; None if they are not what was sent."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    try:
        return AESGCM(key).decrypt(about[-12:], sealed, about)
    except InvalidTag:
        return None


def about_share(session: bytes, sender: int, holder: int) -> bytes:
    """Say in bytes which share this is."""
    return session + sender.to_bytes(4, "big") + holder.to_bytes(4, "big")


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

    An honest site signs one list a round. Two lists would take 2 (q - t) > K - t honest signers, so there is one at
    most; and as q > t + 1, each sum holds the counts of two honest sites at least.

    >>> [quorum(sites) for sites in (3, 4, 5, 6, 7, 10, 100)]
    [3, 4, 4, 5, 6, 8, 68]
    """
    return (sites + colluders(sites)) // 2 + 1


@cache
def needed(sites: int) -> int:
    """Return how many shares put a secret together, and how many of its neighbours a site needs to hide behind.

    More than the colluders hold. Of more than 102 sites the holders are a hundred neighbours in a circle whose order
    follows from everybody's keys; colluders choose theirs last and can try 2^64 circles.

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
    """Return how many of its neighbours a site needs so that the circle stays in one piece, where the sum has noise.

    Two gaps of fifty places with colluders and sites left out would cut it in two sums. The site beside a
    gap sees all of it, so fewer places of it than are left here can be those of sites left out.

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


# Shamir (1979): each word of a secret is shared by itself, modulo the largest prime below 2^16, so that the shares of
# all words for all holders are one product of matrices, exact in float64.
PRIME = 65_521
WORDS = 8
SECRET = 2 * WORDS
"""The bytes of a secret, and of a share of it."""


def split(holders: int, enough: int, secrets: int) -> tuple[list[bytes], list[bytes]]:
    """Draw this many secrets; return them, and for each holder the shares of all of them, one after the other.

    >>> (one, other), held = split(holders=3, enough=2, secrets=2)
    >>> combine({0: held[0][:SECRET], 2: held[2][:SECRET]}) == one, combine({0: held[0][:SECRET]}) == one
    (True, False)
    """
    size = enough * secrets * WORDS
    drawn = np.frombuffer(os.urandom(8 * size), "<u8") % np.uint64(PRIME)  # 64 bits a word: no value is preferred
    polynomials = drawn.reshape(enough, secrets * WORDS)
    words = (_powers(holders, enough) @ polynomials.astype(np.float64)) % PRIME
    shares = [row.tobytes() for row in words.astype("<u2")]
    first = polynomials[0].astype("<u2").tobytes()
    return [first[k : k + SECRET] for k in range(0, len(first), SECRET)], shares


@cache
def _powers(holders: int, enough: int) -> NDArray[np.float64]:
    rows = [[pow(place + 1, power, PRIME) for power in range(enough)] for place in range(holders)]
    return np.array(rows, dtype=np.float64)


def combine(shares: dict[int, bytes]) -> bytes:
    """Put a secret together from as many shares as are needed, each with its holder's place."""
    total = np.zeros(WORDS, dtype=np.int64)
    for place, share in shares.items():
        above = below = 1
        for other in shares.keys() - {place}:
            above, below = above * (other + 1) % PRIME, below * (other - place) % PRIME
        total += np.frombuffer(share, "<u2").astype(np.int64) * (above * pow(below, -1, PRIME) % PRIME)
    return (total % PRIME).astype("<u2").tobytes()
