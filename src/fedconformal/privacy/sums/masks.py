"""Masks that hide each site's counts and cancel in the sum, and how the sum is opened when a site drops out.

Bonawitz et al., "Practical secure aggregation for privacy-preserving machine learning", 2017. Two neighbours agree on a
key (X25519, keyed BLAKE2b). In each round they derive another from it (BLAKE2b again) and from what the round is about:
invitation, roster, question, and who is present. They expand it (AES-256 in counter mode) to a mask that one of them
adds and the other subtracts. Sites that were asked different things add different masks, and the sum is noise. Each
site adds a mask of its own as well, and reveals its seed only after enough sites signed the list of those who answered.
Bell et al., "Secure single-server aggregation with (poly)logarithmic overhead", 2020: a hundred neighbours are enough
for any number of sites, if chosen at random. Who may collude, and what holds then, is in `quorum`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from fedconformal.privacy.keys import MaskingKey
from fedconformal.privacy.sums.quorum import NEIGHBOURS
from fedconformal.privacy.sums.radix import Counted

KEY = 32
NONCE = bytes(12)
PURPOSE = b"fedconformal 2"


@dataclass(frozen=True)
class Circle:
    """All sites in a circle, at random."""

    order: list[int]
    place: list[int]
    """Where in the circle each site is."""

    def near(self, index: int) -> list[int]:
        """Return a site's neighbours, nearest first: look both ways.

        >>> sorted(circle_of(("a", "b", "c"), b"").near(0))
        [1, 2]
        """
        here, count = self.place[index], len(self.order)
        reach = min(NEIGHBOURS // 2, (count - 1) // 2)
        found = [self.order[(here + step) % count] for away in range(1, reach + 1) for step in (away, -away)]
        if count % 2 == 0 and reach == (count - 1) // 2:  # a small circle: everybody, also the one just opposite
            found.append(self.order[(here + count // 2) % count])
        return found


def circle_of(names: tuple[str, ...], secret: bytes) -> Circle:
    """Put the sites in a circle, in an order that follows from the secret."""
    order = sorted(range(len(names)), key=lambda k: hashlib.sha256(secret + names[k].encode()).digest())
    place = [0] * len(order)
    for position, k in enumerate(order):
        place[k] = position
    return Circle(order, place)


class PairKeys(NamedTuple):
    """What two neighbours agree on."""

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
