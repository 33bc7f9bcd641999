"""Terms of a sums session, derived by the coordinator and every site from the first two messages."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

import msgspec
import numpy as np

from fedconformal._base import registry
from fedconformal._base.arrays import ALPHA_UNIT
from fedconformal._base.names import name_key
from fedconformal.calibration.temperature import check_temperature
from fedconformal.errors import InputError
from fedconformal.guarantees import Guarantee
from fedconformal.privacy.distributed_dp import NoisyRound
from fedconformal.privacy.dp import as_epsilon, as_grid, check_alike
from fedconformal.privacy.release import check_one_end
from fedconformal.privacy.signatures import is_signed, keys_by_site
from fedconformal.privacy.sums.masks import FEWEST, circle_of, near, needed, quorum, unbroken
from fedconformal.privacy.sums.messages import Countersign, Identity, Invite, Roster, joining, signed_part, unpack
from fedconformal.privacy.sums.radix import Rounds, check_summable, score_rounds
from fedconformal.summaries import Provenance


@dataclass(frozen=True, eq=False)
class Session:
    """Participants and terms of a session."""

    id: bytes
    coordinator: bytes
    alpha: Fraction
    guarantee: Guarantee
    rounds: Rounds | NoisyRound
    names: tuple[str, ...]
    sizes: tuple[int, ...]
    signing: tuple[bytes, ...]
    masking: tuple[bytes, ...]
    identities: tuple[Identity | None, ...]
    """Lasting keys of the sites with verified signatures; None for a site without one."""
    provenance: Provenance
    fingerprint: str
    """The SHA-256 of invitation and roster: if it is the same at all sites, no key or score was replaced."""

    def neighbours(self, index: int) -> list[int]:
        """Return the neighbours of a site, nearest first; they share masks and hold shares of each other's secrets."""
        order, places = self._circle
        return near(order, places[index])

    @cached_property
    def _circle(self) -> tuple[list[int], list[int]]:
        return circle_of(self.names, bytes.fromhex(self.fingerprint))

    @property
    def needed(self) -> int:
        """Number of shares that recover a secret."""
        return needed(len(self.names))

    @property
    def near(self) -> int:
        """Number of neighbours that must be present to hide a site; with noise, counted among all others."""
        return (unbroken if self.rounds.noisy else needed)(len(self.names))

    @property
    def quorum(self) -> int:
        """Minimum number of sites in a sum, and of signatures of its list of sites."""
        return quorum(len(self.names))

    def about(self, number: int, prefix: int, present: bytes) -> bytes:
        """Return the digest of invitation, roster, question and present sites from which masks are derived."""
        question = number.to_bytes(4, "big") + prefix.to_bytes(8, "big") + present
        return hashlib.sha256(b"fedconformal round" + bytes.fromhex(self.fingerprint) + question).digest()

    def check_countersigned(
        self, about: bytes, present: Collection[int], signatures: Iterable[tuple[int, bytes]]
    ) -> None:
        """Refuse a list of sites with too few valid signatures."""
        signers = _signers(self.signing, self.id, about, tuple(signatures))
        if not signers <= frozenset(present):
            raise InputError("a site that is not on the list has signed it")
        if len(signers) < self.quorum:
            raise InputError(
                f"only {len(signers)} of {len(self.names)} sites signed the list of sites that answered; with fewer "
                f"than {self.quorum} nothing is revealed, and the session ends"
            )

    def as_bits(self, sites: Collection[int]) -> bytes:
        """Encode a subset of the sites as a bit vector."""
        bits = np.zeros(len(self.names), dtype=np.uint8)
        bits[list(sites)] = 1
        return np.packbits(bits).tobytes()

    def of_bits(self, bits: bytes) -> frozenset[int]:
        """Decode a bit vector."""
        count = len(self.names)
        indices = np.flatnonzero(np.unpackbits(np.frombuffer(bits, dtype=np.uint8)))
        if len(bits) != (count + 7) // 8 or (len(indices) and indices[-1] >= count):
            raise InputError("a list of sites does not fit the roster")
        return frozenset(indices.tolist())

    def check_enough(self, answered: Collection[int]) -> None:
        """Refuse a sum over too few sites."""
        if len(answered) < self.quorum:
            raise InputError(
                f"only {len(answered)} of {len(self.names)} sites are left; a sum of fewer than {self.quorum} stays "
                "hidden, and the session ends"
            )
        self.rounds.check_noise(answered)


