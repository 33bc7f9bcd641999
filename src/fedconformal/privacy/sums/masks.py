"""Pairwise masks that cancel in the sum, secret sharing, and the limits on collusion.

Bonawitz et al., "Practical secure aggregation for privacy-preserving machine learning", 2017; Bell et al., "Secure
single-server aggregation with (poly)logarithmic overhead", 2020. Neighbours derive a mask from a shared key and the
subject of the round, so masks of sites with different questions do not cancel. t = ceil(K / 3) sites that collude with
the coordinator learn only the sum over the sites that answered (docs/threat-model.md).
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
PURPOSE = b"fedconformal 2"


def circle_of(names: tuple[str, ...], secret: bytes) -> tuple[list[int], list[int]]:
    """Order the sites in a circle by a hash with the secret; return the order and the place of each site."""
    order = sorted(range(len(names)), key=lambda k: hashlib.sha256(secret + names[k].encode()).digest())
    return order, np.argsort(order).tolist()


def near(order: list[int], here: int) -> list[int]:
    """Return the neighbours of a place in the circle on both sides, nearest first.

    >>> near([2, 0, 1, 3], here=1)
    [1, 2, 3]
    """
    count = len(order)
    reach = min(NEIGHBOURS // 2, (count - 1) // 2)
    neighbours = [order[(here + step) % count] for away in range(1, reach + 1) for step in (away, -away)]
    if count % 2 == 0 and reach == (count - 1) // 2:  # a small circle: all sites, including the opposite one
        neighbours.append(order[(here + count // 2) % count])
    return neighbours


class PairKeys(NamedTuple):
    """Secrets shared by two neighbours."""

    mask: bytes
    seal: bytes
    """Encrypts shares sent between the two."""


def pair_keys(mine: MaskingKey, theirs: bytes, fingerprint: str) -> PairKeys:
    """Return the keys shared with a neighbour, bound to the fingerprint of invitation and roster.

    They are derived from both public keys as well (RFC 7748, section 6.1). Several encodings of a key agree on the same
    secret, so masks of a site with a copied key would be added where those of the owner are subtracted.
    """
    about = bytes.fromhex(fingerprint) + b"".join(sorted((mine.public, theirs)))
    both = hashlib.blake2b(about, key=mine.agreed_with(theirs), person=PURPOSE).digest()
    return PairKeys(both[:KEY], both[KEY:])


def round_key(secret: bytes, about: bytes) -> bytes:
    """Return the key of a round, from the key of two neighbours or from a site's secret for its own mask.

    >>> round_key(bytes(32), b"one list of sites") == round_key(bytes(32), b"another")
    False
    """
    return hashlib.blake2b(about, key=secret, digest_size=KEY).digest()  # a fifth of the time of HMAC-SHA-256


def masks_of(keys: Iterable[bytes], words: int, dtype: np.dtype[Any]) -> Counted:
    """Return the sum of the pseudorandom words of all keys.

    Encrypted zeros are the key stream. A key is expanded to one stream only, so the nonce may be constant. AES-GCM is a
    single call for AES in counter mode; its tag of 16 bytes is not used.
    """
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    zeros = bytes(words * dtype.itemsize)
    streams = b"".join([AESGCM(key).encrypt(bytes(12), zeros, None) for key in keys])
    table = np.frombuffer(streams, dtype=dtype).reshape(-1, words + 16 // dtype.itemsize)
    total: Counted = table[:, :words].sum(axis=0, dtype=dtype)
    return total


def seal(key: bytes, share: bytes, about: bytes) -> bytes:
    """Encrypt shares for their holder by AES-GCM; `about` (session, sender, holder) is never reused."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(key).encrypt(about[-12:], share, about)  # a key is for one session; from and to are in the nonce


