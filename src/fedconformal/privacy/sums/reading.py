"""How the coordinator of a sums session reads what a site sends: one message by itself, of the kind that is next.

So a channel can refuse one site, with the reason, and go on with the others.
"""

from __future__ import annotations

from typing import Any

from fedconformal._base.names import check_name
from fedconformal.errors import InputError
from fedconformal.privacy.sums import masks
from fedconformal.privacy.sums.messages import Answer, Deposit, Join, Message, Reveal, Shares, unpack
from fedconformal.privacy.sums.state import CoordinatorState


def read(state: CoordinatorState, data: bytes) -> Message:
    """Read one message of a site; refuse it if it is not what the site has to send now."""
    kind = state.expects
    found = unpack(data, kind, state.session.signing if state.roster else None)
    CHECKS[kind](state, found)
    return found


def _check_join(state: CoordinatorState, found: Join) -> None:
    if found.session != state.invite.session:
        raise InputError("a site joined another session")
    check_name(found.site, "site")
    masks.check_public(found.masking)


def _check_deposit(state: CoordinatorState, found: Deposit) -> None:
    session = state.session
    name = session.names[found.site]
    if found.session != session.id:
        raise InputError(f"site {name!r} entered another session")
    if [j for j, _ in found.shares] != session.holders(found.site):
        raise InputError(f"site {name!r} did not share its secrets with those it should")
    if len(found.halves) != masks.KEY * len(session.neighbours(found.site)):
        raise InputError(f"site {name!r} sent {len(found.halves)} bytes of keys")


def _check_answer(state: CoordinatorState, found: Answer) -> None:
    session, search = state.session, state.search
    if (found.session, found.number, found.prefix) != (session.id, search.number, search.prefix):
        raise InputError(f"an answer is of another session or round, expected round {search.number}")
    name = session.names[found.site]
    if found.site not in state.present:
        raise InputError(f"site {name!r} dropped out in an earlier round, and stays out")
    if len(found.counts) != session.rounds.cells(search.number) * session.rounds.dtype.itemsize:
        raise InputError(f"site {name!r} sent {len(found.counts)} bytes of counts")


def _check_reveal(state: CoordinatorState, found: Reveal) -> None:
    session, number = state.session, state.search.number
    if (found.session, found.number) != (session.id, number) or found.site not in state.answers:
        raise InputError(f"a reveal is of another session or round, expected round {number}")
    length = session.rounds.cells(number) * session.rounds.dtype.itemsize
    near = session.neighbours(found.site) if len(state.answers) < len(state.present) else ()
    wanted = {j for j in near if j in state.present and j not in state.answers}
    if {j for j, _ in found.masks} != wanted or any(len(mask) != length for _, mask in found.masks):
        raise InputError(f"site {session.names[found.site]!r} did not reveal the masks that it should")


def _check_shares(state: CoordinatorState, found: Shares) -> None:
    session, number = state.session, state.search.number
    if (found.session, found.number) != (session.id, number) or found.site not in state.reveals:
        raise InputError(f"shares are of another session or round, expected round {number}")
    wanted = [i for i in state.to_recover if found.site in session.holders(i)]
    if [(i, own is not None) for i, own, _ in found.shares] != [(i, i in state.answers) for i in wanted]:
        raise InputError(f"site {session.names[found.site]!r} did not open the shares that it should")


CHECKS: dict[type[Message], Any] = {
    Join: _check_join,
    Deposit: _check_deposit,
    Answer: _check_answer,
    Reveal: _check_reveal,
    Shares: _check_shares,
}
