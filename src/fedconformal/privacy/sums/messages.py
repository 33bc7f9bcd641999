"""What coordinator and sites send each other: `FCM1`, a letter for the kind, an Ed25519 signature, a MessagePack array.

As everywhere, bytes are hostile: lengths are bounded by what is there, types are checked, only the one canonical
encoding is accepted, and nothing is used before its signature has been verified. Every message names its session
and round, so that one from elsewhere, from before or sent twice is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, ClassVar, TypeVar

import msgspec

from fedconformal._base.arrays import ALPHA_UNIT
from fedconformal.errors import InputError
from fedconformal.privacy.keys import Key, SigningKey, is_signed
from fedconformal.summaries.wire import MAX_SITES, MAX_SIZE, Name, ScoreField

MAGIC = b"FCM1"
SIGNATURE = 64
PREFIX = len(MAGIC) + 1 + SIGNATURE
MAX_BYTES = 2**28

Id = Annotated[bytes, msgspec.Meta(min_length=16, max_length=16)]
Seed = Annotated[bytes, msgspec.Meta(min_length=16, max_length=16)]
Share = Annotated[bytes, msgspec.Meta(min_length=16, max_length=16)]
Sealed = Annotated[bytes, msgspec.Meta(min_length=48, max_length=48)]
"""Shares of both secrets of a site, and a tag of 16 bytes."""
Bits = Annotated[bytes, msgspec.Meta(max_length=MAX_SITES // 8 + 1)]
"""Some of the sites, as a row of bits."""
Size = Annotated[int, msgspec.Meta(ge=1, le=MAX_SIZE)]
Round = Annotated[int, msgspec.Meta(ge=0, lt=64)]
Index = Annotated[int, msgspec.Meta(ge=0, lt=MAX_SITES)]
Digits = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class Message(msgspec.Struct, array_like=True, forbid_unknown_fields=True, frozen=True):
    """What every message says first."""

    letter: ClassVar[str]

    session: Id


class Invite(Message, frozen=True):
    """The coordinator says what will be computed."""

    letter = "I"

    coordinator: Key
    alpha: Annotated[int, msgspec.Meta(gt=0, lt=ALPHA_UNIT)]
    guarantee: Annotated[str, msgspec.Meta(max_length=2**20)]
    widths: Annotated[list[Annotated[int, msgspec.Meta(ge=1, le=16)]], msgspec.Meta(max_length=64)]
    least: Annotated[int, msgspec.Meta(ge=1, le=MAX_SIZE)] | None = None
    """Cells with fewer rows are split in fewer parts; None if the digits are those of the scores' own bits."""
    epsilon: float | None = None
    """With noise: then there is one round, over this grid."""
    grid: Annotated[list[float], msgspec.Meta(max_length=2**12)] = []


class Join(Message, frozen=True):
    """A site says who it is, how many scores it has, its two public keys, and what the scores were made from."""

    letter = "J"

    site: Name
    size: Size
    signing: Key
    masking: Key
    score: ScoreField | None = None
    model: Name | None = None
    temperature: float | None = None


class Roster(Message, frozen=True):
    """All who joined, in the order by which they are numbered; frozen for all rounds."""

    letter = "R"

    sites: Annotated[list[tuple[Name, Size, Key, Key]], msgspec.Meta(min_length=1, max_length=MAX_SITES)]


class Deposit(Message, frozen=True):
    """What is needed to do without a site: locked halves of its keys, and for some neighbours sealed shares."""

    letter = "D"

    site: Index
    halves: bytes
    shares: Annotated[list[tuple[Index, Sealed]], msgspec.Meta(max_length=64)]


class Question(Message, frozen=True):
    """Count the next digit of the scores that start with these; masks are for those who are present."""

    letter = "Q"

    number: Round
    prefix: Digits
    present: Bits


class Answer(Message, frozen=True):
    """A masked histogram."""

    letter = "A"

    number: Round
    prefix: Digits
    site: Index
    counts: bytes


class Unmask(Message, frozen=True):
    """Who answered."""

    letter = "U"

    number: Round
    answered: Bits


class Reveal(Message, frozen=True):
    """The seed of a site's own mask, and this round's masks that it shares with those who did not answer."""

    letter = "V"

    number: Round
    site: Index
    seed: Seed
    masks: Annotated[list[tuple[Index, bytes]], msgspec.Meta(max_length=2**10)]


class Lost(Message, frozen=True):
    """The sites that were lost after their answer, and the sealed shares of lost sites that are for this one."""

    letter = "L"

    number: Round
    site: Index
    lost: Bits
    shares: Annotated[list[tuple[Index, Sealed]], msgspec.Meta(max_length=2**10)]


class Shares(Message, frozen=True):
    """Opened shares of lost sites: of what their own masks follow from, if they had answered, and of their locks."""

    letter = "S"

    number: Round
    site: Index
    shares: Annotated[list[tuple[Index, Share | None, Share]], msgspec.Meta(max_length=2**10)]


M = TypeVar("M", bound=Message)


def pack(message: Message, key: SigningKey) -> bytes:
    """Encode and sign."""
    body = message.letter.encode() + msgspec.msgpack.encode(message)
    return MAGIC + body[:1] + key.sign(MAGIC + body) + body[1:]


def letter_of(data: bytes) -> bytes:
    """Return the letter for the kind of a message, before anything of it is checked."""
    return data[len(MAGIC) : len(MAGIC) + 1]


def unpack(data: bytes, kind: type[M], signer: bytes | Sequence[bytes] | None = None) -> M:
    """Decode, and verify with the signer's public key.

    Of several keys it is the one of the site that the message names; without any, a Join or an Invite is verified with
    the key that it brings, which shows that it was not altered, not whose it is.
    """
    if len(data) > MAX_BYTES or data[: len(MAGIC)] != MAGIC or len(data) <= PREFIX:
        raise InputError("this is not a message of a sums session, or it is cut off")
    if letter_of(data) != kind.letter.encode():
        raise InputError(f"expected the message {kind.__name__}, got one of the kind {letter_of(data)!r}")
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
    _verify(data, signer)
    if msgspec.msgpack.encode(message) != data[PREFIX:]:
        raise InputError(f"the message {kind.__name__} is not in canonical form")
    return message


@lru_cache(maxsize=4)  # with everybody in one process, all sites look at the same question
def _verify(data: bytes, signer: bytes) -> None:
    signed = data[: len(MAGIC) + 1] + data[PREFIX:]
    if not is_signed(signed, data[len(MAGIC) + 1 : PREFIX], signer):
        raise InputError("the message was altered, or is not from whom it says (its signature is wrong)")
