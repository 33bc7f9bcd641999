"""Valid messages with some fields replaced: the material of hostile messages."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Any

import msgspec

import fedconformal as fc
from fedconformal.summaries.format import LENGTH, MAGIC, OwnHeader, SharedHeader

Case = dict[str, Any]

SCORES = [0.25, 0.5, 0.5, 1.0, 2.0]
ABSENT = object()
"""Stands for a field that is left out."""


def floats(*values: float) -> bytes:
    """Write float64."""
    return struct.pack(f"<{len(values)}d", *values)


def counts(*values: int) -> bytes:
    """Write uint64."""
    return struct.pack(f"<{len(values)}Q", *values)


def seal(content: bytes) -> bytes:
    """Append the right checksum."""
    return content + zlib.crc32(content).to_bytes(LENGTH, "little")


def assemble(shared: Any, own: Any, words: bytes) -> bytes:
    """Write a message; a header is bytes, or a value that is encoded."""
    headers = [one if isinstance(one, bytes) else msgspec.msgpack.encode(one) for one in (shared, own)]
    lengths = [len(one).to_bytes(LENGTH, "little") for one in headers]
    return seal(MAGIC + lengths[0] + headers[0] + lengths[1] + headers[1] + words)


def disassemble(data: bytes) -> tuple[bytes, bytes, bytes]:
    """Return the shared header, the own header and the arrays of a message."""
    parts, at = [], len(MAGIC)
    for _ in range(2):
        end = at + LENGTH + int.from_bytes(data[at : at + LENGTH], "little")
        parts.append(data[at + LENGTH : end])
        at = end
    return parts[0], parts[1], data[at:-LENGTH]


class File:
    """A valid message, of which some fields are replaced."""

    def __init__(self, summary: fc.Summary) -> None:
        shared, own, words = disassemble(summary.to_bytes())
        self.shared, self.own = msgspec.msgpack.decode(shared), msgspec.msgpack.decode(own)
        self.arrays: list[bytes] = []
        strata = [stratum[4] for stratum in self.own.get("strata", ())]
        for length in [*self.own.get("lengths", ()), *(one for lengths in strata for one in lengths)]:
            self.arrays.append(words[: 8 * length])
            words = words[8 * length :]

    def having(self, arrays: dict[int, bytes] | list[bytes] | None = None, **fields: Any) -> bytes:
        """Write it with other fields or arrays; lengths follow from the arrays unless they are given."""
        own_names = (*OwnHeader.__struct_fields__, "patients", "withheld", "missing", "partial")
        mine = {name: value for name, value in fields.items() if name in own_names}
        theirs = {name: value for name, value in fields.items() if name not in own_names}
        if isinstance(arrays, dict):
            arrays = [arrays.get(i, array) for i, array in enumerate(self.arrays)]
        if arrays is not None and "strata" not in self.own:
            mine = {"lengths": [len(array) // 8 for array in arrays]} | mine
        own = _ordered(self.own | mine, OwnHeader.__struct_fields__)
        shared = _ordered(self.shared | theirs, SharedHeader.__struct_fields__)
        return assemble(shared, own, b"".join(self.arrays if arrays is None else arrays))

    def strata(self, *altered: dict[int, Any], order: list[int] | None = None) -> list[list[Any]]:
        """Return the strata, each with some of its entries replaced, or only some of them in another order."""
        found = [list(one) for one in self.own["strata"]]
        for stratum, change in zip(found, altered, strict=False):
            for place, value in change.items():
                stratum[place] = value
        return found if order is None else [found[i] for i in order]


def _ordered(fields: Case, names: tuple[str, ...]) -> Case:
    known = [name for name in names if name in fields]
    rest = [name for name in fields if name not in names]
    return {name: fields[name] for name in (*known, *rest) if fields[name] is not ABSENT}


def altered(file: File, what: str, fields: dict[str, Case]) -> Iterator[tuple[str, bytes]]:
    """Write a message once for each of these fields."""
    for name, other in fields.items():
        yield f"{what}: {name}", file.having(**other)