@lru_cache(maxsize=4)  # with all sites in one process, they check the same signatures
def _signers(
    keys: tuple[bytes, ...], session: bytes, about: bytes, signatures: tuple[tuple[int, bytes], ...]
) -> frozenset[int]:
    for index, signature in signatures:
        signed = signed_part(Countersign(session, about, index))
        if index >= len(keys) or not is_signed(signed, signature, keys[index]):
            raise InputError(f"site number {index} did not sign this list of sites that answered")
    return frozenset(index for index, _ in signatures)


@lru_cache(maxsize=4)  # with all sites in one process, they get the same roster
def session_of(invited: bytes, signed_roster: bytes) -> Session:
    """Derive the session from the encoded invitation and the roster as signed and sent by the coordinator."""
    invite = msgspec.msgpack.decode(invited, type=Invite)
    roster = unpack(signed_roster, Roster, invite.coordinator)
    if roster.session != invite.session:
        raise InputError("the roster is of another session")
    names, sizes, signing, masking, identities = zip(*roster.sites, strict=True)
    if len(names) < FEWEST:
        raise InputError(f"there are {len(names)} sites, and a sum needs at least {FEWEST} to hide each")
    if len(set(map(name_key, names))) < len(names) or len(set(masking)) < len(names) or len(set(signing)) < len(names):
        twice = sorted({name for name in names if sum(name_key(name) == name_key(other) for other in names) > 1})
        raise InputError("a site or a key is on the roster twice" + (f": {', '.join(twice)}" if twice else ""))
    for entry in roster.sites:
        check_identity(entry[0], entry[4], joining(*entry[:4], roster.session))
    guarantee, alpha = guarantee_of(invite), Fraction(invite.alpha, ALPHA_UNIT)
    guarantee.bind(names, sizes)
    rounds: Rounds | NoisyRound
    if invite.epsilon is None:
        rounds = score_rounds(guarantee, alpha, sizes, invite.exponent)
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
        identities=identities,
        provenance=Provenance.from_header(roster.provenance),
        fingerprint=hashlib.sha256(invited + msgspec.msgpack.encode(roster)).hexdigest(),
    )


def check_scores(provenance: Provenance, invite: Invite, label: str) -> None:
    """Refuse scores for another alpha or day, losses, two-sided scores and invalid temperatures."""
    if provenance.temperature is not None:
        check_temperature(provenance.temperature)
    provenance.check_use(Fraction(invite.alpha, ALPHA_UNIT), lambda: label)
    if provenance.grid is not None:
        raise InputError(f"{label} has losses, and the session is for scores")
    check_one_end(provenance.score, label)


def check_identity(name: str, identity: Identity | None, joined: bytes) -> None:
    """Refuse an identity whose signature of the site's entry is invalid."""
    if identity is not None and not is_signed(joined, identity.signature, identity.key):
        raise InputError(f"site {name!r} joined with a key that is not its own")


def check_trusted(session: Session, trusted: Mapping[str, str]) -> None:
    """Refuse a roster with a site whose key is missing or differs from the trusted one."""
    keys = keys_by_site(trusted)
    for name, identity in zip(session.names, session.identities, strict=True):
        if name_key(name) not in keys:
            raise InputError(f"no key is trusted for site {name!r}, which is on the roster; nothing was sent")
        if identity is None or identity.key.hex() != keys[name_key(name)].lower():
            how = "without a key of its own" if identity is None else "with another key than the one that is trusted"
            raise InputError(f"site {name!r} joined {how}; nothing was sent")


def guarantee_of(invite: Invite) -> Guarantee:
    """Decode the guarantee of an invitation; refused if the session cannot compute it."""
    try:
        guarantee = registry.rebuild(json.loads(invite.guarantee), Guarantee)
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(f"the invitation's guarantee cannot be read: {error}") from None
    if invite.epsilon is not None:
        as_epsilon(invite.epsilon)
        as_grid(invite.grid)
        check_alike(guarantee)
    return check_summable(guarantee)
