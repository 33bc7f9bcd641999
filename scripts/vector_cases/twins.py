"""Bad twins: every message that must be accepted, with one small corruption for which it must be refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from scripts.vector_cases.tools import Case, assemble, disassemble, seal


def _checksum(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


def _trailing(data: bytes) -> bytes:
    shared, own, words = disassemble(data)
    return assemble(shared, own, words + b"\0")


def _truncated(data: bytes) -> bytes:
    shared, own, words = disassemble(data)
    return assemble(shared, own, words[:-8])


def _long_number(data: bytes) -> bytes:
    """Write the first size, after the key, in one more byte than needed."""
    shared, own, words = disassemble(data)
    at = own.index(b"\xa5sizes") + 7
    longer = {0xCC: b"\xcd\x00", 0xCD: b"\xce\x00\x00", 0xCE: b"\xcf" + bytes(4)}.get(own[at])
    own = own[:at] + (b"\xcc" + own[at:] if longer is None else longer + own[at + 1 :])
    return assemble(shared, own, words)


def _long_map(data: bytes) -> bytes:
    shared, own, words = disassemble(data)
    return assemble(b"\xde\x00" + bytes([shared[0] & 15]) + shared[1:], own, words)


def _swapped_keys(data: bytes) -> bytes:
    shared, own, words = disassemble(data)
    return assemble(shared, dict(reversed(msgspec.msgpack.decode(own).items())), words)


def _reserved(data: bytes) -> bytes:
    shared, own, words = disassemble(data)
    return assemble(shared, msgspec.msgpack.decode(own) | {"patients": [1]}, words)


def _minus_zero(data: bytes) -> bytes:
    """Put the bits of -0.0, or an impossible count, first."""
    shared, own, words = disassemble(data)
    return assemble(shared, own, bytes(7) + b"\x80" + words[8:])


def _another_format(data: bytes) -> bytes:
    return seal(data[:3] + b"2" + data[4:-4])


TWINS: dict[str, Callable[[bytes], bytes]] = {
    "wrong checksum": _checksum,
    "trailing byte": _trailing,
    "one word too few": _truncated,
    "size in a longer form": _long_number,
    "map in a longer form": _long_map,
    "keys in another order": _swapped_keys,
    "reserved key": _reserved,
    "first word of minus zero": _minus_zero,
    "another format": _another_format,
}


def cases(good: Sequence[Case]) -> list[Case]:
    """Corrupt each of these, in turn in one of the ways."""
    names = list(TWINS)
    found = []
    for i, case in enumerate(good):
        name = names[i % len(names)]
        found.append({"name": f"{case['name']}: {name}", "bytes": TWINS[name](bytes.fromhex(case["bytes"])).hex()})
    return found
