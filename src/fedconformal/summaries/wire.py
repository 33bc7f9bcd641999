"""A summary as bytes: `FCS`, the version, a letter for the kind, a CRC-32, then one MessagePack array.

docs/wire-format.md has the page for people. Bytes come from outside and are hostile: every length is
bounded by what is really there, every value is checked, and only the one canonical encoding is accepted.
"""

from __future__ import annotations

import zlib
from functools import cache
from typing import Annotated, Any, Literal, TypeVar

import msgspec
import numpy as np

from fedconformal._base.arrays import Floats, Integers
from fedconformal._base.names import shown
from fedconformal.errors import InputError

MAGIC = b"FCS"
NOISY = b"FCN1"
"""How noisy counts begin, which `NoisyHistogram` reads."""
VERSIONS = b"12"
LETTER = len(MAGIC) + 1
PREFIX = LETTER + 1 + 4
MAX_BYTES = 2**30
MAX_SITES = 2**20
MAX_SIZE = 2**32
"""No site has more scores than this; the certified ranks rely on it (see ranks.py)."""
MAX_CLASSES = 2**16

ENCODER = msgspec.msgpack.Encoder()
NOT_CANONICAL = "the summary is not in canonical form; ask the site to send it again"

Count = Annotated[int, msgspec.Meta(ge=1, le=MAX_SIZE)]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
Parameter = bool | int | float
ScoreField = tuple[Name, Annotated[tuple[Parameter, ...], msgspec.Meta(max_length=16)]]
"""The name of a score, and its parameters in order."""


class Header(msgspec.Struct, array_like=True, forbid_unknown_fields=True, frozen=True, gc=False):
    """What every kind of summary says first, in this order."""

    sizes: Annotated[tuple[Count, ...], msgspec.Meta(min_length=1, max_length=MAX_SITES)]
    sites: Annotated[tuple[Name, ...], msgspec.Meta(max_length=MAX_SITES)]
    score: ScoreField | None
    model: Name | None
    temperature: float | None


class About(msgspec.Struct, forbid_unknown_fields=True, frozen=True, omit_defaults=True, gc=False):
    """What version 2 adds: a map with the keys that are needed, in this order."""

    classes: (
        Annotated[int, msgspec.Meta(ge=1, le=MAX_CLASSES)]
        | Annotated[tuple[Name, ...], msgspec.Meta(min_length=1, max_length=MAX_CLASSES)]
        | None
    ) = None
    precision: Literal["float32"] | None = None
    estimated: bool = False
    calibration: Name | None = None
    alpha: Name | None = None
    expires: Name | None = None
    loss: ScoreField | None = None
    bound: float | None = None
    grid: bytes | None = None
    rising: bool = False
    trained: bool = False


NOTHING = About()

H = TypeVar("H", bound=Header)


def pack(letter: str, message: Header, about: About = NOTHING) -> bytes:
    """Encode a message of this kind; as version 1 if there is nothing to say about it."""
    plain = about == NOTHING
    start = MAGIC + (b"1" if plain else b"2") + letter.encode()
    data = bytearray(start.ljust(PREFIX))
    ENCODER.encode_into(message if plain else (about, message), data, PREFIX)  # in place, as it may be long
    data[len(start) : PREFIX] = checksum_of(data).to_bytes(4, "little")
    return bytes(data)


def letter_of(data: bytes) -> str:
    """Check an envelope, and return the letter of the kind."""
    if len(data) > MAX_BYTES:
        raise InputError(f"the summary has {len(data)} bytes, more than {MAX_BYTES}")
    if data[:3] != MAGIC:
        advice = "; it holds noisy counts: read it with NoisyHistogram.from_bytes" if data[:4] == NOISY else ""
        raise InputError(f"this is not a fedconformal summary (.fcs){advice}", param="privacy" if advice else None)
    if len(data) <= PREFIX:
        raise InputError("the summary is truncated; ask the site to send it again")
    if data[3] not in VERSIONS:
        raise InputError(f"the summary has format version {data[3:4]!r}, not 1 or 2; update fedconformal")
    if checksum_of(data) != int.from_bytes(data[LETTER + 1 : PREFIX], "little"):
        raise InputError("the summary is truncated or altered (its checksum is wrong); ask the site to send it again")
    return chr(data[LETTER])


def checksum_of(data: bytes | bytearray) -> int:
    """Return the CRC-32 of an envelope, all but the four bytes that state it."""
    return zlib.crc32(memoryview(data)[PREFIX:], zlib.crc32(data[: LETTER + 1]))


def unpack(data: bytes, message: type[H]) -> tuple[H, About]:
    """Decode a message of this kind, in the one canonical form of MessagePack, and what is said about it."""
    body, plain = memoryview(data)[PREFIX:], data[len(MAGIC)] == VERSIONS[0]
    try:
        found = _decoder(message, plain=plain).decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, OverflowError, RecursionError) as error:
        raise InputError(f"the summary cannot be decoded: {shown(str(error), 200)}") from None  # it may name a key
    if ENCODER.encode(found) != body or (not plain and found[0] == NOTHING):
        raise InputError(NOT_CANONICAL)
    return (found, NOTHING) if plain else (found[1], found[0])


@cache
def _decoder(message: type[Header], *, plain: bool) -> msgspec.msgpack.Decoder[Any]:
    return msgspec.msgpack.Decoder(message if plain else tuple[About, message])  # type: ignore[valid-type]


def numbers(array: Floats | Integers, dtype: str) -> Any:
    """Show an array as little-endian `<f8` or `<u8`, to be encoded without a copy of its own."""
    return array.astype(dtype, copy=False).view(np.uint8).data


def array(data: bytes, dtype: str, what: str) -> Any:
    """Unpack an array; its length is what is there, never what is claimed."""
    if len(data) % 8:
        raise InputError(f"the summary's {what} have {len(data)} bytes, not a multiple of 8")
    values = np.frombuffer(data, dtype=dtype)
    if dtype == "<f8":
        return values.astype(np.float64)
    if len(values) and values.max() > MAX_SIZE * MAX_SITES:
        raise InputError(f"the summary's {what} hold an impossible count")
    return values.astype(np.int64)
