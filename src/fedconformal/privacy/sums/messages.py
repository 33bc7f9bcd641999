"""Messages of a sums session: `FCM1`, a letter for the kind, an Ed25519 signature, a MessagePack array.

Bytes are untrusted: lengths and types are checked, only the canonical encoding is accepted, and nothing is used before
its signature is verified. Every message names its session, and from the first answer on its subject (`Session.about`),
so that messages of other sessions, earlier rounds and replays are refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, TypeVar

import msgspec

from fedconformal._base.arrays import ALPHA_UNIT
from fedconformal.errors import InputError
from fedconformal.privacy.signatures import Key, SigningKey, is_signed
from fedconformal.privacy.sums.radix import FARTHEST
from fedconformal.summaries.format import MAX_SITES, MAX_SIZE, NOTHING, Name, ProvenanceHeader

MAGIC = b"FCM1"
SIGNATURE = 64
PREFIX = len(MAGIC) + 1 + SIGNATURE
MAX_BYTES = 2**28

Id = Annotated[bytes, msgspec.Meta(min_length=16, max_length=16)]
Digest = Annotated[bytes, msgspec.Meta(min_length=32, max_length=32)]
"""Digest of the subject of a message."""
Share = Annotated[bytes, msgspec.Meta(min_length=16, max_length=16)]
Sealed = Annotated[bytes, msgspec.Meta(min_length=32, max_length=2**11)]
"""Shares of a site's secrets of all rounds, and a tag of 16 bytes."""
Signature = Annotated[bytes, msgspec.Meta(min_length=SIGNATURE, max_length=SIGNATURE)]
Bits = Annotated[bytes, msgspec.Meta(max_length=MAX_SITES // 8 + 1)]
"""A subset of the sites as a bit vector."""
Size = Annotated[int, msgspec.Meta(ge=1, le=MAX_SIZE)]
Round = Annotated[int, msgspec.Meta(ge=0, lt=64)]
Index = Annotated[int, msgspec.Meta(ge=0, lt=MAX_SITES)]
Digits = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class Message(msgspec.Struct, array_like=True, forbid_unknown_fields=True, frozen=True):
    """Fields of every message."""

    letter: ClassVar[str]

    session: Id


class Invite(Message, frozen=True):
    """The coordinator's invitation, with the terms of the computation."""

    letter = "I"

    coordinator: Key
    alpha: Annotated[int, msgspec.Meta(gt=0, lt=ALPHA_UNIT)]
    guarantee: Annotated[str, msgspec.Meta(max_length=2**20)]
    epsilon: float | None = None
    """Epsilon of a session with noise, which has one round over `grid`."""
    grid: Annotated[list[float], msgspec.Meta(max_length=2**12)] = []
    exponent: Annotated[int, msgspec.Meta(ge=-FARTHEST, le=FARTHEST)] = 0
    """Exponent of the power of two by which the edges of cells are multiplied."""


class Identity(msgspec.Struct, array_like=True, forbid_unknown_fields=True, frozen=True):
    """A site's public key for all sessions, and its signature of the site's entry in this session."""

    key: Key
    signature: Signature


class Join(Message, frozen=True):
    """A site's name, number of scores, keys, and provenance of the scores."""

    letter = "J"

    site: Name
    size: Size
    signing: Key
    masking: Key
    identity: Identity | None = None
    provenance: ProvenanceHeader = NOTHING


Listed = tuple[Name, Size, Key, Key, Identity | None]


class Roster(Message, frozen=True):
    """All joined sites in the order of their numbers, and the common provenance of their scores; for all rounds."""

    letter = "R"

    sites: Annotated[list[Listed], msgspec.Meta(min_length=1, max_length=MAX_SITES)]
    provenance: ProvenanceHeader = NOTHING


class Deposit(Message, frozen=True):
    """Sealed shares of the site's secrets for all rounds, one for each neighbour, in case the site is lost."""

    letter = "D"

    site: Index
    shares: Annotated[list[tuple[Index, Sealed]], msgspec.Meta(max_length=128)]


class Question(Message, frozen=True):
    """Request to count the next digit of the scores with this prefix; masks are among the sites that are present."""

    letter = "Q"

    number: Round
    prefix: Digits
    present: Bits


class OfRound(Message, frozen=True):
    """Fields of every message from the first answer on."""

    about: Digest


class OfSite(OfRound, frozen=True):
    """Fields of every message of a round by or for one site."""

    site: Index


class Answer(OfSite, frozen=True):
    """A masked histogram."""

    letter = "A"

    counts: bytes


class Closed(OfRound, frozen=True):
    """Request to sign the list of answering sites, after all sites that are present have answered."""

    letter = "C"


class Countersign(OfSite, frozen=True):
    """A site's signature of the list of answering sites, by the signature of this message; one per round."""

    letter = "N"


class Signed(Countersign, frozen=True):
    """A countersignature as stored by the coordinator, with its signature."""

    signature: Signature


class Unmask(OfRound, frozen=True):
    """The signatures of the list, which each site verifies before it reveals."""

    letter = "U"

    signatures: Annotated[list[tuple[Index, Signature]], msgspec.Meta(max_length=MAX_SITES)]


class Reveal(OfSite, frozen=True):
    """The seed of a site's own mask in this round."""

    letter = "V"

    seed: Key


class Lost(OfSite, frozen=True):
    """The sites lost after their answer, with the sealed shares that this site holds."""

    letter = "L"

    shares: Annotated[list[tuple[Index, Sealed]], msgspec.Meta(max_length=128)]


class Shares(OfSite, frozen=True):
    """Opened shares of the lost sites' secrets, of this round only."""

    letter = "S"

    shares: Annotated[list[tuple[Index, Share]], msgspec.Meta(max_length=128)]


M = TypeVar("M", bound=Message)


def signed_part(message: Message) -> bytes:
    """Return the signed bytes of a message."""
    return MAGIC + message.letter.encode() + msgspec.msgpack.encode(message)


def pack(message: Message, key: SigningKey) -> bytes:
    """Encode and sign a message."""
    data = signed_part(message)
    return data[: len(MAGIC) + 1] + key.sign(data) + data[len(MAGIC) + 1 :]


def signature_of(data: bytes) -> bytes:
    """Return the signature of a message."""
    return data[len(MAGIC) + 1 : PREFIX]


def joining(site: str, size: int, signing: bytes, masking: bytes, session: bytes) -> bytes:
    """Return the bytes that a site signs with its lasting key when it joins a session."""
    return b"fedconformal sums join" + session + msgspec.msgpack.encode((site, size, signing, masking))


def letter_of(data: bytes) -> bytes:
    """Return the letter of a message's kind, unchecked."""
    return data[len(MAGIC) : len(MAGIC) + 1]


def unpack(data: bytes, kind: type[M], signer: bytes | Sequence[bytes] | None = None) -> M:
    """Decode a message, and verify it with the signer's public key.

    Of several keys, that of the site named in the message is used; without any, a Join or an Invite is verified with
    its own key, which proves integrity but not origin.
    """
    if len(data) > MAX_BYTES or data[: len(MAGIC)] != MAGIC or len(data) <= PREFIX:
        raise InputError("this is not a message of a sums session, or it is cut off")
    if letter_of(data) != kind.letter.encode():
        sent = letter_of(data)
        raise InputError(f"expected the message {kind.__name__}, got one of the kind {sent!r}; is it of another step?")
    try:
        message = msgspec.msgpack.decode(data[PREFIX:], type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, OverflowError, RecursionError) as error:
        raise InputError(f"the message {kind.__name__} cannot be decoded: {error}") from None
    if signer is None:
        signer = message.signing if isinstance(message, Join) else getattr(message, "coordinator", b"")
    elif not isinstance(signer, bytes):
        site: int = getattr(message, "site", len(signer))
        if site >= len(signer):
            raise InputError(f"there is no site number {site} on the roster")
        signer = signer[site]
    if not is_signed(data[: len(MAGIC) + 1] + data[PREFIX:], signature_of(data), signer):
        raise InputError("invalid signature: the message was altered, or has another sender")
    if msgspec.msgpack.encode(message) != data[PREFIX:]:
        raise InputError(f"the message {kind.__name__} is not in canonical form")
    return message
