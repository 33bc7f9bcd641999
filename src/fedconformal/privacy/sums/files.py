"""A sums session by files: what coordinator and sites keep between two steps, and which step is next.

A site's state holds its private keys and its scores, and is never sent. It is written before the answer that it
belongs to, so that a step that was interrupted is never taken twice.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from fedconformal._base.extras import needing
from fedconformal._base.files import naming, read_bytes, write_bytes
from fedconformal.errors import InputError
from fedconformal.privacy.ledger import Rows, rows_of
from fedconformal.privacy.sums import coordinator as middle
from fedconformal.privacy.sums import site as ends
from fedconformal.privacy.sums.masks import PairKeys
from fedconformal.privacy.sums.messages import Invite, Key, Seed, unpack
from fedconformal.privacy.sums.radix import Search
from fedconformal.privacy.sums.reading import (
    Coordinator,
    read_answer,
    read_deposit,
    read_join,
    read_reveal,
    read_shares,
    seated,
)
from fedconformal.summaries.exact import ExactSummary
from fedconformal.summaries.summary import Summary


class SiteState(msgspec.Struct, array_like=True, forbid_unknown_fields=True, frozen=True):
    """What a site keeps."""

    summary: bytes
    signing: Key
    masking: Key
    secrets: tuple[Seed, Seed]
    invite: bytes = b""
    roster: bytes = b""
    agreed: list[tuple[Key, Key, Key]] = []
    number: int = 0
    open: bool = False
    present: list[int] = []
    may_open: bool = False


class CoordinatorState(msgspec.Struct, array_like=True, forbid_unknown_fields=True, frozen=True):
    """What the coordinator keeps."""

    signing: Key
    invite: bytes
    joins: list[bytes] = []
    deposits: list[bytes] = []
    number: int = 0
    prefix: int = 0
    below: int = 0
    present: list[int] = []
    dropped: dict[int, str] = {}
    answers: list[bytes] = []
    reveals: list[bytes] = []
    received: int = 0
    """Bytes from all sites, so far."""


STEPS = {b"I": ends.join, b"R": ends.enter, b"Q": ends.answer, b"U": ends.reveal, b"L": ends.open_shares}
KEPT = {b"I": "invite", b"R": "roster"}


def take_step(state: SiteState, message: bytes) -> tuple[SiteState, bytes]:
    """Take the step that a message from the coordinator asks for; return what to send back."""
    kind = message[4:5]
    if kind not in STEPS:
        raise InputError(f"this is not a message of a sums session for a site: its kind is {kind!r}")
    site, reply = STEPS[kind](_site(state), message)
    state = msgspec.structs.replace(
        state,
        agreed=list(site.agreed.values()),
        number=site.number,
        open=site.open,
        present=sorted(site.present),
        may_open=site.may_open,
        **({KEPT[kind]: message} if kind in KEPT else {}),
    )
    return state, reply


def answer_bundle(state: SiteState, bundle: bytes) -> tuple[SiteState, bytes]:
    """Take all steps that a file from the coordinator asks for; return what to send back."""
    reply = b""
    for message in _decode(bundle, list[bytes], "a file of a sums session"):
        state, reply = take_step(state, message)
    return state, reply


def is_over(state: SiteState) -> bool:
    """Tell whether nothing can be asked of a site any more: the last round is revealed, and the shares are open."""
    site = _site(state)
    last = site.session is not None and site.number >= len(site.session.rounds.widths)
    return last and not site.may_open


def new_state(data: bytes) -> SiteState:
    """Make a site's state from the bytes of its own exact summary."""
    summary = Summary.from_bytes(data)
    if not isinstance(summary, ExactSummary) or len(summary.sites) != 1:
        raise InputError('a sums session needs all scores of one named site; summarise with kind="exact" and a site')
    site = ends.new_site(summary.sites[0], summary.values)
    return SiteState(data, site.signing.private_bytes_raw(), site.masking.private_bytes_raw(), site.secrets)


def joined_for(state: SiteState) -> tuple[list[Rows], float | None]:
    """Return a site's rows, and the epsilon that it joined for; None if no noise was asked for."""
    return rows_of([Summary.from_bytes(state.summary)]), unpack(state.invite, Invite).epsilon


def _site(state: SiteState) -> ends.Site:
    with needing("secure"):
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
    summary: Any = Summary.from_bytes(state.summary)
    site = replace(
        ends.new_site(summary.sites[0], summary.values, summary.origin),
        signing=Ed25519PrivateKey.from_private_bytes(state.signing),
        masking=X25519PrivateKey.from_private_bytes(state.masking),
        secrets=state.secrets,
        invite=unpack(state.invite, Invite) if state.invite else None,
    )
    if state.roster:
        site = ends.take_seat(site, state.roster, (PairKeys(*keys) for keys in state.agreed))
    return replace(
        site, number=state.number, open=state.open, present=frozenset(state.present), may_open=state.may_open
    )


