"""The coordinator of a sums session: pure functions from its state and messages to the next state.

It sees masked histograms, which are noise, and their sum. A site that does not answer a round is out for the rest; its
scores then count for nothing, so that the threshold may come out too high and never too low.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from fedconformal.errors import InputError
from fedconformal.guarantees import Guarantee
from fedconformal.privacy import masks
from fedconformal.privacy.dp import as_epsilon, as_grid
from fedconformal.privacy.extras import needing
from fedconformal.privacy.messages import Answer, Invite, Join, Question, Reveal, Roster, Unmask, pack, unpack
from fedconformal.privacy.noisy_counts import MOST_CANDIDATES, noisy_grid
from fedconformal.privacy.radix import EXACT, Search
from fedconformal.privacy.session import Session, guarantee_of, session_of
from fedconformal.summaries.base import Origin, score_from
from fedconformal.validation import ALPHA_UNIT, as_alpha

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


@dataclass(frozen=True, eq=False)
class Coordinator:
    """What the coordinator knows."""

    signing: Ed25519PrivateKey = field(repr=False)
    invite: Invite
    session: Session | None = None
    search: Search = field(default_factory=Search)
    present: frozenset[int] = frozenset()
    """Who has answered every round so far."""
    origin: Origin = field(default_factory=Origin)
    """What all sites' scores were made from."""
    answers: dict[int, Answer] = field(default_factory=dict, repr=False)
    """Of the open round."""


def invite(
    guarantee: Guarantee,
    alpha: Any,
    widths: Sequence[int] = EXACT,
    *,
    epsilon: Any = None,
    grid: ArrayLike | None = None,
) -> tuple[Coordinator, bytes]:
    """Open a session; with epsilon, one round of noisy counts over the grid takes the place of exact ones."""
    with needing("secure"):
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    key = Ed25519PrivateKey.generate()
    described = json.dumps(guarantee.to_dict())
    units = int(as_alpha(alpha) * ALPHA_UNIT)
    public = key.public_key().public_bytes_raw()
    message = Invite(os.urandom(16), public, units, described, list(widths))
    if epsilon is not None:
        edges = as_grid(noisy_grid() if grid is None else grid, MOST_CANDIDATES).tolist()
        message = msgspec.structs.replace(message, widths=[], epsilon=float(as_epsilon(epsilon)), grid=edges)
    elif grid is not None:
        raise InputError("a grid goes with epsilon; sums without noise find the score itself")
    guarantee_of(message)
    return Coordinator(key, message), pack(message, key)


def seat(coordinator: Coordinator, joined: Iterable[bytes]) -> tuple[Coordinator, bytes]:
    """Freeze the roster."""
    if coordinator.session is not None:
        raise InputError("the roster is frozen; who comes later waits for another session")
    joins = [unpack(data, Join) for data in joined]
    if any(found.session != coordinator.invite.session for found in joins):
        raise InputError("a site joined another session")
    origins = [_origin(found) for found in joins]
    for found, origin in zip(joins, origins, strict=True):
        if difference := origins[0].difference(origin):
            raise InputError(f"sites {joins[0].site!r} and {found.site!r} do not go together: {difference}")
    seats = sorted((found.site, found.size, found.signing, found.masking) for found in joins)
    if not seats:
        raise InputError("nobody joined")
    roster = Roster(coordinator.invite.session, seats)
    session = session_of(coordinator.invite, roster)
    everybody = frozenset(range(len(seats)))
    seated = replace(coordinator, session=session, search=session.rounds.start, present=everybody, origin=origins[0])
    return seated, pack(roster, coordinator.signing)


def _origin(found: Join) -> Origin:
    score = None
    if found.score is not None:
        score = score_from(*found.score)
    return Origin(score=score, model=found.model, temperature=found.temperature)


def ask(coordinator: Coordinator) -> bytes:
    """Ask the question of the round."""
    session = _seated(coordinator)
    if coordinator.search.answer is not None:
        raise InputError("the threshold has been found; there are no more rounds")
    return pack(Question(session.id, coordinator.search.number, coordinator.search.prefix), coordinator.signing)


