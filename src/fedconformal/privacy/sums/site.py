"""A site in a sums session: pure functions from its state and a message to the next state and its answer.

A site answers every round once and reveals once, in order: a coordinator that could ask twice, with another list of
those who answered, would learn a single site's counts from the difference. A site that is out stays out. Of a site that
did not answer in time no share is ever opened that would unmask a late answer.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from fedconformal._base.arrays import as_scores
from fedconformal._base.float_bits import keys_of
from fedconformal._base.names import as_name
from fedconformal.errors import InputError
from fedconformal.privacy.keys import MaskingKey, SigningKey
from fedconformal.privacy.sums import masks
from fedconformal.privacy.sums.memory import remembering
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
    letter_of,
    pack,
    unpack,
)
from fedconformal.privacy.sums.radix import Counted, Rounds, Search
from fedconformal.privacy.sums.session import guarantee_of
from fedconformal.privacy.sums.state import SiteState
from fedconformal.summaries import Origin, Summary
from fedconformal.summaries.exact import ExactSummary
from fedconformal.summaries.origin import UNKNOWN
from fedconformal.summaries.summary import origin_fields

logger = logging.getLogger(__name__)

Step = tuple[SiteState, bytes]
"""The next state, and what to send to the coordinator."""

changed = msgspec.structs.replace


def new_site(name: str, scores: ArrayLike, origin: Origin | None = None) -> SiteState:
    """Make a site with fresh keys; `origin` is what the scores were made from."""
    return SiteState(
        name=as_name(name, "site"),
        scores=keys_of(as_scores(scores)).astype("<u8").tobytes(),
        **fresh_secrets(),
        **origin_fields(origin or UNKNOWN),
    )


def site_from(summary: Summary) -> SiteState:
    """Make a site with fresh keys from its own exact summary, which stays there."""
    if not isinstance(summary, ExactSummary) or len(summary.sites) != 1:
        raise InputError('a sums session needs all scores of one named site; summarise with kind="exact" and a site')
    return new_site(summary.sites[0], summary.values, summary.origin)


def renewed(site: SiteState) -> SiteState:
    """Return the same scores with fresh keys, for another session."""
    kept = ("name", "scores", "score", "model", "temperature", "summed", "ledger")
    return SiteState(**{name: getattr(site, name) for name in kept}, **fresh_secrets())


def fresh_secrets() -> dict[str, Any]:
    """Make what a site must not use in two sessions."""
    secrets = os.urandom(masks.SECRET), os.urandom(masks.SECRET)
    return {"signing": SigningKey.new(), "masking": MaskingKey.new(), "secrets": secrets}


def step(site: SiteState, message: bytes) -> Step:
    """Take the step that a message from the coordinator asks for."""
    kind = letter_of(message)
    if kind not in STEPS:
        raise InputError(f"this is not a message of a sums session for a site: its kind is {kind!r}")
    after, sent = STEPS[kind](site, message)
    return remembering(site, after, sent), sent


def join(site: SiteState, invitation: bytes) -> Step:
    """Look at an invitation and join."""
    if site.invite is not None:
        raise InputError(f"site {site.name!r} has joined a session; a new one needs new keys")
    invite = unpack(invitation, Invite)
    guarantee_of(invite)
    message = Join(
        session=invite.session,
        site=site.name,
        size=len(site.keys),
        signing=site.signing.public,
        masking=site.masking.public,
        score=site.score,
        model=site.model,
        temperature=site.temperature,
    )
    return changed(site, invite=invite), pack(message, site.signing)


def enter(site: SiteState, roster: bytes) -> Step:
    """Agree on keys with the neighbours, and leave with some of them what is needed should this site be lost."""
    if site.invite is None or site.roster:
        raise InputError(f"site {site.name!r} has not joined yet, or has the roster already")
    site = changed(site, roster=roster)
    session = site.session
    mine = (site.name, len(site.keys), site.signing.public, site.masking.public)
    listed = list(zip(session.names, session.sizes, session.signing, session.masking, strict=True))
    if mine not in listed:
        raise InputError(f"site {site.name!r} is not on the roster as it joined")
    if isinstance(session.rounds, Rounds) and not session.rounds.alike:
        logger.warning("the sites weigh differently with %s: sums can be taken apart", session.guarantee.name)
    index = listed.index(mine)
    agreed = {j: masks.pair_keys(site.masking, session.masking[j], session.id) for j in session.neighbours(index)}
    site = changed(site, index=index, agreed=agreed, present=frozenset(range(len(listed))))
    words = sum(session.rounds.cells(r) for r in range(len(session.rounds.widths)))
    site = changed(site, mask=_added(site, agreed, 0, words).tobytes())
    holders = session.holders(index)
    both = zip(*(masks.split(secret, len(holders)) for secret in site.secrets), strict=True)
    shares = [
        (j, masks.seal(agreed[j].seal, own + locking, masks.about_share(session.id, index, j)))
        for j, (own, locking) in zip(holders, both, strict=True)
    ]
    halves = masks.lock(site.secrets[1], [(keys, index < j) for j, keys in agreed.items()])
    return site, pack(Deposit(session.id, index, halves, shares), site.signing)


def answer(site: SiteState, asked: bytes) -> Step:
    """Count, and mask."""
    session = site.session
    question = unpack(asked, Question, session.coordinator)
    _check_round(site, question.session, question.number)
    if site.open or question.number >= len(session.rounds.widths):
        raise InputError(f"round {question.number} has been answered")
    present = _left(site, question.present)
    search = Search(question.number, question.prefix)
    counts = session.rounds.histogram(search, site.keys, site.index)
    masked = counts + _mask(site, present)
    masked += masks.expand(masks.seed_of(site.secrets[0], question.number), len(counts), session.rounds.dtype)
    message = Answer(session.id, question.number, question.prefix, site.index, masked.tobytes())
    return changed(site, open=True, present=present, may_open=False), pack(message, site.signing)


def reveal(site: SiteState, asked: bytes) -> Step:
    """Reveal the seed of the own mask, and the masks shared with those who did not answer."""
    session = site.session
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
    message = Reveal(session.id, request.number, site.index, seed, missing)
    done = changed(site, open=False, number=site.number + 1, present=answered, may_open=True)
    return done, pack(message, site.signing)


def open_shares(site: SiteState, asked: bytes) -> Step:
    """Open the shares held for lost sites: of both secrets if they had answered, of the lock alone if not."""
    session = site.session
    request = unpack(asked, Lost, session.coordinator)
    if request.session != session.id or request.number != site.number - 1 or not site.may_open:
        raise InputError(f"shares of sites lost in round {request.number} are not to be opened now")
    lost = session.of_bits(request.lost)
    left = site.present - lost
    if request.site != site.index or site.index not in left or not lost <= site.present:
        raise InputError("the list of sites that were lost after their answer cannot be right")
    if not masks.is_majority(len(left), len(session.names)):
        raise InputError(f"only {len(left)} of {len(session.names)} sites are left; nothing is opened")
    opened = []
    for sender, sealed in request.shares:
        about = masks.about_share(session.id, sender, site.index)
        share = masks.unseal(site.agreed[sender].seal, sealed, about) if sender in site.agreed else None
        if share is None or sender in left:
            raise InputError(f"a share of site number {sender} was altered, or the site is not lost")
        own, locking = share[: masks.SECRET], share[masks.SECRET :]
        opened.append((sender, own if sender in lost else None, locking))
    message = Shares(session.id, request.number, site.index, opened)
    return changed(site, present=left, may_open=False), pack(message, site.signing)


def _left(site: SiteState, bits: bytes) -> frozenset[int]:
    """Read who is left; it has to be some of those who were, this site among them, and enough to hide it."""
    session = site.session
    left = session.of_bits(bits)
    if site.index not in left or (left is not site.present and not left <= site.present):
        raise InputError(f"the list of those who are left cannot be right: site {site.name!r} is, who was out is not")
    session.check_enough(left)
    near = len(left.intersection(site.agreed))  # & would go through all sites, not the neighbours
    if not masks.hide_enough(near, len(site.agreed)):
        raise InputError(f"only {near} of {len(site.agreed)} neighbours of site {site.name!r} are left to hide behind")
    return left


def _mask(site: SiteState, present: frozenset[int]) -> Counted:
    """Return the sum of this round's masks with those neighbours who are present."""
    session = site.session
    start, words = masks.span(session.rounds, site.number)
    if not site.mask:
        return _added(site, present & site.agreed.keys(), start, words)
    whole = np.frombuffer(site.mask, dtype=session.rounds.dtype)
    found: Counted = whole[start : start + words] - _added(site, site.agreed.keys() - present, start, words)
    return found


def _added(site: SiteState, neighbours: Iterable[int], start: int, words: int) -> Counted:
    """Add up the masks shared with these: of the two who share one, the first adds it and the second subtracts it."""
    session = site.session
    total = np.zeros(words, dtype=session.rounds.dtype)
    for j in neighbours:
        stream = masks.expand(site.agreed[j].mask, words, session.rounds.dtype, start)
        if j > site.index:
            total += stream
        else:
            total -= stream
    return total


def _check_round(site: SiteState, session: bytes, number: int) -> None:
    if session != site.session.id:
        raise InputError("the message is of another session")
    if number != site.number:
        raise InputError(f"the message is of round {number}, expected round {site.number}")


STEPS: dict[bytes, Callable[[SiteState, bytes], Step]] = {
    b"I": join,
    b"R": enter,
    b"Q": answer,
    b"U": reveal,
    b"L": open_shares,
}
