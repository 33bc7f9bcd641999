"""The state of a watch as bytes: four that say of which, then MessagePack; one canonical form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import msgspec
import numpy as np

from fedconformal.errors import InputError


class Saved(Protocol):
    """What can be written."""

    def to_bytes(self) -> bytes:
        """Write the state."""


MOST_ROWS = 2**50
"""Counts up to this are exact in floats."""

T = TypeVar("T", bound=Saved)


def sealed(magic: bytes, state: Any) -> bytes:
    """Write a state."""
    return magic + msgspec.msgpack.encode(state)


def opened(magic: bytes, data: bytes, rebuilt: Callable[[bytes], T], what: str) -> T:
    """Read a state, which may be hostile: what is malformed, or not as it would be written again, is refused."""
    try:
        found = rebuilt(data[len(magic) :]) if data.startswith(magic) else None
        if found is not None and found.to_bytes() == data:
            return found
    except (msgspec.DecodeError, InputError, ValueError, OverflowError) as error:
        raise InputError(f"this is not the state of {what}: {error}") from None
    raise InputError(f"this is not the state of {what}")


def is_count(number: Any) -> bool:
    """Whether this is a number of rows."""
    return isinstance(number, int | np.integer) and not isinstance(number, bool) and 0 <= int(number) <= MOST_ROWS
