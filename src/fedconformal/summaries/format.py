"""Wire format of summaries: magic, shared header, own header, arrays, checksum.

The shared header holds the fields common to all sites of a calibration, with identical bytes in all messages.
docs/wire-format.md is the specification; `summary.py` encodes, `batch.py` decodes.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

MAGIC = b"FCS1"
NOISY = b"FCN1"
"""Magic of a `NoisyHistogram`."""
LENGTH = 4
"""Bytes of the length field before each header, and of the final checksum."""
RESIDUE = 0x2144DF1C
"""CRC-32 of all messages that end with their own CRC-32, and of no others."""
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
    """Encoded `Provenance`: a map in this order, without fields that have their default value."""

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
    """Kind and parameters, stratification, and provenance."""

    kind: Name
    parameters: Parameters = ()
    columns: Annotated[tuple[Name, ...], msgspec.Meta(max_length=MAX_COLUMNS)] = ()
    by_class: bool = False


class StratumHeader(msgspec.Struct, array_like=True, forbid_unknown_fields=True, frozen=True, gc=False):
    """A stratum: group, class, rows per site, and the numbers and array lengths of its kind."""

    group: Name | None
    label: Annotated[int, msgspec.Meta(ge=0, lt=MAX_LABEL)] | None
    sizes: Annotated[tuple[Annotated[int, msgspec.Meta(ge=0, le=MAX_SIZE)], ...], msgspec.Meta(max_length=MAX_SITES)]
    numbers: Numbers
    lengths: Lengths


class OwnHeader(msgspec.Struct, forbid_unknown_fields=True, frozen=True, omit_defaults=True, kw_only=True, gc=False):
    """Sizes and names of the sites, numbers and array lengths (whole or by stratum), and the count of omitted rows."""

    sizes: Annotated[tuple[Count, ...], msgspec.Meta(min_length=1, max_length=MAX_SITES)]
    sites: Annotated[tuple[Name, ...], msgspec.Meta(max_length=MAX_SITES)] = ()
    numbers: Numbers = ()
    lengths: Lengths = ()
    strata: tuple[StratumHeader, ...] = ()
    skipped: Annotated[int, msgspec.Meta(ge=0, le=MAX_SIZE * MAX_SITES)] = 0


SHARED = msgspec.msgpack.Decoder(SharedHeader)
OWN = msgspec.msgpack.Decoder(OwnHeader)
