"""A site in a sums session: pure functions from its state and a message to the next state and its answer.

A site answers every round once and reveals once, in order: a coordinator that could ask twice, with another list of
those who answered, would learn a single site's counts from the difference. Who is out stays out, and of a site that did
not answer in time no share is ever opened that would unmask a late answer.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from fedconformal._base.arrays import as_scores
from fedconformal._base.extras import needing
from fedconformal._base.float_bits import Keys, keys_of
from fedconformal._base.names import as_name
from fedconformal.errors import InputError
from fedconformal.privacy.sums import masks
from fedconformal.privacy.sums.messages import (
    Answer,
    Deposit,
    Invite,
    Join,
    Lost,
    Question,
    Reveal,
    Shares,
    Unmask,
    pack,
    unpack,
)
from fedconformal.privacy.sums.radix import Counted, Rounds, Search
from fedconformal.privacy.sums.session import Session, entered, guarantee_of
from fedconformal.summaries import Origin
from fedconformal.summaries.summary import described_score

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Site:
    """What a site knows; all of it stays there."""

    name: str
    keys: Keys = field(repr=False)
    signing: Ed25519PrivateKey = field(repr=False)
    masking: X25519PrivateKey = field(repr=False)
    secrets: tuple[bytes, bytes] = field(repr=False)
    """From the first follow the seeds of its own masks, the second locks its halves of keys."""
    origin: Origin = field(default_factory=Origin)
    invite: Invite | None = None
    session: Session | None = None
    index: int = -1
    agreed: dict[int, masks.PairKeys] = field(default_factory=dict, repr=False)
    """The keys agreed on with each neighbour, nearest first."""
    mask: Counted | None = field(default=None, repr=False)
    """The sum of the masks with all neighbours, for all rounds; None if it is not kept."""
    number: int = 0
    """The next round, or the one that is open."""
    open: bool = False
    """Whether the round has been answered, and nothing revealed yet."""
    present: frozenset[int] = frozenset()
    """Who was there when this site last heard of it."""
    may_open: bool = False
    """Whether shares of sites that were lost in the round before may still be asked for."""


def new_site(name: str, scores: ArrayLike, origin: Origin | None = None) -> Site:
    """Make a site with fresh keys; `origin` is what the scores were made from."""
    with needing("secure"):
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
    name = as_name(name, "site")
    keys = Ed25519PrivateKey.generate(), X25519PrivateKey.generate()
    secrets = os.urandom(masks.SECRET), os.urandom(masks.SECRET)
    return Site(name, keys_of(as_scores(scores)), *keys, secrets, origin or Origin())


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


def take_seat(site: Site, seated: bytes, agreed: Iterable[masks.PairKeys] | None = None) -> Site:
    """Find the neighbours on the roster, and agree on keys with them, unless these are known already."""
    if site.invite is None or site.session is not None:
        raise InputError(f"site {site.name!r} has not joined yet, or has the roster already")
    session = entered(site.invite, seated)
    mine = (site.name, len(site.keys), _public(site.signing), _public(site.masking))
    seats = list(zip(session.names, session.sizes, session.signing, session.masking, strict=True))
    if mine not in seats:
        raise InputError(f"site {site.name!r} is not on the roster as it joined")
    index = seats.index(mine)
    near = session.neighbours(index)
    if agreed is None:
        agreed = [masks.pair_keys(site.masking, session.masking[j], session.id) for j in near]
    everybody = frozenset(range(len(seats)))
    return replace(site, session=session, index=index, agreed=dict(zip(near, agreed, strict=True)), present=everybody)


def enter(site: Site, seated: bytes) -> tuple[Site, bytes]:
    """Take a seat, and leave with some neighbours what is needed should this site be lost."""
    site = take_seat(site, seated)
    session, index = _entered(site)
    if isinstance(session.rounds, Rounds) and not session.rounds.alike:
        logger.warning("the sites weigh differently with %s: sums can be taken apart", session.guarantee.name)
    words = sum(session.rounds.cells(r) for r in range(len(session.rounds.widths)))
    site = replace(site, mask=_added(site, site.agreed, 0, words))
    holders = session.holders(index)
    both = zip(*(masks.split(secret, len(holders)) for secret in site.secrets), strict=True)
    shares = [
        (j, masks.seal(site.agreed[j].seal, own + locking, masks.about_share(session.id, index, j)))
        for j, (own, locking) in zip(holders, both, strict=True)
    ]
    halves = masks.lock(site.secrets[1], [(keys, index < j) for j, keys in site.agreed.items()])
    return site, pack(Deposit(session.id, index, halves, shares), site.signing)


def answer(site: Site, asked: bytes) -> tuple[Site, bytes]:
    """Count, and mask."""
    session, index = _entered(site)
    question = unpack(asked, Question, session.coordinator)
    _check_round(site, question.session, question.number)
    if site.open or question.number >= len(session.rounds.widths):
        raise InputError(f"round {question.number} has been answered")
    present = _left(site, question.present)
    search = Search(question.number, question.prefix)
    counts = session.rounds.histogram(search, site.keys, index)
    masked = counts + _mask(site, present)
    masked += masks.expand(masks.seed_of(site.secrets[0], question.number), len(counts), session.rounds.dtype)
    message = Answer(session.id, question.number, question.prefix, index, masked.tobytes())
    return replace(site, open=True, present=present, may_open=False), pack(message, site.signing)


def reveal(site: Site, asked: bytes) -> tuple[Site, bytes]:
    """Reveal the seed of the own mask, and the masks shared with those who did not answer."""
    session, index = _entered(site)
    request = unpack(asked, Unmask, session.coordinator)
    _check_round(site, request.session, request.number)
    if not site.open:
        raise InputError(f"round {request.number} has not been answered yet")
    answered = _left(site, request.answered)
    start, words = masks.span(session.rounds, request.number)
    missing = [
        (j, masks.expand(keys.mask, words, session.rounds.dtype, start).tobytes())
        for j, keys in site.agreed.items()
        if j in site.present and j not in answered
    ]
    seed = masks.seed_of(site.secrets[0], request.number)
    message = Reveal(session.id, request.number, index, seed, missing)
    done = replace(site, open=False, number=site.number + 1, present=answered, may_open=True)
    return done, pack(message, site.signing)


def open_shares(site: Site, asked: bytes) -> tuple[Site, bytes]:
    """Open the shares held for lost sites: of both secrets if they had answered, of the lock alone if not."""
    session, index = _entered(site)
    request = unpack(asked, Lost, session.coordinator)
    if request.session != session.id or request.number != site.number - 1 or not site.may_open:
        raise InputError(f"shares of sites lost in round {request.number} are not to be opened now")
    vanished = session.of_bits(request.vanished)
    left = site.present - vanished
    if request.site != index or index not in left or not vanished <= site.present:
        raise InputError("the list of those who vanished after their answer cannot be right")
    if 2 * len(left) <= len(session.names):
        raise InputError(f"only {len(left)} of {len(session.names)} sites are left; nothing is opened")
    opened = []
    for sender, sealed in request.shares:
        about = masks.about_share(session.id, sender, index)
        share = masks.unseal(site.agreed[sender].seal, sealed, about) if sender in site.agreed else None
        if share is None or sender in left:
            raise InputError(f"a share of site number {sender} was altered, or the site is not lost")
        own, locking = share[: masks.SECRET], share[masks.SECRET :]
        opened.append((sender, own if sender in vanished else None, locking))
    message = Shares(session.id, request.number, index, opened)
    return replace(site, present=left, may_open=False), pack(message, site.signing)


def _left(site: Site, bits: bytes) -> frozenset[int]:
    """Read who is left; it has to be some of those who were, this site among them, and enough to hide it."""
    session, index = _entered(site)
    left = session.of_bits(bits)
    if index not in left or (left is not site.present and not left <= site.present):
        raise InputError(f"the list of those who are left cannot be right: site {site.name!r} is, who was out is not")
    session.check_enough(left)
    near = len(left.intersection(site.agreed))  # & would go through all sites, not the neighbours
    if 3 * near < len(site.agreed):
        raise InputError(f"only {near} of {len(site.agreed)} neighbours of site {site.name!r} are left to hide behind")
    return left


def _mask(site: Site, present: frozenset[int]) -> Counted:
    """Return the sum of this round's masks with those neighbours who are present."""
    session, _ = _entered(site)
    start, words = masks.span(session.rounds, site.number)
    if site.mask is None:
        return _added(site, present & site.agreed.keys(), start, words)
    found: Counted = site.mask[start : start + words] - _added(site, site.agreed.keys() - present, start, words)
    return found


def _added(site: Site, neighbours: Iterable[int], start: int, words: int) -> Counted:
    """Add up the masks shared with these: of the two who share one, the first adds it and the second subtracts it."""
    session, index = _entered(site)
    total = np.zeros(words, dtype=session.rounds.dtype)
    for j in neighbours:
        stream = masks.expand(site.agreed[j].mask, words, session.rounds.dtype, start)
        if j > index:
            total += stream
        else:
            total -= stream
    return total


def _entered(site: Site) -> tuple[Session, int]:
    if site.session is None:
        raise InputError(f"site {site.name!r} has no roster yet")
    return site.session, site.index


def _check_round(site: Site, session: bytes, number: int) -> None:
    if site.session is None or session != site.session.id:
        raise InputError("the message is of another session")
    if number != site.number:
        raise InputError(f"the message is of round {number}, expected round {site.number}")


def _public(key: Any) -> bytes:
    return bytes(key.public_key().public_bytes_raw())
