"""Binary format of a summary: magic, shared header, own header, arrays, checksum.

The shared header holds what all sites of a calibration have in common, so its bytes are the same in all their messages.
docs/wire-format.md is the specification. Messages are hostile input: every length is bounded by the bytes present,
every value is checked, and only the canonical encoding is accepted.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedconformal._base.arrays import Floats, Integers
from fedconformal._base.names import abbreviate
from fedconformal.errors import InputError

MAGIC = b"FCS1"
NOISY = b"FCN1"
"""Magic of noisy counts, which `NoisyHistogram` reads."""
LENGTH = 4
"""Bytes of the length before each header, and of the checksum at the end."""
MAX_BYTES = 2**30
MAX_SITES = 2**20
MAX_SIZE = 2**32
"""Maximum number of scores of a site; the certified ranks rely on it (see ranks.py)."""
MAX_CLASSES = 2**16
MAX_LABEL = 2**20
MAX_GROUPS = 2**12
MAX_COLUMNS = 2**6

ENCODER = msgspec.msgpack.Encoder()
NOT_CANONICAL = "the summary is not in canonical form; ask the site to send it again"
TRUNCATED = "the summary is truncated; ask the site to send it again"

Count = Annotated[int, msgspec.Meta(ge=1, le=MAX_SIZE)]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
Parameters = Annotated[tuple[bool | int | float | Name, ...], msgspec.Meta(max_length=16)]
Described = tuple[Name, Parameters]
"""Name of a score or loss, and its parameters in order."""
Numbers = Annotated[tuple[int | float, ...], msgspec.Meta(max_length=2)]
Lengths = Annotated[tuple[Annotated[int, msgspec.Meta(ge=0, le=MAX_BYTES)], ...], msgspec.Meta(max_length=3)]


class ProvenanceHeader(
    msgspec.Struct, forbid_unknown_fields=True, frozen=True, omit_defaults=True, kw_only=True, gc=False
):
    """A `Provenance` on the wire: a map in this order, without the fields that have their default."""

    score: Described | None = None
    model: Name | None = None
    temperature: float | None = None
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
    loss: Described | None = None
    bound: float | None = None
    grid: bytes | None = None
    rising: bool = False
    trained: bool = False


NOTHING = ProvenanceHeader()


class SharedHeader(ProvenanceHeader, frozen=True):
    """The kind with its parameters, how rows are stratified, and the provenance."""

    kind: Name
    parameters: Parameters = ()
    columns: Annotated[tuple[Name, ...], msgspec.Meta(max_length=MAX_COLUMNS)] = ()
    by_class: bool = False


class StratumHeader(msgspec.Struct, array_like=True, forbid_unknown_fields=True, frozen=True, gc=False):
    """One stratum of a site: its group, its class, the rows of each site, and the numbers and arrays of its kind."""

    group: Name | None
    label: Annotated[int, msgspec.Meta(ge=0, lt=MAX_LABEL)] | None
    sizes: Annotated[tuple[Annotated[int, msgspec.Meta(ge=0, le=MAX_SIZE)], ...], msgspec.Meta(max_length=MAX_SITES)]
    numbers: Numbers
    lengths: Lengths


class OwnHeader(msgspec.Struct, forbid_unknown_fields=True, frozen=True, omit_defaults=True, kw_only=True, gc=False):
    """Sizes and names of the sites, numbers and lengths of the arrays (whole or by stratum), and rows left out."""

    sizes: Annotated[tuple[Count, ...], msgspec.Meta(min_length=1, max_length=MAX_SITES)]
    sites: Annotated[tuple[Name, ...], msgspec.Meta(max_length=MAX_SITES)] = ()
    numbers: Numbers = ()
    lengths: Lengths = ()
    strata: tuple[StratumHeader, ...] = ()
    skipped: Annotated[int, msgspec.Meta(ge=0, le=MAX_SIZE * MAX_SITES)] = 0


SHARED = msgspec.msgpack.Decoder(SharedHeader)
OWN = msgspec.msgpack.Decoder(OwnHeader)

Words = NDArray[np.uint64]
H = TypeVar("H")


@dataclass(frozen=True)
class Content:
    """Content of a summary that depends on its kind: parameters for the shared header, numbers and arrays of a site."""

    arrays: Sequence[NDArray[Any]]
    numbers: tuple[int | float, ...] = ()
    parameters: tuple[bool | int | float | str, ...] = ()
    kind: str = ""
    """Kind of the strata, if there are any."""
    strata: tuple[StratumHeader, ...] = ()
    columns: tuple[str, ...] = ()
    by_class: bool = False

    @property
    def lengths(self) -> tuple[int, ...]:
        """Lengths of the arrays."""
        return tuple(map(len, self.arrays))

    def expect(self, arrays: int, numbers: int = 0, parameters: int = 0) -> None:
        """Refuse a decoded message with another number of fields."""
        found = len(self.arrays), len(self.numbers), len(self.parameters), len(self.strata)
        if found != (arrays, numbers, parameters, 0):
            raise InputError("the summary has too many or too few fields for its kind; ask the site to send it again")


def pack(shared: SharedHeader, own: OwnHeader, arrays: Sequence[NDArray[Any]]) -> bytes:
    r"""Encode a message.

    >>> pack(SharedHeader(kind="exact"), OwnHeader(sizes=(1,), lengths=(1,)), [np.array([0.5])])[:16]
    b'FCS1\x0c\x00\x00\x00\x81\xa4kind\xa5e'
    """
    parts = [MAGIC]
    for header in (_encode(shared), _encode(own)):
        parts += [len(header).to_bytes(LENGTH, "little"), header]
    parts += [array.astype("<f8" if array.dtype.kind == "f" else "<u8", copy=False).tobytes() for array in arrays]
    checksum = 0
    for part in parts:
        checksum = zlib.crc32(part, checksum)
    return b"".join([*parts, checksum.to_bytes(LENGTH, "little")])


def shared_bytes(data: bytes) -> bytes:
    """Return a message up to the end of its shared header, after a check of the magic, the size and the checksum."""
    if data[: len(MAGIC)] != MAGIC:
        advice = "; it holds noisy counts: read it with NoisyHistogram.from_bytes" if data[:4] == NOISY else ""
        if data[:3] == MAGIC[:3]:
            raise InputError(f"the summary is of format {data[3:4]!r}, not 1; ask the site to send it again")
        raise InputError(f"this is not a fedconformal summary (.fcs){advice}", param="privacy" if advice else None)
    if len(data) > MAX_BYTES:
        raise InputError(f"the summary has {len(data)} bytes, more than {MAX_BYTES}")
    if zlib.crc32(memoryview(data)[:-LENGTH]) != int.from_bytes(data[-LENGTH:], "little"):
        raise InputError("the summary is truncated or altered (its checksum is wrong); ask the site to send it again")
    return data[: _end(data, len(MAGIC))]


def unpack_shared(start: bytes) -> SharedHeader:
    """Decode the shared header at the end of these bytes."""
    return _canonical(SHARED, start[len(MAGIC) + LENGTH :])


def unpack_own(data: bytes, at: int) -> tuple[OwnHeader, Words]:
    """Decode the own header at this place, and the words of the arrays after it."""
    end = _end(data, at)
    own = _canonical(OWN, data[at + LENGTH : end])
    size = len(data) - LENGTH - end
    lengths = [*own.lengths, *(length for stratum in own.strata for length in stratum.lengths)]
    if 8 * sum(lengths) != size:
        raise InputError(f"the summary has {size} bytes of arrays and claims {8 * sum(lengths)}")
    return own, np.frombuffer(data, dtype="<u8", offset=end, count=size // 8)


def split(words: Words, lengths: Sequence[int]) -> list[Words]:
    """Cut words into arrays of these lengths."""
    return np.split(words, np.cumsum(lengths)[:-1]) if lengths else []


def floats(words: NDArray[Any]) -> Floats:
    """Read words as float64."""
    return words.view("<f8").astype(np.float64)


def counts(words: NDArray[Any], what: str) -> Integers:
    """Read words as counts."""
    if len(words) and words.max() > MAX_SIZE * MAX_SITES:
        raise InputError(f"the summary's {what} hold an impossible count")
    return words.astype(np.int64)


def _end(data: bytes, at: int) -> int:
    """Return where the header at this place ends."""
    end = at + LENGTH + int.from_bytes(data[at : at + LENGTH], "little")
    if end > len(data) - LENGTH:
        raise InputError(TRUNCATED)
    return end


def _canonical(decoder: msgspec.msgpack.Decoder[H], data: bytes) -> H:
    try:
        found = decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, OverflowError, RecursionError) as error:
        raise InputError(f"the summary cannot be decoded: {abbreviate(str(error), 200)}") from None  # it may name a key
    if _encode(found) != data:
        raise InputError(NOT_CANONICAL)
    return found


def _encode(header: Any) -> bytes:
    """Encode a header; msgspec writes a struct of more than 15 optional fields in a longer form than its map."""
    return ENCODER.encode(
        header if isinstance(header, OwnHeader) else msgspec.to_builtins(header, builtin_types=(bytes,))
    )