def unseal(key: bytes, sealed: bytes, about: bytes) -> bytes | None:
    """Decrypt shares; None if they were altered."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    try:
        return AESGCM(key).decrypt(about[-12:], sealed, about)
    except InvalidTag:
        return None


def about_share(session: bytes, sender: int, holder: int) -> bytes:
    """Return the associated data of a share."""
    return session + sender.to_bytes(4, "big") + holder.to_bytes(4, "big")


FEWEST = 3
"""Minimum number of sites: with two, each could subtract its own counts from the sum."""
NEIGHBOURS = 100
"""Number of neighbours that a site shares masks with, if there are more than 101 other sites."""
TRIES = 64
"""Colluders can try 2 to the power of this many circles before they choose their keys."""
MARGIN = 40
"""Colluders succeed with probability at most 2 to the power of minus this."""


def colluders(sites: int) -> int:
    """Return the number of sites that may collude with the coordinator.

    >>> [colluders(sites) for sites in (3, 4, 6, 7, 10)]
    [1, 2, 2, 3, 4]
    """
    return -(-sites // 3)


def quorum(sites: int) -> int:
    """Return the minimum number of sites in a sum, and of signatures of its list of sites.

    An honest site signs one list per round. Two lists would need 2 (q - t) > K - t honest signers, so there is at most
    one; and because q > t + 1, each sum holds the counts of at least two honest sites.

    >>> [quorum(sites) for sites in (3, 4, 5, 6, 7, 10, 100)]
    [3, 4, 4, 5, 6, 8, 68]
    """
    return (sites + colluders(sites)) // 2 + 1


@cache
def needed(sites: int) -> int:
    """Return the number of shares that recover a secret, and of neighbours that must be present to hide a site.

    It exceeds the number of colluding holders. With more than 102 sites the holders are a hundred neighbours in a
    circle whose order depends on all keys; colluders choose theirs last and can try 2^64 circles.

    >>> [needed(sites) for sites in (3, 4, 10, 100, 1000, 10_000)]
    [2, 3, 5, 35, 90, 93]
    """
    others, bad = sites - 1, colluders(sites)
    if others <= NEIGHBOURS + 1:
        return bad + 1
    ways, allowed = 0, comb(others, NEIGHBOURS) // (sites << TRIES + MARGIN)
    for bad_holders in range(min(bad, NEIGHBOURS), 0, -1):
        ways += comb(bad, bad_holders) * comb(others - bad, NEIGHBOURS - bad_holders)
        if ways > allowed:
            return bad_holders + 1
    raise AssertionError("unreachable: a third of the sites collude")


@cache
def unbroken(sites: int) -> int:
    """Return the number of neighbours that a site needs to keep the circle connected, in sums with noise.

    Two gaps of fifty places with colluders and excluded sites would split it into two sums. The site next to a gap sees
    all of it, and by this number limits its places of excluded sites.

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
    raise AssertionError("unreachable: a third of the sites collude")


# Shamir (1979): each word of a secret is shared by itself, modulo the largest prime below 2^16, so that the shares of
# all words for all holders are one product of matrices, exact in float64.
PRIME = 65_521
WORDS = 8
SECRET = 2 * WORDS
"""Length in bytes of a secret and of a share of it."""


def split(holders: int, enough: int, secrets: int) -> tuple[list[bytes], list[bytes]]:
    """Draw secrets; return them, and for each holder the concatenated shares of all of them.

    >>> (first, second), held = split(holders=3, enough=2, secrets=2)
    >>> combine({0: held[0][:SECRET], 2: held[2][:SECRET]}) == first, combine({0: held[0][:SECRET]}) == first
    (True, False)
    """
    size = enough * secrets * WORDS
    drawn = np.frombuffer(os.urandom(8 * size), "<u8") % np.uint64(PRIME)  # of 64 bits, so the bias is negligible
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
    """Recover a secret from the needed number of shares, by their holders' places."""
    total = np.zeros(WORDS, dtype=np.int64)
    for place, share in shares.items():
        above = below = 1
        for other in shares.keys() - {place}:
            above, below = above * (other + 1) % PRIME, below * (other - place) % PRIME
        total += np.frombuffer(share, "<u2").astype(np.int64) * (above * pow(below, -1, PRIME) % PRIME)
    return (total % PRIME).astype("<u2").tobytes()
