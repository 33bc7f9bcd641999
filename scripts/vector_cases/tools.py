"""A sound file of every kind, of which fields are replaced: what hostile files are made from."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Any

import msgspec

import fedconformal as fc

Case = dict[str, Any]

PREFIX = 9
HEADER = ("sizes", "sites", "score", "model", "temperature")
FIELDS: dict[str, tuple[str, ...]] = {
    "E": ("values",),
    "R": ("points", "alpha", "values", "lower", "below", "gap"),
    "D": ("buckets", "counts", "smallest", "largest"),
    "T": ("means", "weights", "smallest", "largest"),
    "C": ("labels", "parts"),
    "G": ("columns", "groups", "parts"),
    "L": ("rounded", "places", "sums"),
}
SCORES = [0.25, 0.5, 0.5, 1.0, 2.0]


def floats(*values: float) -> bytes:
    """Write float64."""
    return struct.pack(f"<{len(values)}d", *values)


def counts(*values: int) -> bytes:
    """Write uint64."""
    return struct.pack(f"<{len(values)}Q", *values)


def seal(body: bytes, letter: str = "E", version: str = "1") -> bytes:
    """Put a body into an envelope with the right checksum."""
    start = b"FCS" + version.encode("latin-1") + letter.encode("latin-1")
    return start + zlib.crc32(start + body).to_bytes(4, "little") + body


class File:
    """A sound file, of which some fields are replaced."""

    def __init__(self, summary: fc.Summary) -> None:
        data = summary.to_bytes()
        self.version, self.letter = chr(data[3]), chr(data[4])
        found: Any = msgspec.msgpack.decode(data[PREFIX:])
        self.about, fields = found if self.version == "2" else ({}, found)
        self.fields = dict(zip(HEADER + FIELDS[self.letter], fields, strict=True))

    def having(self, about: dict[str, Any] | None = None, **altered: Any) -> bytes:
        """Write it with other fields; `about` are those of version 2."""
        said = self.about | (about or {})
        array = list((self.fields | altered).values())
        return seal(msgspec.msgpack.encode([said, array] if said else array), self.letter, "2" if said else "1")


def altered(file: File, what: str, fields: dict[str, Case]) -> Iterator[tuple[str, bytes]]:
    """Write a file once for each of these fields."""
    for name, other in fields.items():
        yield f"{what}: {name}", file.having(**other)
