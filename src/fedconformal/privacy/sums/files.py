"""A sums session by files: each of them holds the messages of one step; states are kept between two steps.

A state is written before the messages that belong to it are sent, so that a step that broke off is never taken twice.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec

from fedconformal._base.files import naming, read_bytes, write_bytes
from fedconformal.privacy.sums import site
from fedconformal.privacy.sums.coordinator import step
from fedconformal.privacy.sums.reading import read
from fedconformal.privacy.sums.state import CoordinatorState, SiteState, decode_state, decoded, encode_state

S = TypeVar("S", bound=msgspec.Struct)
Bundle = Annotated[list[bytes], msgspec.Meta(min_length=1)]


def bundle(message: bytes) -> bytes:
    """Return what a file holds that carries one message of the coordinator."""
    return msgspec.msgpack.encode([message])


def answer_bundle(state: SiteState, data: bytes, key: bytes | None = None) -> tuple[SiteState, bytes]:
    """Take all steps that a file from the coordinator asks for; return what to send back. `key` is for `site.join`."""
    reply = b""
    for message in decoded(data, Bundle, "a file of a sums session"):
        state, reply = site.step(state, message, key)
    return state, reply


def advance_files(state: CoordinatorState, paths: Iterable[Path]) -> tuple[CoordinatorState, dict[str, bytes]]:
    """Take the next step with what the sites sent; return what to write for each of them, nothing at the end.

    A file that is refused is named, so that one can go on without it.
    """
    messages, received = [], state.received
    for path in paths:
        data = read_bytes(path)
        received += len(data)
        with naming(path):
            messages.append(read(state, data))
    state, outgoing = step(state, messages)
    made = {message: bundle(message) for message in set(outgoing.values())}
    state = msgspec.structs.replace(state, received=received, tag=os.urandom(8).hex())
    return state, {name: made[message] for name, message in outgoing.items()}


def prepare(state: CoordinatorState, outgoing: Mapping[Path, bytes]) -> None:
    """Write what goes with a new state beside its places: sites must not get two different messages of one step."""
    for path, data in outgoing.items():
        write_bytes(path.with_name(f"{path.name}.{state.tag}"), data)


def publish(folder: Path, state: CoordinatorState) -> list[Path]:
    """Move what was prepared with this state to its places; what was prepared with another never counted."""
    found = {path.with_suffix(""): path for path in folder.glob(f"to-*.fcm.{state.tag}")}
    if found:
        for path in set(folder.glob("to-*.fcm*")) - found.keys() - set(found.values()):
            path.unlink()
    for path, prepared in found.items():
        prepared.replace(path)
    return sorted(found)


def read_state(path: Path, kind: type[S]) -> S:
    """Read a state."""
    with naming(path):
        return decode_state(read_bytes(path), kind)


def write_secret(path: Path, state: SiteState | CoordinatorState) -> None:
    """Write a state so that only its owner can read it."""
    write_bytes(path, encode_state(state), private=True)
