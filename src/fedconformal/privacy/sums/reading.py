"""How the coordinator of a sums session reads what a site sends: one message by itself, of the kind that is next.

So a channel can refuse one site, with the reason, and go on with the others.
"""

from __future__ import annotations

from typing import Any

from fedconformal._base.names import check_name
from fedconformal.errors import InputError
from fedconformal.privacy.sums import masks
from fedconformal.privacy.sums.messages import (
    Answer,
    Countersign,
    Deposit,
    Join,
    Message,
    Reveal,
    Shares,
    Signed,
    joining,
    signature_of,
    unpack,
)
from fedconformal.privacy.sums.session import check_identity, check_scores, stated_origin
from fedconformal.privacy.sums.shares import SECRET
from fedconformal.privacy.sums.state import CoordinatorState


def read(state: CoordinatorState, data: bytes) -> Message:
    """Read one message of a site; refuse it if it is not what the site has to send now."""
    kind = state.expects
    found: Any = unpack(data, kind, state.session.signing if state.roster else None)
    CHECKS[kind](state, found)
    return Signed(found.session, found.about, found.site, signature_of(data)) if kind is Countersign else found


def _check_join(state: CoordinatorState, found: Join) -> None:
    if found.session != state.invite.session:
        raise InputError("a site joined another session")
    check_name(found.site, "site")
    masks.check_public(found.masking)
    check_scores(stated_origin(found), state.invite, f"site {found.site!r}")
    joined = joining(found.site, found.size, found.signing, found.masking, found.session)
    check_identity(found.site, found.identity, joined)


def _check_deposit(state: CoordinatorState, found: Deposit) -> None:
    session = state.session
    name = session.names[found.site]
    if found.session != session.id:
        raise InputError(f"site {name!r} entered another session")
    length = SECRET * len(session.rounds.widths) + 16
    if [(j, len(sealed)) for j, sealed in found.shares] != [(j, length) for j in session.neighbours(found.site)]:
        raise InputError(f"site {name!r} did not share its secrets with those it should")


def _check_answer(state: CoordinatorState, found: Answer) -> None:
    session, number = state.session, state.search.number
    _check_about(state, found, "an answer is")
    if len(found.counts) != session.rounds.cells(number) * session.rounds.dtype.itemsize:
        raise InputError(f"site {session.names[found.site]!r} sent {len(found.counts)} bytes of counts")


def _check_countersign(state: CoordinatorState, found: Countersign) -> None:
    _check_about(state, found, "a signature is")


def _check_reveal(state: CoordinatorState, found: Reveal) -> None:
    _check_about(state, found, "a reveal is")


def _check_shares(state: CoordinatorState, found: Shares) -> None:
    _check_about(state, found, "shares are")
    session = state.session
    if found.site not in state.reveals or [i for i, _ in found.shares] != state.held_by(found.site):
        raise InputError(f"site {session.names[found.site]!r} did not open the shares that it should")


def _check_about(state: CoordinatorState, found: Answer | Countersign | Reveal | Shares, what: str) -> None:
    session, number = state.session, state.search.number
    if found.session != session.id or found.about != state.about:
        raise InputError(f"{what} of another session, round or list of sites, expected round {number}")
    if found.site not in state.present:
        raise InputError(f"site {session.names[found.site]!r} dropped out in an earlier round, and stays out")


CHECKS: dict[type[Message], Any] = {
    Join: _check_join,
    Deposit: _check_deposit,
    Answer: _check_answer,
    Countersign: _check_countersign,
    Reveal: _check_reveal,
    Shares: _check_shares,
}
