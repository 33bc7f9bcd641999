"""Masks that hide each site's counts and cancel in the sum, and how the sum is opened when a site drops out.

Bonawitz et al., "Practical secure aggregation for privacy-preserving machine learning", 2017. Two neighbours agree on a
key (X25519, HKDF-SHA-256) and expand it (AES-256 in counter mode) to a mask that one of them adds and the other
subtracts. Each site adds a mask of its own as well, whose seed it reveals only after everybody knows who answered: so a
late message of a site that was given up stays hidden. Bell et al., "Secure single-server aggregation with
(poly)logarithmic overhead", 2020: a hundred neighbours are enough for any number of sites, if chosen at random.

Before the first round every site gives shares (Shamir) of two secrets to some neighbours, should it be lost. From the
first follow the seeds of its own masks: with it a site that is lost after its answer still counts. The second locks its
halves of the keys that it shares with its neighbours. One half says nothing, so the key of two neighbours comes to
light only when both of them are lost, and the masks that a lost site shares with those who are left stay on for ever.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from fedconformal._base.extras import needing
from fedconformal.errors import InputError
from fedconformal.privacy.distributed_dp import NoisyRound
from fedconformal.privacy.keys import MaskingKey
from fedconformal.privacy.sums.radix import Counted, Rounds

SECRET = 16
KEY = 32
NONCE = bytes(12)

# The thresholds of a session. A site that is asked to go below one refuses, and so does the coordinator.

FEWEST = 3
"""Sums of fewer sites hide too little: of two sites, each knows the other's counts from the sum."""
NEIGHBOURS = 100
"""The number of neighbours that a site shares masks with, if there are as many other sites."""
HOLDERS = 6
"""The number of neighbours that hold shares of a site's secrets."""


def needed(holders: int) -> int:
    """Return how many shares put a secret together: just over half.

    >>> needed(HOLDERS)
    4
    """
    return holders // 2 + 1


def is_majority(sites: int, everybody: int) -> bool:
    """Tell whether these are more than half: two sums over different halves would give a difference away.

    >>> is_majority(3, 6), is_majority(4, 6)
    (False, True)
    """
    return 2 * sites > everybody


def hide_enough(neighbours: int, everybody: int) -> bool:
    """Tell whether a site may answer with the masks of this many of its neighbours: a third of them.

    >>> hide_enough(33, 100), hide_enough(34, 100)
    (False, True)
    """
    return 3 * neighbours >= everybody


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


class PairKeys(NamedTuple):
    """What two neighbours agree on."""

    mask: bytes
    seal: bytes
    """For shares on their way from one to the other."""
    pad: bytes
    """Splits the key for masks in halves."""


def pair_keys(mine: MaskingKey, theirs: bytes, session: bytes) -> PairKeys:
    """Agree with a neighbour on keys, for the session with this id: they open nothing of another."""
    with needing("secure"):
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF
    agreed = mine.agreed_with(theirs)
    all_three = HKDF(algorithm=SHA256(), length=3 * KEY, salt=session, info=b"fedconformal sums").derive(agreed)
    return PairKeys(all_three[:KEY], all_three[KEY : 2 * KEY], all_three[2 * KEY :])


def check_public(key: bytes) -> None:
    """Refuse a public key with which no neighbour could agree on anything secret."""
    try:
        _any_key().agreed_with(key)
    except ValueError:
        raise InputError("the public key for masks is of no use") from None


@cache
def _any_key() -> MaskingKey:
    return MaskingKey.new()


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
    """Encrypt shares for their holder; `about` (session, from, to) is different every time."""
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    return ChaCha20Poly1305(key).encrypt(hashlib.sha256(about).digest()[:12], share, about)


def unseal(key: bytes, sealed: bytes, about: bytes) -> bytes | None:
    """Decrypt shares; None if they are not what was sent."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    try:
        return ChaCha20Poly1305(key).decrypt(hashlib.sha256(about).digest()[:12], sealed, about)
    except InvalidTag:
        return None


def about_share(session: bytes, sender: int, holder: int) -> bytes:
    """Say in bytes which share this is."""
    return session + sender.to_bytes(4, "big") + holder.to_bytes(4, "big")


def seed_of(secret: bytes, number: int) -> bytes:
    """Return the seed of a site's own mask in one round."""
    return hmac.digest(secret, b"round" + number.to_bytes(4, "big"), "sha256")[:SECRET]


def lock(secret: bytes, agreed: Iterable[tuple[PairKeys, bool]]) -> bytes:
    """Lock the halves of keys of one site; of each it says whether this site is the first of the two.

    >>> keys = PairKeys(b"m" * 32, b"s" * 32, b"p" * 32)
    >>> first, second = lock(b"1" * 16, [(keys, True)]), lock(b"2" * 16, [(keys, False)])
    >>> joined(unlock(b"1" * 16, first)[0], unlock(b"2" * 16, second)[0]) == keys.mask
    True
    """
    halves = b"".join(joined(keys.mask, keys.pad) if first else keys.pad for keys, first in agreed)
    return joined(halves, expand(secret, len(halves), np.dtype("u1")).tobytes())


def unlock(secret: bytes, locked: bytes) -> list[bytes]:
    """Return the halves."""
    halves = joined(locked, expand(secret, len(locked), np.dtype("u1")).tobytes())
    return [halves[start : start + KEY] for start in range(0, len(halves), KEY)]


def joined(one: bytes, other: bytes) -> bytes:
    """Return the exclusive or: of the halves of a key, the key."""
    return (np.frombuffer(one, np.uint8) ^ np.frombuffer(other, np.uint8)).tobytes()


def split(secret: bytes, holders: int) -> list[bytes]:
    """Make a share for every holder."""
    with needing("secure"):
        from Crypto.Protocol.SecretSharing import Shamir
    return [share for _, share in Shamir.split(needed(holders), holders, secret, ssss=False)]


def combine(shares: dict[int, bytes]) -> bytes:
    """Put a secret together from shares, each with its holder's place."""
    from Crypto.Protocol.SecretSharing import Shamir

    return bytes(Shamir.combine([(place + 1, share) for place, share in sorted(shares.items())], ssss=False))
