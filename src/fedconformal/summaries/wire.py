"""A summary as bytes: `FCS1`, a letter for the kind, a CRC-32, then one MessagePack array.

docs/wire-format.md has the page for people. Bytes come from outside and are hostile: every length is
bounded by what is really there, every value is checked, and only the one canonical encoding is accepted.
"""

from __future__ import annotations

import zlib
from typing import Annotated, Any, TypeVar

import msgspec
import numpy as np

from fedconformal.errors import InputError
from fedconformal.validation import Floats, Integers

MAGIC = b"FCS"
VERSION = b"1"
PREFIX = len(MAGIC) + len(VERSION) + 1 + 4
MAX_BYTES = 2**30
MAX_SITES = 2**20
MAX_SIZE = 2**32
"""No site has more scores than this; the certified ranks rely on it (see ranks.py)."""

Count = Annotated[int, msgspec.Meta(ge=1, le=MAX_SIZE)]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
Parameter = bool | int | float


class Header(msgspec.Struct, array_like=True, forbid_unknown_fields=True, frozen=True):
    """What every kind of summary says first, in this order."""

    sizes: Annotated[list[Count], msgspec.Meta(min_length=1, max_length=MAX_SITES)]
    sites: Annotated[list[Name], msgspec.Meta(max_length=MAX_SITES)]
    score: tuple[Name, Annotated[list[Parameter], msgspec.Meta(max_length=16)]] | None
    model: Name | None
    temperature: float | None


H = TypeVar("H", bound=Header)


def pack(letter: str, message: Header) -> bytes:
    """Encode a message of this kind."""
    body = msgspec.msgpack.encode(message)
    start = MAGIC + VERSION + letter.encode()
    return start + zlib.crc32(start + body).to_bytes(4, "little") + body


def kind_letter(data: bytes) -> str:
    """Check the envelope and return the letter of the kind."""
    if len(data) > MAX_BYTES:
        raise InputError(f"the summary has {len(data)} bytes, more than {MAX_BYTES}")
    if data[:3] != MAGIC:
        raise InputError("this is not a fedconformal summary (.fcs)")
    if len(data) <= PREFIX:
        raise InputError("the summary is truncated; ask the site to send it again")
    if data[3:4] != VERSION:
        raise InputError(
            f"the summary has format version {data[3:4]!r}, this release reads {VERSION!r}; update fedconformal"
        )
    if zlib.crc32(data[:5] + data[PREFIX:]) != int.from_bytes(data[5:PREFIX], "little"):
        raise InputError("the summary is truncated or altered (its checksum is wrong); ask the site to send it again")
    return chr(data[4])


def unpack(data: bytes, message: type[H]) -> H:
    """Decode the message behind a checked envelope."""
    try:
        return msgspec.msgpack.decode(data[PREFIX:], type=message)
    except (msgspec.DecodeError, UnicodeDecodeError, OverflowError, RecursionError) as error:
        raise InputError(f"the summary cannot be decoded: {error}") from None


def numbers(array: Floats | Integers, dtype: str) -> bytes:
    """Pack an array as little-endian `<f8` or `<u8`."""
    return array.astype(dtype, copy=False).tobytes()


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
