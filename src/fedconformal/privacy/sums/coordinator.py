"""The coordinator of a sums session: a state machine that takes what the sites sent and says what to send them.

It sees masked histograms, which are noise, and their sum. A site that does not answer a round is out for the rest; its
scores then count for nothing, so that the threshold may come out too high and never too low.

    sites send     Join      Deposit     Answer    Reveal                 Shares, if a site was lost after its answer
    it sends    Invite  Roster    Question   Unmask   Question or Lost           Question
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from fedconformal._base.arrays import ALPHA_UNIT, as_alpha
from fedconformal.errors import InputError
from fedconformal.guarantees import Guarantee
from fedconformal.privacy.dp import as_epsilon, as_grid
from fedconformal.privacy.keys import SigningKey
from fedconformal.privacy.noisy_counts import MOST_CANDIDATES, noisy_grid
from fedconformal.privacy.sums import masks
from fedconformal.privacy.sums.lost import remarks
from fedconformal.privacy.sums.messages import (
    Answer,
    Deposit,
    Invite,
    Join,
    Lost,
    Message,
    Question,
    Reveal,
    Roster,
    Shares,
    Unmask,
    pack,
)
from fedconformal.privacy.sums.radix import EXACT, Counted
from fedconformal.privacy.sums.session import Session, guarantee_of
from fedconformal.privacy.sums.state import CoordinatorState
from fedconformal.summaries.summary import origin_of

logger = logging.getLogger(__name__)

Step = tuple[CoordinatorState, dict[str, bytes]]
"""The next state, and what to send to which site; nothing to send if the threshold is found."""

changed = msgspec.structs.replace


def invite(
    guarantee: Guarantee,
    alpha: Any,
    widths: Sequence[int] = EXACT,
    least: int | None = None,
    *,
    epsilon: Any = None,
    grid: ArrayLike | None = None,
) -> tuple[CoordinatorState, bytes]:
    """Open a session; with epsilon, one round of noisy counts over the grid takes the place of exact ones."""
    key = SigningKey.new()
    units = int(as_alpha(alpha) * ALPHA_UNIT)
    message = Invite(os.urandom(16), key.public, units, json.dumps(guarantee.to_dict()), list(widths), least)
    if epsilon is not None:
        edges = as_grid(noisy_grid() if grid is None else grid, MOST_CANDIDATES).tolist()
        message = changed(message, widths=[], least=None, epsilon=float(as_epsilon(epsilon)), grid=edges)
    elif grid is not None:
        raise InputError("a grid goes with epsilon; sums without noise find the score itself")
    guarantee_of(message)
    return CoordinatorState(key, message), pack(message, key)


def step(state: CoordinatorState, messages: Iterable[Message]) -> Step:
    """Take what the sites sent, as `read` has read it; a site that sent nothing is out."""
    after, outgoing = STEPS[state.expects](state, list(messages))
    for remark in remarks(state, after):
        logger.warning(remark)
    return after, outgoing


def _freeze_roster(state: CoordinatorState, joins: list[Join]) -> Step:
    if not joins:
        raise InputError("nobody joined")
    origins = [origin_of(found) for found in joins]
    for found, origin in zip(joins, origins, strict=True):
        if difference := origins[0].difference(origin):
            raise InputError(f"sites {joins[0].site!r} and {found.site!r} do not go together: {difference}")
    listed = sorted((found.site, found.size, found.signing, found.masking) for found in joins)
    roster = pack(Roster(state.invite.session, listed), state.signing)
    state = changed(state, first=joins[0], roster=roster, present=frozenset(range(len(joins))))
    search = state.session.rounds.start
    # With too few scores for the noise the search is at its end, and nobody is asked.
    outgoing = _to(state.session, state.present, roster) if search.answer is None else {}
    return changed(state, search=search), outgoing


def _take_deposits(state: CoordinatorState, deposits: list[Deposit]) -> Step:
    found = _each_once(state.session, deposits, "entered")
    state.session.check_enough(found)
    return _ask(_without(changed(state, deposits=found), found.keys(), "before the first round"))


def _ask(state: CoordinatorState) -> Step:
    """Ask the question of the round, unless the threshold is found."""
    session, search = state.session, state.search
    if search.answer is not None:
        return state, {}
    question = Question(session.id, search.number, search.prefix, session.as_bits(state.present))
    return state, _to(session, state.present, pack(question, state.signing))


def _take_answers(state: CoordinatorState, answers: list[Answer]) -> Step:
    """Close the list of those who answered, and ask them to unmask the sum."""
    session, number = state.session, state.search.number
    found = _each_once(session, answers, f"answered round {number}")
    session.check_enough(found)
    request = Unmask(session.id, number, session.as_bits(found))
    return changed(state, answers=found), _to(session, found, pack(request, state.signing))


def _take_reveals(state: CoordinatorState, reveals: list[Reveal]) -> Step:
    """Open the sum; if sites were lost after their answers, first ask those who hold their shares."""
    session, number = state.session, state.search.number
    found = _each_once(session, reveals, f"revealed round {number}")
    state = changed(state, reveals=found)
    if not state.lost_after_answer:
        return _open_sum(state, {}, {})
    if not masks.is_majority(len(found), len(session.names)):
        raise InputError(f"only {len(found)} of {len(session.names)} sites are left; their sum stays hidden")
    held: dict[int, list[tuple[int, bytes]]] = {}
    for i in state.to_recover:
        for j, sealed in state.deposits[i].shares:
            if j in found:
                held.setdefault(j, []).append((i, sealed))
    lost = session.as_bits(state.lost_after_answer)
    return state, {
        session.names[j]: pack(Lost(session.id, number, j, lost, shares), state.signing)
        for j, shares in sorted(held.items())
    }


def _take_shares(state: CoordinatorState, shares: list[Shares]) -> Step:
    """Put the secrets of lost sites together, and open the sum."""
    session = state.session
    found = _each_once(session, shares, "opened shares")
    opened = {j: {i: (own, locking) for i, own, locking in message.shares} for j, message in found.items()}
    own, locks = {}, {}
    for i in state.to_recover:
        holders = session.holders(i)
        there = [(place, *opened[j][i]) for place, j in enumerate(holders) if j in opened]
        enough = masks.needed(len(holders))
        if len(there) < enough:
            raise InputError(
                f"site {session.names[i]!r} is lost, and only {len(there)} of {enough} shares of its secrets are "
                "there: start another session"
            )
        locks[i] = masks.combine({place: locking for place, _, locking in there[:enough]})
        if i in state.answers:
            own[i] = masks.combine({place: share for place, share, _ in there[:enough] if share is not None})
    return _open_sum(state, own, locks)


def _open_sum(state: CoordinatorState, own: dict[int, bytes], locks: dict[int, bytes]) -> Step:
    """Add up the answers of the round, take off all masks, and go on; `own` and `locks` are secrets of lost sites."""
    session, search, answers = state.session, state.search, state.answers
    rounds, number = session.rounds, search.number
    start, words = masks.span(rounds, number)
    total = np.zeros(words, dtype=rounds.dtype)
    for i, found in answers.items():
        seed = masks.seed_of(own[i], number) if i in own else state.reveals[i].seed
        total += np.frombuffer(found.counts, dtype=rounds.dtype)
        total -= masks.expand(seed, words, rounds.dtype)
    for i, j, mask in _masks_left(state, locks, start, words):
        if j > i:
            total -= mask
        else:
            total += mask
    counted = frozenset(answers)
    search = rounds.advance(search, total, counted)
    state = changed(state, search=search, answers={}, reveals={}, counted=counted)
    state = _without(state, answers.keys(), f"before its answer in round {number}")
    return _ask(_without(state, answers.keys() - own.keys(), f"after its answer in round {number}"))


def _masks_left(
    state: CoordinatorState, locks: dict[int, bytes], start: int, words: int
) -> Iterator[tuple[int, int, Counted]]:
    """Yield the masks of those who answered with those who did not: revealed, or from both halves of their key."""
    session, dtype = state.session, state.session.rounds.dtype
    for i, revealed in state.reveals.items():
        for j, mask in revealed.masks:
            yield i, j, np.frombuffer(mask, dtype=dtype)
    halves = {
        i: dict(zip(session.neighbours(i), masks.unlock(secret, state.deposits[i].halves), strict=True))
        for i, secret in locks.items()
    }
    for i in locks.keys() & state.answers.keys():
        for j in halves[i].keys() & locks.keys() - state.answers.keys():
            yield i, j, masks.expand(masks.joined(halves[i][j], halves[j][i]), words, dtype, start)


def _without(state: CoordinatorState, left: Collection[int], when: str) -> CoordinatorState:
    """Go on with those who are left, and note since when the others are not there."""
    gone = dict.fromkeys(sorted(state.present.difference(left)), when)
    return changed(state, present=frozenset(left), dropped=state.dropped | gone)


def _to(session: Session, sites: Iterable[int], message: bytes) -> dict[str, bytes]:
    return {session.names[k]: message for k in sorted(sites)}


S = TypeVar("S", Deposit, Answer, Reveal, Shares)


def _each_once(session: Session, messages: list[S], did: str) -> dict[int, S]:
    found: dict[int, S] = {}
    for message in messages:
        if message.site in found:
            raise InputError(f"site {session.names[message.site]!r} {did} twice")
        found[message.site] = message
    return found


STEPS: dict[type[Message], Callable[[CoordinatorState, Any], Step]] = {
    Join: _freeze_roster,
    Deposit: _take_deposits,
    Answer: _take_answers,
    Reveal: _take_reveals,
    Shares: _take_shares,
}
