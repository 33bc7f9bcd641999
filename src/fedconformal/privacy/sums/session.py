"""What a sums session is about: the same for the coordinator and every site, worked out from the first two messages."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

import msgspec
import numpy as np

from fedconformal._base import registry
from fedconformal._base.arrays import ALPHA_UNIT
from fedconformal._base.names import name_key
from fedconformal.errors import InputError
from fedconformal.guarantees import Guarantee
from fedconformal.privacy.distributed_dp import NoisyRound
from fedconformal.privacy.dp import as_epsilon, as_grid, check_alike
from fedconformal.privacy.sums.masks import FEWEST, HOLDERS, Circle, circle_of, is_majority
from fedconformal.privacy.sums.messages import Invite, Roster, unpack
from fedconformal.privacy.sums.radix import Rounds, summable, weighted_sum


@dataclass(frozen=True)
class Session:
    """Who takes part, and what is computed."""

    id: bytes
    coordinator: bytes
    alpha: Fraction
    guarantee: Guarantee
    rounds: Rounds | NoisyRound
    names: tuple[str, ...]
    sizes: tuple[int, ...]
    signing: tuple[bytes, ...]
    masking: tuple[bytes, ...]
    fingerprint: str
    """The SHA-256 of invitation and roster: if all sites see the same, nobody's keys were exchanged on the way."""

    def neighbours(self, index: int) -> list[int]:
        """Return the neighbours of a site, nearest first."""
        return self._circle.near(index)

    def holders(self, index: int) -> list[int]:
        """Return the neighbours that hold shares of a site's secrets."""
        return self._circle.near(index, HOLDERS)[:HOLDERS]

    @cached_property
    def _circle(self) -> Circle:
        return circle_of(self.names, bytes.fromhex(self.fingerprint))

    def as_bits(self, sites: Collection[int]) -> bytes:
        """Write some of the sites as a row of bits."""
        bits = np.zeros(len(self.names), dtype=np.uint8)
        bits[list(sites)] = 1
        return np.packbits(bits).tobytes()

    def of_bits(self, bits: bytes) -> frozenset[int]:
        """Read a row of bits."""
        return _of_bits(bits, len(self.names))

    def check_enough(self, answered: Collection[int]) -> None:
        """Refuse a sum over a few of the sites."""
        if len(answered) < FEWEST or not is_majority(len(answered), len(self.names)):
            raise InputError(f"only {len(answered)} of {len(self.names)} sites answered; their sum stays hidden")


@lru_cache(maxsize=4)  # with everybody in one process, all sites get the same list
def _of_bits(bits: bytes, count: int) -> frozenset[int]:
    found = np.flatnonzero(np.unpackbits(np.frombuffer(bits, dtype=np.uint8)))
    if len(bits) != (count + 7) // 8 or (len(found) and found[-1] >= count):
        raise InputError("a list of sites does not fit the roster")
    return frozenset(found.tolist())


def session_of(invite: Invite, roster: bytes) -> Session:
    """Work out the session from the roster as it is sent, which the coordinator has signed."""
    return _session(msgspec.msgpack.encode(invite), roster)


@lru_cache(maxsize=4)  # with everybody in one process, all sites get the same roster
def _session(invited: bytes, signed_roster: bytes) -> Session:
    invite = msgspec.msgpack.decode(invited, type=Invite)
    roster = unpack(signed_roster, Roster, invite.coordinator)
    if roster.session != invite.session:
        raise InputError("the roster is of another session")
    names, sizes, signing, masking = zip(*roster.sites, strict=True)
    if len(names) < FEWEST:
        raise InputError(f"there are {len(names)} sites, and sums of fewer than {FEWEST} hide too little")
    if len(set(map(name_key, names))) < len(names) or len(set(masking)) < len(names) or len(set(signing)) < len(names):
        raise InputError("a site or a key is on the roster twice")
    guarantee, alpha = guarantee_of(invite), Fraction(invite.alpha, ALPHA_UNIT)
    guarantee.bind(names, sizes)
    rounds: Rounds | NoisyRound
    if invite.epsilon is None:
        rounds = Rounds(tuple(invite.widths), weighted_sum(guarantee, alpha, sizes))
    else:
        epsilon, grid = as_epsilon(invite.epsilon), as_grid(invite.grid)
        rounds = NoisyRound(guarantee=guarantee, alpha=alpha, sizes=sizes, epsilon=epsilon, grid=grid)
    return Session(
        id=invite.session,
        coordinator=invite.coordinator,
        alpha=alpha,
        guarantee=guarantee,
        rounds=rounds,
        names=names,
        sizes=sizes,
        signing=signing,
        masking=masking,
        fingerprint=hashlib.sha256(invited + msgspec.msgpack.encode(roster)).hexdigest(),
    )


def guarantee_of(invite: Invite) -> Guarantee:
    """Read the guarantee of an invitation; one that needs more than is asked for is refused."""
    try:
        found = registry.build(json.loads(invite.guarantee), Guarantee)
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(f"the invitation's guarantee cannot be read: {error}") from None
    if invite.epsilon is not None:
        as_epsilon(invite.epsilon)
        as_grid(invite.grid)
        check_alike(found)
    return summable(found)
