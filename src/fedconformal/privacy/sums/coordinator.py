"""Coordinator of a sums session: a state machine from the sites' messages to the next messages.

It sees masked histograms, which look random, and their sum. A site that does not answer the first round is excluded;
its scores are not counted, so the threshold may be too high but never too low. All later sums are over the sites of the
first sum, because the difference of two sums would show how many rows of one site are in a cell. If one of them is
lost, the search stops at its current cell, whose upper edge is a valid threshold as well.

    it sends    Invite   Roster    Question   Closed       Unmask   Question, or Lost if a site was lost meanwhile
    sites send       Join     Deposit     Answer   Countersign   Reveal                Shares

If a site does not answer the first round, the others are asked again, with masks among themselves.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike

from fedconformal._base.arrays import ALPHA_UNIT, as_alpha
from fedconformal._base.names import check_name
from fedconformal.errors import InputError
from fedconformal.guarantees import Guarantee
from fedconformal.privacy.dp import as_epsilon, as_grid
from fedconformal.privacy.noise import MOST_CANDIDATES, noisy_grid
from fedconformal.privacy.signatures import MaskingKey, SigningKey
from fedconformal.privacy.sums import masks
from fedconformal.privacy.sums.messages import (
    Answer,
    Closed,
    Countersign,
    Deposit,
    Invite,
    Join,
    Lost,
    Message,
    OfSite,
    Question,
    Reveal,
    Roster,
    Shares,
    Signed,
    Unmask,
    joining,
    pack,
    signature_of,
    unpack,
)
from fedconformal.privacy.sums.radix import Rounds, exponent_of
from fedconformal.privacy.sums.session import Session, check_identity, check_scores, guarantee_of
from fedconformal.privacy.sums.state import CoordinatorState
from fedconformal.summaries.provenance import Provenance, combine_provenances

Step = tuple[CoordinatorState, dict[str, bytes]]
"""The next state and the messages by site; no messages if the threshold is found."""


def invite(
    guarantee: Guarantee,
    alpha: Any,
    *,
    epsilon: Any = None,
    grid: ArrayLike | None = None,
    reach: Any = None,
) -> tuple[CoordinatorState, bytes]:
    """Open a session; with `epsilon`, of one noisy round over the grid. `reach` is a public bound on other scores."""
    key = SigningKey.new()
    units = int(as_alpha(alpha) * ALPHA_UNIT)
    exponent = 0 if reach is None else exponent_of(reach)
    if reach is not None and grid is not None:
        raise InputError("reach and a grid both define the cells; give one of them", param="reach")
    if grid is not None and epsilon is None:
        raise InputError("a grid needs epsilon; leave it out for sums without noise", param="grid")
    cells: dict[str, Any] = {"exponent": exponent}
    if epsilon is not None:
        edges = as_grid(np.ldexp(noisy_grid(), exponent) if grid is None else grid, MOST_CANDIDATES)
        cells = {"epsilon": float(as_epsilon(epsilon)), "grid": edges.tolist()}
    message = Invite(os.urandom(16), key.public, units, json.dumps(guarantee.to_dict()), **cells)
    guarantee_of(message)
    return CoordinatorState(key, message), pack(message, key)


def step(state: CoordinatorState, messages: Iterable[Message]) -> Step:
    """Advance by the sites' messages, decoded by `read`; a site without a message is excluded."""
    return STEPS[state.expects](state, list(messages))


def _freeze_roster(state: CoordinatorState, joins: list[Join]) -> Step:
    if not joins:
        raise InputError("no site joined")
    provenance = combine_provenances(
        [Provenance.from_header(joined.provenance) for joined in joins], [f"site {joined.site!r}" for joined in joins]
    )
    ordered = sorted(joins, key=lambda joined: joined.site)
    listed = [(join.site, join.size, join.signing, join.masking, join.identity) for join in ordered]
    roster = Roster(state.invite.session, listed, provenance.to_header())
    state = replace(state, roster=pack(roster, state.signing), present=frozenset(range(len(joins))))
    search = state.session.rounds.start
    # With too few scores for the noise the search is finished, and no site is asked.
    outgoing = _to(state.session, state.present, state.roster) if search.answer is None else {}
    return replace(state, search=search), outgoing


