"""A site in a sums session: pure functions from its state and a message to the next state and its answer.

A site answers every round once and reveals once, in order: a coordinator that could ask twice, with another list of
those who answered, would learn a single site's counts from the difference.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from fedconformal.errors import InputError
from fedconformal.privacy import masks
from fedconformal.privacy.bit_order import Keys, keys_of
from fedconformal.privacy.extras import needing
from fedconformal.privacy.messages import Answer, Invite, Join, Question, Reveal, Unmask, pack, unpack
from fedconformal.privacy.radix import Counted, Search
from fedconformal.privacy.session import Session, entered, guarantee_of
from fedconformal.summaries.base import Origin, described_score
from fedconformal.validation import as_name, as_scores

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey


@dataclass(frozen=True, eq=False)
class Site:
    """What a site knows; all of it stays there."""

    name: str
    keys: Keys = field(repr=False)
    signing: Ed25519PrivateKey = field(repr=False)
    masking: X25519PrivateKey = field(repr=False)
    origin: Origin = field(default_factory=Origin)
    invite: Invite | None = None
    session: Session | None = None
    index: int = -1
    agreed: dict[int, tuple[bytes, bytes]] = field(default_factory=dict, repr=False)
    """The keys agreed on with each neighbour."""
    mask: Counted | None = field(default=None, repr=False)
    """The sum of the masks with all neighbours, for all rounds."""
    number: int = 0
    """The next round, or the one that is open."""
    seed: bytes | None = field(default=None, repr=False)
    """The seed of the open round's own mask; None between rounds."""


def new_site(name: str, scores: ArrayLike, origin: Origin | None = None) -> Site:
    """Make a site with fresh keys; `origin` is what the scores were made from."""
    with needing("secure"):
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
    as_name(name, "site")
    keys = Ed25519PrivateKey.generate(), X25519PrivateKey.generate()
    return Site(name, keys_of(as_scores(scores)), *keys, origin or Origin())


def join(site: Site, invitation: bytes) -> tuple[Site, bytes]:
    """Look at an invitation and join."""
    if site.invite is not None:
        raise InputError(f"site {site.name!r} has joined a session; a new one needs new keys")
    invite = unpack(invitation, Invite)
    guarantee_of(invite)
    keys = (_public(site.signing), _public(site.masking))
    made = site.origin
    score = None if made.score is None else described_score(made.score)
    message = Join(invite.session, site.name, len(site.keys), *keys, score, made.model, made.temperature)
    return replace(site, invite=invite), pack(message, site.signing)


def enter(site: Site, seated: bytes) -> Site:
    """Find the neighbours on the roster, and agree on keys with them."""
    if site.invite is None or site.session is not None:
        raise InputError(f"site {site.name!r} has not joined yet, or has the roster already")
    session = entered(site.invite, seated)
    mine = (site.name, len(site.keys), _public(site.signing), _public(site.masking))
    seats = list(zip(session.names, session.sizes, session.signing, session.masking, strict=True))
    if mine not in seats:
        raise InputError(f"site {site.name!r} is not on the roster as it joined")
    index = seats.index(mine)
    agreed = {j: masks.pair_keys(site.masking, session.masking[j], session.id) for j in session.neighbours(index)}
    rounds = session.rounds
    words = sum(rounds.cells(r) for r in range(len(rounds.widths)))
    mask = np.zeros(words, dtype=rounds.dtype)
    for j, (key, _) in agreed.items():
        stream = masks.expand(key, words, rounds.dtype)
        if j > index:
            mask += stream
        else:
            mask -= stream
    return replace(site, session=session, index=index, agreed=agreed, mask=mask)


def answer(site: Site, asked: bytes) -> tuple[Site, bytes]:
    """Count, mask, and share the seed of the own mask."""
    session = _entered(site)
    question = unpack(asked, Question, session.coordinator)
    _check_round(site, question.session, question.number)
    if site.seed is not None or question.number >= len(session.rounds.widths):
        raise InputError(f"round {question.number} has been answered")
    search = Search(question.number, question.prefix)
    counts = session.rounds.histogram(search, site.keys, site.index)
    seed = os.urandom(16)
    start, words = masks.span(session.rounds, question.number)
    assert site.mask is not None  # noqa: S101
    masked = counts + site.mask[start : start + words] + masks.expand(seed, words, session.rounds.dtype)
    holders = session.holders(site.index)
    shares = [
        (j, masks.seal(site.agreed[j][1], share, masks.about_share(session.id, question.number, site.index, j)))
        for j, share in zip(holders, masks.split(seed, len(holders)), strict=True)
    ]
    message = Answer(session.id, question.number, question.prefix, site.index, masked.tobytes(), shares)
    return replace(site, seed=seed), pack(message, site.signing)


def reveal(site: Site, asked: bytes) -> tuple[Site, bytes]:
    """Reveal the own seed, the shares held for others who answered, and the masks shared with those who did not."""
    session = _entered(site)
    request = unpack(asked, Unmask, session.coordinator)
    _check_round(site, request.session, request.number)
    if site.seed is None:
        raise InputError(f"round {request.number} has not been answered yet")
    answered = as_present(request.answered, len(session.names))
    if request.site != site.index or site.index not in answered:
        raise InputError(f"site {site.name!r} answered round {request.number}, and is not among those who did")
    if 2 * len(answered) <= len(session.names) or len(answered) < 3:
        raise InputError(f"only {len(answered)} of {len(session.names)} sites answered; their sum stays hidden")
    shares = []
    for sender, sealed in request.shares:
        about = masks.about_share(session.id, request.number, sender, site.index)
        share = masks.unseal(site.agreed[sender][1], sealed, about) if sender in site.agreed else None
        if share is None or sender not in answered:
            raise InputError(f"a share that is said to come from site number {sender} was altered")
        shares.append((sender, share))
    start, words = masks.span(session.rounds, request.number)
    lost = [
        (j, masks.expand(key, words, session.rounds.dtype, start).tobytes())
        for j, (key, _) in site.agreed.items()
        if j not in answered
    ]
    message = Reveal(session.id, request.number, site.index, site.seed, shares, lost)
    return replace(site, seed=None, number=site.number + 1), pack(message, site.signing)


def as_present(bits: bytes, count: int) -> set[int]:
    """Read the numbers of those who answered from a row of bits."""
    if len(bits) != (count + 7) // 8:
        raise InputError("the list of those who answered does not fit the roster")
    found = np.flatnonzero(np.unpackbits(np.frombuffer(bits, dtype=np.uint8)))
    if len(found) and found[-1] >= count:
        raise InputError("the list of those who answered does not fit the roster")
    return set(found.tolist())


def _entered(site: Site) -> Session:
    if site.session is None:
        raise InputError(f"site {site.name!r} has no roster yet")
    return site.session


def _check_round(site: Site, session: bytes, number: int) -> None:
    if site.session is None or session != site.session.id:
        raise InputError("the message is of another session")
    if number != site.number:
        raise InputError(f"the message is of round {number}, expected round {site.number}")


def _public(key: Any) -> bytes:
    return bytes(key.public_key().public_bytes_raw())
