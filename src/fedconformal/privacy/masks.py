"""Masks that hide each site's counts and cancel in the sum, and what it takes to do without a site that drops out.

Bonawitz et al., "Practical secure aggregation for privacy-preserving machine learning", 2017. Two neighbours agree on a
key (X25519, HKDF-SHA-256) and expand it (AES-256 in counter mode) to a mask that one of them adds and the other
subtracts. Each site adds a mask of its own as well, whose seed it reveals only after everybody knows who answered: so a
late message of a site that was given up stays hidden. Shares of that seed (Shamir) lie with some neighbours, should the
site vanish before it has revealed it. Bell et al., "Secure single-server aggregation with (poly)logarithmic overhead",
2020: a hundred neighbours are enough for any number of sites, if they are chosen at random.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedconformal.privacy.distributed_dp import NoisyRound
from fedconformal.privacy.extras import needing
from fedconformal.privacy.radix import Counted, Rounds

NEIGHBOURS = 100
NONCE = bytes(12)
HOLDERS = 6
"""So many neighbours hold a share of a site's seed; just over half of them can put it together."""


@dataclass(frozen=True)
class Circle:
    """All sites in a circle, at random."""

    order: list[int]
    place: list[int]
    """Where in the circle each site is."""

    def near(self, index: int, most: int = NEIGHBOURS) -> list[int]:
        """Return a site's neighbours, nearest first: look both ways.

        >>> sorted(circle_of(("a", "b", "c"), b"").near(0))
        [1, 2]
        """
        here, count = self.place[index], len(self.order)
        reach = min(most // 2, (count - 1) // 2)
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


def pair_keys(mine: Any, theirs: bytes, session: bytes) -> tuple[bytes, bytes]:
    """Agree with a neighbour on two keys: one for masks, one to seal shares."""
    with needing("secure"):
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF
    agreed = mine.exchange(X25519PublicKey.from_public_bytes(theirs))
    both = HKDF(algorithm=SHA256(), length=64, salt=session, info=b"fedconformal sums").derive(agreed)
    return both[:32], both[32:]


def expand(key: bytes, words: int, dtype: np.dtype[Any], start: int = 0) -> Counted:
    """Expand a key to pseudorandom words, from the one with the number `start` on.

    Zeros encrypted are the key stream itself. A key is expanded to one stream only, so its nonce can stay the same; and
    AES-GCM is the one-call form of AES in counter mode, whose tag is of no use here.
    """
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    stream = AESGCM(key).encrypt(NONCE, bytes((start + words) * dtype.itemsize), None)
    return np.frombuffer(stream, dtype=dtype, count=words, offset=start * dtype.itemsize)


def span(rounds: Rounds | NoisyRound, number: int) -> tuple[int, int]:
    """Return where a round's words start in a mask for all rounds, and how many there are."""
    return sum(rounds.cells(r) for r in range(number)), rounds.cells(number)


def seal(key: bytes, share: bytes, about: bytes) -> bytes:
    """Encrypt a share for its holder; `about` (session, round, from, to) is different every time."""
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    return ChaCha20Poly1305(key).encrypt(hashlib.sha256(about).digest()[:12], share, about)


def unseal(key: bytes, sealed: bytes, about: bytes) -> bytes | None:
    """Decrypt a share; None if it is not what was sent."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    try:
        return ChaCha20Poly1305(key).decrypt(hashlib.sha256(about).digest()[:12], sealed, about)
    except InvalidTag:
        return None


def about_share(session: bytes, number: int, sender: int, holder: int) -> bytes:
    """Say in bytes which share this is."""
    return session + number.to_bytes(4, "big") + sender.to_bytes(4, "big") + holder.to_bytes(4, "big")


def needed(holders: int) -> int:
    """Return how many shares put a seed together."""
    return holders // 2 + 1


def split(seed: bytes, holders: int) -> list[bytes]:
    """Make a share for every holder."""
    with needing("secure"):
        from Crypto.Protocol.SecretSharing import Shamir
    return [share for _, share in Shamir.split(needed(holders), holders, seed, ssss=False)]


def combine(shares: dict[int, bytes]) -> bytes:
    """Put a seed together from shares, each with its holder's place."""
    from Crypto.Protocol.SecretSharing import Shamir

    return bytes(Shamir.combine([(place + 1, share) for place, share in sorted(shares.items())], ssss=False))