def _take_deposits(state: CoordinatorState, deposits: list[Deposit]) -> Step:
    by_site = _each_once(state.session, deposits)
    return _ask(_without(replace(state, deposits=by_site), by_site.keys(), "before the first round"))


def _ask(state: CoordinatorState) -> Step:
    """Send the question of the round, unless the threshold is found."""
    session, search = state.session, state.search
    if search.answer is not None:
        return state, {}
    if search.number and state.present != state.counted:
        return _stop(state)
    session.check_enough(state.present)
    question = Question(session.id, search.number, search.prefix, session.as_bits(state.present))
    return state, _to(session, state.present, pack(question, state.signing))


def _take_answers(state: CoordinatorState, answers: list[Answer]) -> Step:
    """Close the list of answers if all sites that are present answered; else ask the answering sites again."""
    session, number = state.session, state.search.number
    by_site = _each_once(session, answers)
    if len(by_site) < len(state.present):
        return _ask(_without(state, by_site.keys(), f"before its answer in round {number + 1}"))
    return replace(state, answers=by_site), _to(session, by_site, pack(Closed(session.id, state.about), state.signing))


def _take_signatures(state: CoordinatorState, signed: list[Signed]) -> Step:
    """Distribute the signatures of the list, so that each site can verify that all have the same list."""
    session = state.session
    by_site = _each_once(session, signed)
    if state.search.number and len(by_site) < session.quorum:
        return _stop(_without(state, by_site, f"after its answer in round {state.search.number + 1}"))
    signatures = [(k, message.signature) for k, message in sorted(by_site.items())[: session.quorum]]
    session.check_countersigned(state.about, state.present, signatures)
    request = Unmask(session.id, state.about, signatures)
    return replace(state, signed=frozenset(by_site)), _to(session, by_site, pack(request, state.signing))


def _take_reveals(state: CoordinatorState, reveals: list[Reveal]) -> Step:
    """Open the sum; if sites were lost after their answers, first request the shares of their secrets."""
    session = state.session
    state = replace(state, reveals=_each_once(session, reveals))
    if not state.lost_after_answer:
        return _open_sum(state, {})
    sealed = {i: dict(state.deposits[i].shares) for i in state.lost_after_answer}
    if too_few := _too_few(state, {i: held.keys() & state.reveals.keys() for i, held in sealed.items()}):
        return too_few
    held_by = {j: [(i, sealed[i][j]) for i in lost] for j in sorted(state.reveals) if (lost := state.held_by(j))}
    return state, {
        session.names[j]: pack(Lost(session.id, state.about, j, shares), state.signing) for j, shares in held_by.items()
    }


def _take_shares(state: CoordinatorState, shares: list[Shares]) -> Step:
    """Recover the secrets of lost sites, and open the sum."""
    session = state.session
    by_site = _each_once(session, shares)
    opened: dict[int, dict[int, bytes]] = {i: {} for i in state.lost_after_answer}
    for j, message in by_site.items():
        for i, share in message.shares:
            opened[i][session.neighbours(i).index(j)] = share
    if too_few := _too_few(state, opened):
        return too_few
    secrets = {i: masks.combine(dict(list(held.items())[: session.needed])) for i, held in opened.items()}
    return _open_sum(state, {i: masks.round_key(secret, state.about) for i, secret in secrets.items()})


def _too_few(state: CoordinatorState, shares: Mapping[int, Collection[int]]) -> Step | None:
    """Stop if a lost site's secret cannot be recovered; in the first round that is an error."""
    session, number = state.session, state.search.number
    lost, held = min(shares.items(), key=lambda item: len(item[1]))
    if len(held) >= session.needed:
        return None
    if number:
        return _stop(_without(state, state.reveals, f"after its answer in round {number + 1}"))
    raise InputError(
        f"site {session.names[lost]!r} is lost, and only {len(held)} of {session.needed} shares of its secret are "
        "there: the sum stays hidden, and the session ends"
    )


def _stop(state: CoordinatorState) -> Step:
    """End the search at the upper edge of its current cell."""
    search = cast("Rounds", state.session.rounds).stopped(state.search)  # with noise there is no second round
    return replace(state, search=search, answers={}, signed=frozenset(), reveals={}), {}


