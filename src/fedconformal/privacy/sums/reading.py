"""What the coordinator of a sums session knows, and how it reads what the sites send.

Every message is read by itself, so that whoever runs a session can refuse one site and go on with the others.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fedconformal._base.names import check_name
from fedconformal.errors import InputError
from fedconformal.privacy.sums import masks
from fedconformal.privacy.sums.messages import Answer, Deposit, Invite, Join, Reveal, Shares, unpack
from fedconformal.privacy.sums.radix import Search
from fedconformal.privacy.sums.session import Session
from fedconformal.summaries import Origin
from fedconformal.summaries.summary import score_from

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
    """Who is there still."""
    origin: Origin = field(default_factory=Origin)
    """What all sites' scores were made from."""
    deposits: dict[int, Deposit] = field(default_factory=dict, repr=False)
    answers: dict[int, Answer] = field(default_factory=dict, repr=False)
    """Of the open round."""
    reveals: dict[int, Reveal] = field(default_factory=dict, repr=False)
    """Of the open round, if a site vanished after its answer and has to be recovered."""
    counted: frozenset[int] = frozenset()
    """Who answered the last round that was closed: the sum is over them, also if they vanished afterwards."""
    dropped: dict[int, str] = field(default_factory=dict)
    """Who is not there any more, and since when."""


def seated(coordinator: Coordinator) -> Session:
    """Return the session, once there is a roster."""
    if coordinator.session is None:
        raise InputError("there is no roster yet")
    return coordinator.session


def read_join(coordinator: Coordinator, data: bytes) -> Join:
    """Read one message of a site that joins."""
    found = unpack(data, Join)
    if found.session != coordinator.invite.session:
        raise InputError("a site joined another session")
    check_name(found.site, "site")
    masks.check_public(found.masking)
    return found


def origin_of(found: Join) -> Origin:
    """Return what a site's scores were made from."""
    score = None if found.score is None else score_from(*found.score)
    return Origin(score=score, model=found.model, temperature=found.temperature)


def read_deposit(coordinator: Coordinator, data: bytes) -> Deposit:
    """Read what one site leaves with its neighbours."""
    session = seated(coordinator)
    found = unpack(data, Deposit, session.signing)
    who = session.names[found.site]
    if found.session != session.id:
        raise InputError(f"site {who!r} entered another session")
    if [j for j, _ in found.shares] != session.holders(found.site):
        raise InputError(f"site {who!r} did not share its secrets with those it should")
    if len(found.halves) != masks.KEY * len(session.neighbours(found.site)):
        raise InputError(f"site {who!r} sent {len(found.halves)} bytes of keys")
    return found


def read_answer(coordinator: Coordinator, data: bytes) -> Answer:
    """Read one site's answer."""
    session, search = seated(coordinator), coordinator.search
    found = unpack(data, Answer, session.signing)
    if (found.session, found.number, found.prefix) != (session.id, search.number, search.prefix):
        raise InputError(f"an answer is of another session or round, expected round {search.number}")
    who = session.names[found.site]
    if found.site not in coordinator.present:
        raise InputError(f"site {who!r} dropped out in an earlier round, and stays out")
    if len(found.counts) != session.rounds.cells(search.number) * session.rounds.dtype.itemsize:
        raise InputError(f"site {who!r} sent {len(found.counts)} bytes of counts")
    return found


def read_reveal(coordinator: Coordinator, data: bytes) -> Reveal:
    """Read what one site reveals."""
    session, number = seated(coordinator), coordinator.search.number
    found = unpack(data, Reveal, session.signing)
    if (found.session, found.number) != (session.id, number) or found.site not in coordinator.answers:
        raise InputError(f"a reveal is of another session or round, expected round {number}")
    length = session.rounds.cells(number) * session.rounds.dtype.itemsize
    present, answers = coordinator.present, coordinator.answers
    near = session.neighbours(found.site) if len(answers) < len(present) else ()
    wanted = {j for j in near if j in present and j not in answers}
    if {j for j, _ in found.masks} != wanted or any(len(mask) != length for _, mask in found.masks):
        raise InputError(f"site {session.names[found.site]!r} did not reveal the masks that it should")
    return found


def read_shares(coordinator: Coordinator, data: bytes) -> Shares:
    """Read the shares that one site has opened."""
    session, number = seated(coordinator), coordinator.search.number
    found = unpack(data, Shares, session.signing)
    if (found.session, found.number) != (session.id, number) or found.site not in coordinator.reveals:
        raise InputError(f"shares are of another session or round, expected round {number}")
    wanted = [i for i in sorted(to_recover(coordinator)) if found.site in session.holders(i)]
    kinds = [(i, own is not None) for i, own, _ in found.shares]
    if kinds != [(i, i in coordinator.answers) for i in wanted]:
        raise InputError(f"site {session.names[found.site]!r} did not open the shares that it should")
    return found


def to_recover(coordinator: Coordinator) -> set[int]:
    """Return the sites of which a secret is needed: who vanished, and those neighbours of theirs who did not answer."""
    session = seated(coordinator)
    vanished = coordinator.answers.keys() - coordinator.reveals.keys()
    missing = coordinator.present - coordinator.answers.keys()
    return vanished | {j for i in vanished for j in missing.intersection(session.neighbours(i))}
