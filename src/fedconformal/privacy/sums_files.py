"""A sums session by files: what coordinator and sites keep between two steps, and which step is next.

A site's state holds its private keys and its scores, and is never sent. It is written before the answer that it
belongs to, so that a step that was interrupted is never taken twice.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from fedconformal.errors import InputError
from fedconformal.files import naming, read_bytes, write_bytes
from fedconformal.privacy import sums_coordinator as middle
from fedconformal.privacy import sums_site as ends
from fedconformal.privacy.extras import needing
from fedconformal.privacy.messages import Invite, Key, Seed, unpack
from fedconformal.privacy.radix import Search
from fedconformal.summaries.base import Summary
from fedconformal.summaries.exact import ExactSummary


class SiteState(msgspec.Struct, array_like=True, forbid_unknown_fields=True, frozen=True):
    """What a site keeps."""

    summary: bytes
    signing: Key
    masking: Key
    invite: bytes = b""
    roster: bytes = b""
    number: int = 0
    seed: Seed | None = None


class CoordinatorState(msgspec.Struct, array_like=True, forbid_unknown_fields=True, frozen=True):
    """What the coordinator keeps."""

    signing: Key
    invite: bytes
    joins: list[bytes] = []
    number: int = 0
    prefix: int = 0
    below: int = 0
    present: list[int] = []
    answers: list[bytes] = []


def answer_bundle(state: SiteState, bundle: bytes) -> tuple[SiteState, bytes]:
    """Take all steps that a file from the coordinator asks for; return what to send back."""
    reply = b""
    for message in _decode(bundle, list[bytes], "a file of a sums session"):
        kind = message[4:5]
        site = _site(state)
        if kind == b"I":
            _, reply = ends.join(site, message)
            state = msgspec.structs.replace(state, invite=message)
        elif kind == b"R":
            ends.enter(site, message)
            state = msgspec.structs.replace(state, roster=message)
        else:
            site, reply = (ends.answer if kind == b"Q" else ends.reveal)(site, message)
            state = msgspec.structs.replace(state, number=site.number, seed=site.seed)
    return state, reply


def new_state(data: bytes) -> SiteState:
    """Make a site's state from the bytes of its own exact summary."""
    summary = Summary.from_bytes(data)
    if not isinstance(summary, ExactSummary) or len(summary.sites) != 1:
        raise InputError("a sums session needs all scores of one named site; summarise with --kind exact --site NAME")
    site = ends.new_site(summary.sites[0], summary.values)
    return SiteState(data, site.signing.private_bytes_raw(), site.masking.private_bytes_raw())


def joined_for(state: SiteState) -> tuple[str, float | None]:
    """Return a site's name, and the epsilon that it joined for; None if no noise was asked for."""
    return Summary.from_bytes(state.summary).sites[0], unpack(state.invite, Invite).epsilon


def _site(state: SiteState) -> ends.Site:
    with needing("secure"):
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
    summary: Any = Summary.from_bytes(state.summary)
    site = replace(
        ends.new_site(summary.sites[0], summary.values, summary.origin),
        signing=Ed25519PrivateKey.from_private_bytes(state.signing),
        masking=X25519PrivateKey.from_private_bytes(state.masking),
        invite=unpack(state.invite, Invite) if state.invite else None,
    )
    site = ends.enter(site, state.roster) if state.roster else site
    return replace(site, number=state.number, seed=state.seed)


def advance_files(
    state: CoordinatorState, received: Sequence[bytes]
) -> tuple[CoordinatorState, dict[str, bytes], middle.Coordinator]:
    """Take the next step with what the sites sent; return what to send to each of them, nothing at the end."""
    coordinator = _coordinator(state)
    changed = msgspec.structs.replace
    if coordinator.session is None:
        coordinator, roster = middle.seat(coordinator, received)
        state = changed(state, joins=list(received), present=sorted(coordinator.present))
        if coordinator.search.answer is not None:  # too few scores: nobody is asked
            return state, {}, coordinator
        return state, _to_all(coordinator, [roster, middle.ask(coordinator)]), coordinator
    if not coordinator.answers:
        coordinator, requests = middle.collect(coordinator, received)
        state = changed(state, answers=list(received))
        return state, {name: _encode([message]) for name, message in requests.items()}, coordinator
    coordinator = middle.finish(coordinator, received)
    search = coordinator.search
    if search.answer is not None:
        return state, {}, coordinator
    state = changed(
        state,
        number=search.number,
        prefix=search.prefix,
        below=search.below,
        present=sorted(coordinator.present),
        answers=[],
    )
    return state, _to_all(coordinator, [middle.ask(coordinator)]), coordinator


def start_files(coordinator: middle.Coordinator, invitation: bytes) -> tuple[CoordinatorState, bytes]:
    """Return what the coordinator keeps, and the file that invites the sites."""
    return CoordinatorState(coordinator.signing.private_bytes_raw(), invitation), _encode([invitation])


def _coordinator(state: CoordinatorState) -> middle.Coordinator:
    with needing("secure"):
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    signing = Ed25519PrivateKey.from_private_bytes(state.signing)
    coordinator = middle.Coordinator(signing, unpack(state.invite, Invite))
    if not state.joins:
        return coordinator
    coordinator, _ = middle.seat(coordinator, state.joins)
    search = Search(state.number, state.prefix, state.below)
    coordinator = replace(coordinator, search=search, present=frozenset(state.present))
    return middle.collect(coordinator, state.answers)[0] if state.answers else coordinator


def _to_all(coordinator: middle.Coordinator, messages: list[bytes]) -> dict[str, bytes]:
    names = coordinator.session.names if coordinator.session else ()
    return {names[k]: _encode(messages) for k in sorted(coordinator.present)}


def _encode(content: Any) -> bytes:
    return msgspec.msgpack.encode(content)


def _decode(data: bytes, kind: Any, what: str) -> Any:
    try:
        return msgspec.msgpack.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, OverflowError, RecursionError) as error:
        raise InputError(f"this is not {what}: {error}") from None


def read_state(path: Path, kind: Any) -> Any:
    """Read a state."""
    with naming(path):
        return _decode(read_bytes(path), kind, "a state of a sums session")


def write_secret(path: Path, state: SiteState | CoordinatorState) -> None:
    """Write a state so that only its owner can read it."""
    mask = os.umask(0o077)
    try:
        write_bytes(path, _encode(state))
    finally:
        os.umask(mask)