def _open_sum(state: CoordinatorState, recovered: dict[int, bytes]) -> Step:
    """Sum the answers of the round, subtract each site's own mask, and continue; the other masks cancel."""
    session, search, answers = state.session, state.search, state.answers
    rounds, number = session.rounds, search.number
    words = rounds.cells(number)
    total = -masks.masks_of((recovered.get(i) or state.reveals[i].seed for i in answers), words, rounds.dtype)
    for answer in answers.values():
        total += np.frombuffer(answer.counts, dtype=rounds.dtype)
    counted = frozenset(answers)
    search = rounds.advance(search, total, counted)
    state = replace(state, search=search, answers={}, signed=frozenset(), reveals={}, counted=counted)
    return _ask(_without(state, answers.keys() - recovered.keys(), f"after its answer in round {number + 1}"))


def _without(state: CoordinatorState, left: Collection[int], when: str) -> CoordinatorState:
    """Return the state with the sites that are left, and record when the others dropped out."""
    gone = dict.fromkeys(sorted(state.present.difference(left)), when)
    return replace(state, present=frozenset(left), dropped=state.dropped | gone)


def _to(session: Session, sites: Iterable[int], message: bytes) -> dict[str, bytes]:
    return {session.names[k]: message for k in sorted(sites)}


S = TypeVar("S", Deposit, Answer, Signed, Reveal, Shares)


def _each_once(session: Session, messages: list[S]) -> dict[int, S]:
    by_site: dict[int, S] = {}
    for message in messages:
        if message.site in by_site:
            raise InputError(f"site {session.names[message.site]!r} sent {type(message).__name__} twice")
        by_site[message.site] = message
    return by_site


STEPS: dict[type[Message], Callable[[CoordinatorState, Any], Step]] = {
    Join: _freeze_roster,
    Deposit: _take_deposits,
    Answer: _take_answers,
    Countersign: _take_signatures,
    Reveal: _take_reveals,
    Shares: _take_shares,
}


def read(state: CoordinatorState, data: bytes) -> Message:
    """Decode a site's message; refuse it if it is not the expected one."""
    kind = state.expects
    message: Any = unpack(data, kind, state.session.signing if state.roster else None)
    if kind is Join:
        _check_join(state, message)
    elif kind is Deposit:
        _check_deposit(state, message)
    else:
        _check_round(state, message)
    return Signed(message.session, message.about, message.site, signature_of(data)) if kind is Countersign else message


def _check_join(state: CoordinatorState, join: Join) -> None:
    if join.session != state.invite.session:
        raise InputError("a site joined another session")
    check_name(join.site, "site")
    MaskingKey(bytes(32)).agreed_with(join.masking)  # any key will do: one of small order is refused
    check_scores(Provenance.from_header(join.provenance), state.invite, f"site {join.site!r}")
    joined = joining(join.site, join.size, join.signing, join.masking, join.session)
    check_identity(join.site, join.identity, joined)


def _check_deposit(state: CoordinatorState, deposit: Deposit) -> None:
    session = state.session
    name = session.names[deposit.site]
    if deposit.session != session.id:
        raise InputError(f"site {name!r} entered another session")
    length = masks.SECRET * session.rounds.steps + 16
    if [(j, len(sealed)) for j, sealed in deposit.shares] != [(j, length) for j in session.neighbours(deposit.site)]:
        raise InputError(f"site {name!r} did not share its secrets with its neighbours")


def _check_round(state: CoordinatorState, sent: OfSite) -> None:
    session, number, name = state.session, state.search.number, state.session.names[sent.site]
    if sent.session != session.id or sent.about != state.about:
        raise InputError(
            f"the message {type(sent).__name__} is of another session, round or list of sites, expected round {number}"
        )
    if sent.site not in state.present:
        raise InputError(f"site {name!r} dropped out in an earlier round, and stays out")
    if isinstance(sent, Answer) and len(sent.counts) != session.rounds.cells(number) * session.rounds.dtype.itemsize:
        raise InputError(f"site {name!r} sent {len(sent.counts)} bytes of counts")
    if isinstance(sent, Shares) and (
        sent.site not in state.reveals or [i for i, _ in sent.shares] != state.held_by(sent.site)
    ):
        raise InputError(f"site {name!r} did not open the requested shares")
