"""Refuses ONNX models whose tensors are stored in other files.

The specification lets a tensor name a file, which a runtime reads from the working directory: a stranger's model could
turn a private file into weights and carry it out in its scores, and weights could be exchanged under one fingerprint.
The walk knows the messages of onnx.proto that can hold a tensor, and steps over everything else. It is stricter than a
protobuf parser: every occurrence of a field counts, and what it cannot read is refused.
"""

from __future__ import annotations

from collections.abc import Iterator

from fedconformal.errors import InputError

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""Types of protobuf fields; ONNX has no groups."""
MOST_BYTES = 10
"""Bytes of a number."""
MOST_FIELDS = 2**29
DEEPEST = 100
"""Levels of messages, as protobuf's own parsers allow."""

EXTERNAL_DATA, DATA_LOCATION = 13, 14

MESSAGES: dict[str, dict[int, str]] = {
    "model": {7: "graph", 20: "training", 25: "function"},
    "training": {1: "graph", 2: "graph"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "function": {7: "node", 11: "attribute"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
    "tensor": {},
}
"""By message, the numbers of the fields that hold messages which can hold a tensor."""


def check_self_contained(data: bytes) -> None:
    """Refuse a model of which any tensor names another file.

    >>> check_self_contained(bytes([7 << 3 | 2, 4, 5 << 3 | 2, 2, 14 << 3, 1]))
    Traceback (most recent call last):
    fedconformal.errors.InputError: names another file for its weights; save it with its weights in one file
    """
    if not data:
        raise _broken("it is empty")
    to_do = [("model", memoryview(data), 0)]
    while to_do:
        message, content, level = to_do.pop()
        if level > DEEPEST:
            raise _broken(f"it has more than {DEEPEST} levels")
        for number, value in _fields(content):
            if message == "tensor" and (number == EXTERNAL_DATA or (number == DATA_LOCATION and value != 0)):
                raise InputError("names another file for its weights; save it with its weights in one file")
            if number in MESSAGES[message] and isinstance(value, memoryview):
                to_do.append((MESSAGES[message][number], value, level + 1))


def _fields(content: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Yield the number of each field of a message, and what it holds."""
    at = 0
    while at < len(content):
        tag, at = _number(content, at)
        number, kind = tag >> 3, tag & 7
        if not 0 < number < MOST_FIELDS:
            raise _broken("a field has no number")
        value: int | memoryview
        if kind == VARINT:
            value, at = _number(content, at)
        else:
            size, at = _number(content, at) if kind == BYTES else ({FIXED64: 8, FIXED32: 4}.get(kind, -1), at)
            if not 0 <= size <= len(content) - at:
                raise _broken("it is cut off, or is something else")
            value, at = content[at : at + size], at + size
        yield number, value


def _number(content: memoryview, at: int) -> tuple[int, int]:
    """Read a number of seven bits a byte, the low ones first, and say where it ends."""
    found = 0
    for place, byte in enumerate(content[at : at + MOST_BYTES]):
        found |= (byte & 127) << 7 * place
        if byte < 128:
            return found, at + place + 1
    raise _broken("it is cut off, or is something else")


def _broken(why: str) -> InputError:
    return InputError(f"is no ONNX model that can be run ({why})")