def collect(coordinator: Coordinator, received: Iterable[bytes]) -> tuple[Coordinator, dict[str, bytes]]:
    """Take the answers of a round; return what to ask each of those who sent one."""
    session, search = _seated(coordinator), coordinator.search
    if coordinator.answers:
        raise InputError(f"round {search.number} is closed")
    answers: dict[int, Answer] = {}
    for data in received:
        found = unpack(data, Answer, session.signing)
        if (found.session, found.number, found.prefix) != (session.id, search.number, search.prefix):
            raise InputError(f"an answer is of another session or round, expected round {search.number}")
        who = session.names[found.site]
        if found.site in answers:
            raise InputError(f"site {who!r} answered round {search.number} twice")
        if found.site not in coordinator.present:
            raise InputError(f"site {who!r} dropped out in an earlier round, and stays out")
        if len(found.counts) != session.rounds.cells(search.number) * session.rounds.dtype.itemsize:
            raise InputError(f"site {who!r} sent {len(found.counts)} bytes of counts")
        if [j for j, _ in found.shares] != session.holders(found.site):
            raise InputError(f"site {who!r} did not share its seed with those it should")
        answers[found.site] = found
    bits = np.zeros(len(session.names), dtype=np.uint8)
    bits[list(answers)] = 1
    answered = np.packbits(bits).tobytes()
    held: dict[int, list[tuple[int, bytes]]] = {j: [] for j in answers}
    for i, found in sorted(answers.items()):
        for j, sealed in found.shares:
            if j in held:
                held[j].append((i, sealed))
    requests = {
        session.names[j]: pack(Unmask(session.id, search.number, j, answered, held[j]), coordinator.signing)
        for j in answers
    }
    return replace(coordinator, answers=answers, present=frozenset(answers)), requests


def finish(coordinator: Coordinator, received: Iterable[bytes]) -> Coordinator:
    """Take off the masks that are left in the sum, and go on to the next round."""
    session, search, answers = _seated(coordinator), coordinator.search, coordinator.answers
    if not answers:
        raise InputError(f"nobody has answered round {search.number}")
    reveals: dict[int, Reveal] = {}
    for data in received:
        found = unpack(data, Reveal, session.signing)
        if (found.session, found.number) != (session.id, search.number) or found.site not in answers:
            raise InputError(f"a reveal is of another session or round, expected round {search.number}")
        if found.site in reveals:
            raise InputError(f"site {session.names[found.site]!r} revealed round {search.number} twice")
        reveals[found.site] = found
    rounds = session.rounds
    words = rounds.cells(search.number)
    total = np.zeros(words, dtype=rounds.dtype)
    for i, found_answer in answers.items():
        total += np.frombuffer(found_answer.counts, dtype=rounds.dtype)
        total -= masks.expand(_seed(session, i, reveals), words, rounds.dtype)
        lost = {j for j in session.neighbours(i) if j not in answers}
        shown = dict(reveals[i].masks) if i in reveals else {}
        if set(shown) != lost or any(len(mask) != words * rounds.dtype.itemsize for mask in shown.values()):
            raise InputError(
                f"site {session.names[i]!r} vanished in a round in which a neighbour did, too: start another session"
            )
        for j, mask in shown.items():
            if j > i:
                total -= np.frombuffer(mask, dtype=rounds.dtype)
            else:
                total += np.frombuffer(mask, dtype=rounds.dtype)
    present = frozenset(answers)
    return replace(coordinator, search=rounds.advance(search, total, present), answers={}, present=present)


def _seed(session: Session, index: int, reveals: dict[int, Reveal]) -> bytes:
    """Take the seed that a site revealed, or put it together from the shares that its neighbours hold."""
    if index in reveals:
        return reveals[index].seed
    holders = session.holders(index)
    shares = {
        place: share
        for place, j in enumerate(holders)
        if j in reveals and (share := dict(reveals[j].shares).get(index)) is not None
    }
    enough = masks.needed(len(holders))
    if len(shares) < enough:
        raise InputError(
            f"site {session.names[index]!r} vanished, and only {len(shares)} of {enough} shares of its seed are there: "
            "start another session"
        )
    return masks.combine(dict(sorted(shares.items())[:enough]))


def _seated(coordinator: Coordinator) -> Session:
    if coordinator.session is None:
        raise InputError("there is no roster yet")
    return coordinator.session
