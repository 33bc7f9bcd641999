"""The coordinator of a sums session: pure functions from its state and messages to the next state.

It sees masked histograms, which are noise, and their sum. A site that does not answer a round is out for the rest; its
scores then count for nothing, so that the threshold may come out too high and never too low.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from fedconformal._base.arrays import ALPHA_UNIT, as_alpha
from fedconformal._base.extras import needing
from fedconformal.errors import InputError
from fedconformal.guarantees import Guarantee
from fedconformal.privacy.dp import as_epsilon, as_grid
from fedconformal.privacy.noisy_counts import MOST_CANDIDATES, noisy_grid
from fedconformal.privacy.sums import masks
from fedconformal.privacy.sums.messages import (
    Answer,
    Deposit,
    Invite,
    Lost,
    Question,
    Reveal,
    Roster,
    Shares,
    Unmask,
    pack,
)
from fedconformal.privacy.sums.radix import EXACT, Counted
from fedconformal.privacy.sums.reading import (
    Coordinator,
    origin_of,
    read_answer,
    read_deposit,
    read_join,
    read_reveal,
    read_shares,
    seated,
    to_recover,
)
from fedconformal.privacy.sums.session import Session, guarantee_of, session_of


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
    joins = [read_join(coordinator, data) for data in joined]
    origins = [origin_of(found) for found in joins]
    for found, origin in zip(joins, origins, strict=True):
        if difference := origins[0].difference(origin):
            raise InputError(f"sites {joins[0].site!r} and {found.site!r} do not go together: {difference}")
    seats = sorted((found.site, found.size, found.signing, found.masking) for found in joins)
    if not seats:
        raise InputError("nobody joined")
    roster = Roster(coordinator.invite.session, seats)
    session = session_of(coordinator.invite, roster)
    everybody = frozenset(range(len(seats)))
    begun = replace(coordinator, session=session, search=session.rounds.start, present=everybody, origin=origins[0])
    return begun, pack(roster, coordinator.signing)


def admit(coordinator: Coordinator, received: Iterable[bytes]) -> Coordinator:
    """Take what the sites leave with their neighbours; who leaves nothing is out."""
    session = seated(coordinator)
    if coordinator.deposits:
        raise InputError("the session has begun; who comes later waits for another one")
    deposits = _each_once(session, [read_deposit(coordinator, data) for data in received], "entered")
    session.check_enough(deposits)
    return _without(replace(coordinator, deposits=deposits), set(deposits), "before the first round")


def ask(coordinator: Coordinator) -> bytes:
    """Ask the question of the round, of all who are present."""
    session, search = seated(coordinator), coordinator.search
    if search.answer is not None:
        raise InputError("the threshold has been found; there are no more rounds")
    if not coordinator.deposits:
        raise InputError("nobody has entered yet")
    present = session.as_bits(coordinator.present)
    return pack(Question(session.id, search.number, search.prefix, present), coordinator.signing)


def collect(coordinator: Coordinator, received: Iterable[bytes]) -> tuple[Coordinator, bytes]:
    """Take the answers of a round; return what to ask all of those who sent one."""
    session, number = seated(coordinator), coordinator.search.number
    if coordinator.answers:
        raise InputError(f"round {number} is closed")
    found = [read_answer(coordinator, data) for data in received]
    answers = _each_once(session, found, f"answered round {number}")
    session.check_enough(answers)
    request = Unmask(session.id, number, session.as_bits(answers))
    return replace(coordinator, answers=answers), pack(request, coordinator.signing)


def finish(coordinator: Coordinator, received: Iterable[bytes]) -> tuple[Coordinator, dict[str, bytes]]:
    """Take off the masks that are left in the sum, and go on to the next round.

    If sites have vanished after their answers, the round stays open: return what to ask those who hold their shares.
    """
    session, number, answers = seated(coordinator), coordinator.search.number, coordinator.answers
    if not answers:
        raise InputError(f"nobody has answered round {number}")
    if coordinator.reveals:
        raise InputError(f"round {number} waits for shares of those who vanished")
    reveals = _each_once(session, [read_reveal(coordinator, data) for data in received], f"revealed round {number}")
    if len(reveals) == len(answers):
        return _close(replace(coordinator, reveals=reveals), {}, {}), {}
    if 2 * len(reveals) <= len(session.names):
        raise InputError(f"only {len(reveals)} of {len(session.names)} sites are left; their sum stays hidden")
    waiting = replace(coordinator, reveals=reveals)
    vanished = session.as_bits(answers.keys() - reveals.keys())
    held: dict[int, list[tuple[int, bytes]]] = {}
    for i in sorted(to_recover(waiting)):
        for j, sealed in coordinator.deposits[i].shares:
            if j in reveals:
                held.setdefault(j, []).append((i, sealed))
    requests = {
        session.names[j]: pack(Lost(session.id, number, j, vanished, shares), coordinator.signing)
        for j, shares in sorted(held.items())
    }
    return waiting, requests


def recover(coordinator: Coordinator, received: Iterable[bytes]) -> Coordinator:
    """Put the secrets of lost sites together from shares, and go on to the next round."""
    session, number = seated(coordinator), coordinator.search.number
    if not coordinator.reveals:
        raise InputError(f"nobody has vanished in round {number}")
    helped = _each_once(session, [read_shares(coordinator, data) for data in received], "opened shares")
    shares = {j: {i: (own, locking) for i, own, locking in found.shares} for j, found in helped.items()}
    own, locks = {}, {}
    for i in sorted(to_recover(coordinator)):
        holders = session.holders(i)
        there = [(place, *shares[j][i]) for place, j in enumerate(holders) if j in shares]
        enough = masks.needed(len(holders))
        if len(there) < enough:
            raise InputError(
                f"site {session.names[i]!r} is lost, and only {len(there)} of {enough} shares of its secrets are "
                "there: start another session"
            )
        locks[i] = masks.combine({place: locking for place, _, locking in there[:enough]})
        if i in coordinator.answers:
            own[i] = masks.combine({place: share for place, share, _ in there[:enough] if share is not None})
    return _close(coordinator, own, locks)


def _close(coordinator: Coordinator, own: dict[int, bytes], locks: dict[int, bytes]) -> Coordinator:
    """Add up the answers of a round, without any masks; what it takes from lost sites has been recovered."""
    session, search, answers = seated(coordinator), coordinator.search, coordinator.answers
    rounds, number = session.rounds, search.number
    start, words = masks.span(rounds, number)
    total = np.zeros(words, dtype=rounds.dtype)
    for i, found in answers.items():
        seed = masks.seed_of(own[i], number) if i in own else coordinator.reveals[i].seed
        total += np.frombuffer(found.counts, dtype=rounds.dtype)
        total -= masks.expand(seed, words, rounds.dtype)
    for i, j, mask in _left_over(coordinator, locks, start, words):
        if j > i:
            total -= mask
        else:
            total += mask
    counted = frozenset(answers)
    search = rounds.advance(search, total, counted)
    done = replace(coordinator, search=search, answers={}, reveals={}, counted=counted)
    done = _without(done, set(answers), f"before its answer in round {number}")
    return _without(done, answers.keys() - own.keys(), f"after its answer in round {number}")


def _left_over(
    coordinator: Coordinator, locks: dict[int, bytes], start: int, words: int
) -> Iterator[tuple[int, int, Counted]]:
    """Yield the masks of those who answered with those who did not: revealed, or from both halves of their key."""
    session, dtype = seated(coordinator), seated(coordinator).rounds.dtype
    for i, revealed in coordinator.reveals.items():
        for j, mask in revealed.masks:
            yield i, j, np.frombuffer(mask, dtype=dtype)
    halves = {
        i: dict(zip(session.neighbours(i), masks.unlock(secret, coordinator.deposits[i].halves), strict=True))
        for i, secret in locks.items()
    }
    for i in locks.keys() & coordinator.answers.keys():
        for j in halves[i].keys() & locks.keys() - coordinator.answers.keys():
            yield i, j, masks.expand(masks.joined(halves[i][j], halves[j][i]), words, dtype, start)


def _without(coordinator: Coordinator, left: set[int], when: str) -> Coordinator:
    """Go on with those who are left, and note since when the others are not there."""
    gone = dict.fromkeys(sorted(coordinator.present - left), when)
    return replace(coordinator, present=frozenset(left), dropped=coordinator.dropped | gone)


S = TypeVar("S", Deposit, Answer, Reveal, Shares)


def _each_once(session: Session, messages: list[S], did: str) -> dict[int, S]:
    found: dict[int, S] = {}
    for message in messages:
        if message.site in found:
            raise InputError(f"site {session.names[message.site]!r} {did} twice")
        found[message.site] = message
    return found