def advance_files(
    state: CoordinatorState, received: Sequence[bytes]
) -> tuple[CoordinatorState, dict[str, bytes], Coordinator]:
    """Take the next step with what the sites sent; return what to send to each of them, nothing at the end."""
    coordinator = _coordinator(state)
    changed = msgspec.structs.replace
    state = changed(state, received=state.received + sum(map(len, received)))
    if coordinator.session is None:
        coordinator, roster = middle.seat(coordinator, received)
        if coordinator.search.answer is not None:  # too few scores for the noise: nobody is asked
            return state, {}, coordinator
        return changed(state, joins=list(received)), _to(coordinator, coordinator.present, roster), coordinator
    if not coordinator.deposits:
        coordinator = middle.admit(coordinator, received)
        state = changed(state, deposits=list(received))
    elif not coordinator.answers:
        coordinator, request = middle.collect(coordinator, received)
        return changed(state, answers=list(received)), _to(coordinator, coordinator.answers, request), coordinator
    elif not coordinator.reveals:
        coordinator, requests = middle.finish(coordinator, received)
        if requests:
            outgoing = {name: _encode([message]) for name, message in requests.items()}
            return changed(state, reveals=list(received)), outgoing, coordinator
    else:
        coordinator = middle.recover(coordinator, received)
    search = coordinator.search
    if search.answer is not None:
        return state, {}, coordinator
    state = changed(
        state,
        number=search.number,
        prefix=search.prefix,
        below=search.below,
        present=sorted(coordinator.present),
        dropped=coordinator.dropped,
        answers=[],
        reveals=[],
    )
    return state, _to(coordinator, coordinator.present, middle.ask(coordinator)), coordinator


def reader_of(state: CoordinatorState) -> Callable[[bytes], object]:
    """Return what reads one message of the step that is next."""
    coordinator = _coordinator(state)
    if coordinator.session is None:
        return partial(read_join, coordinator)
    if not coordinator.deposits:
        return partial(read_deposit, coordinator)
    if not coordinator.answers:
        return partial(read_answer, coordinator)
    return partial(read_shares if coordinator.reveals else read_reveal, coordinator)


def prepare(state: CoordinatorState, outgoing: Mapping[Path, bytes]) -> None:
    """Write what goes with a new state beside its places: sites must not get two different messages of one step."""
    tag = _tag(state)
    for path, data in outgoing.items():
        write_bytes(path.with_name(f"{path.name}.{tag}"), data)


def publish(folder: Path, state: CoordinatorState) -> list[Path]:
    """Move what was prepared with this state to its places; what was prepared with another never counted."""
    found = {path.with_suffix(""): path for path in folder.glob(f"to-*.fcm.{_tag(state)}")}
    if found:
        for path in set(folder.glob("to-*.fcm*")) - found.keys() - set(found.values()):
            path.unlink()
    for path, prepared in found.items():
        prepared.replace(path)
    return sorted(found)


def _tag(state: CoordinatorState) -> str:
    return hashlib.sha256(encode_state(state)).hexdigest()[:16]


def start_files(coordinator: Coordinator, invitation: bytes) -> tuple[CoordinatorState, bytes]:
    """Return what the coordinator keeps, and the file that invites the sites."""
    return CoordinatorState(coordinator.signing.private_bytes_raw(), invitation), _encode([invitation])


def _coordinator(state: CoordinatorState) -> Coordinator:
    with needing("secure"):
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    signing = Ed25519PrivateKey.from_private_bytes(state.signing)
    coordinator = Coordinator(signing, unpack(state.invite, Invite))
    if not state.joins:
        return coordinator
    coordinator, _ = middle.seat(coordinator, state.joins)
    if not state.deposits:
        return coordinator
    coordinator = replace(
        middle.admit(coordinator, state.deposits),
        search=Search(state.number, state.prefix, state.below),
        present=frozenset(state.present),
        dropped=state.dropped,
    )
    if state.answers:
        coordinator, _ = middle.collect(coordinator, state.answers)
    if state.reveals:
        coordinator, _ = middle.finish(coordinator, state.reveals)
    return coordinator


def _to(coordinator: Coordinator, sites: Iterable[int], message: bytes) -> dict[str, bytes]:
    names = seated(coordinator).names
    return {names[k]: _encode([message]) for k in sorted(sites)}


def _encode(content: Any) -> bytes:
    return msgspec.msgpack.encode(content)


def _decode(data: bytes, kind: Any, what: str) -> Any:
    try:
        return msgspec.msgpack.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, OverflowError, RecursionError) as error:
        raise InputError(f"this is not {what}: {error}") from None


def encode_state(state: SiteState | CoordinatorState) -> bytes:
    """Encode a state; it holds secrets."""
    return _encode(state)


def decode_state(data: bytes, kind: Any) -> Any:
    """Decode a state."""
    return _decode(data, kind, "a state of a sums session")


def read_state(path: Path, kind: Any) -> Any:
    """Read a state."""
    with naming(path):
        return decode_state(read_bytes(path), kind)


def write_secret(path: Path, state: SiteState | CoordinatorState) -> None:
    """Write a state so that only its owner can read it."""
    write_bytes(path, encode_state(state), private=True)
