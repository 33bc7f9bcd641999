"""A site in a sums session: pure functions from its state and a message to the next state and its answer.

A site answers a question, signs the list of answering sites, verifies that enough others signed the same list, and
reveals. It signs and reveals once per round: with two different lists, a coordinator would learn a single site's counts
from the difference. Before signing, it answers again with other masks if some others did not answer. An excluded site
stays excluded; and after the first sum no site may be missing.

A site records the sites with which its rows were summed: before signing the list of the first sum, it stores a digest
of their names and sizes, and a second session of the same rows must have the same sites. Rows are identified by their
scores, and by the site's name and their number. Sessions are counted, and a policy may limit them (`most_sessions`).
Without a ledger the record lasts as long as the site's state. Sums with noise spend epsilon instead.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from fedconformal._base.arrays import as_scores, keys_of
from fedconformal._base.names import as_name, name_key
from fedconformal.errors import InputError
from fedconformal.privacy.ledger import enter_session, read_ledger
from fedconformal.privacy.signatures import MaskingKey, SigningKey
from fedconformal.privacy.sums import masks
from fedconformal.privacy.sums.messages import (
    Answer,
    Closed,
    Countersign,
    Deposit,
    Identity,
    Invite,
    Join,
    Lost,
    OfRound,
    Question,
    Reveal,
    Shares,
    Unmask,
    joining,
    letter_of,
    pack,
    unpack,
)
from fedconformal.privacy.sums.radix import Counted, Search
from fedconformal.privacy.sums.session import Session, check_scores, check_trusted, guarantee_of
from fedconformal.privacy.sums.state import SiteState
from fedconformal.summaries import Provenance, Summary
from fedconformal.summaries.exact import ExactSummary
from fedconformal.summaries.provenance import UNKNOWN

Step = tuple[SiteState, bytes]
"""The next state, and the message to the coordinator."""

changed = msgspec.structs.replace


def new_site(
    name: str, scores: ArrayLike, provenance: Provenance | None = None, trusted: Mapping[str, str] | None = None
) -> SiteState:
    """Return a site with new keys; `trusted` are the keys required of all sites, in hexadecimal."""
    words = keys_of(as_scores(scores)).astype("<u8").tobytes()
    stated = (provenance or UNKNOWN).to_header()
    return _new_state(name=as_name(name, "site"), scores=words, trusted=trusted, provenance=stated)


def site_from(summary: Summary, trusted: Mapping[str, str] | None = None) -> SiteState:
    """Return a site with new keys from its own exact summary, which is not sent."""
    if not isinstance(summary, ExactSummary) or len(summary.sites) != 1:
        raise InputError(
            'a sums session needs all scores of one named site; summarise with kind="exact" and a site', param="kind"
        )
    return new_site(summary.sites[0], summary.values, summary.provenance, trusted)


def _new_state(*, trusted: Mapping[str, str] | None, **fields: Any) -> SiteState:
    return SiteState(
        **fields,
        trusted=None if trusted is None else dict(trusted),
        signing=SigningKey.new(),
        masking=MaskingKey.new(),
    )


def with_new_keys(site: SiteState) -> SiteState:
    """Return a site with the same scores and new keys, for another session."""
    fields = {name: getattr(site, name) for name in ("name", "scores", "patients", "trusted", "summed", "ledger")}
    return _new_state(**fields, provenance=site.provenance, sessions=site.sessions + site.counts)


def step(site: SiteState, message: bytes, key: bytes | None = None) -> Step:
    """Run the step requested by a message, with `key` for an invitation; a repeated message gets the same answer."""
    kind, digest = letter_of(message), hashlib.sha256(message).digest()
    if digest == site.asked:
        return site, site.reply
    if kind == Invite.letter.encode():
        after, sent = join(site, message, key)
    elif kind in STEPS:
        after, sent = STEPS[kind](site, message)
    else:
        raise InputError(f"this is not a message of a sums session for a site: its kind is {kind!r}")
    return changed(_remember(site, after, sent), asked=digest, reply=sent), sent


def join(site: SiteState, invitation: bytes, key: bytes | None = None) -> Step:
    """Check an invitation and join; `key` is the site's lasting private key for all sessions."""
    if site.invite is not None:
        raise InputError(f"site {site.name!r} has joined a session; a new one needs new keys")
    invite = unpack(invitation, Invite)
    guarantee_of(invite)
    check_scores(Provenance.from_header(site.provenance), invite, f"site {site.name!r}")
    mine, identity = (site.name, site.size, site.signing.public, site.masking.public), None
    if key is not None:
        lasting = SigningKey(key)
        identity = Identity(lasting.public, lasting.sign(joining(*mine, invite.session)))
    message = Join(invite.session, *mine, identity, site.provenance)
    return changed(site, invite=invite), pack(message, site.signing)


def enter(site: SiteState, roster: bytes) -> Step:
    """Agree on keys with the neighbours, and deposit shares of the secrets in case this site is lost."""
    if site.invite is None or site.roster:
        raise InputError(f"site {site.name!r} has not joined yet, or has the roster already")
    site = changed(site, roster=roster)
    session = site.session
    mine = (site.name, site.size, site.signing.public, site.masking.public)
    listed = list(zip(session.names, session.sizes, session.signing, session.masking, strict=True))
    if mine not in listed:
        raise InputError(f"site {site.name!r} is not on the roster as it joined")
    if difference := session.provenance.difference(Provenance.from_header(site.provenance)):
        raise InputError(f"the roster is for other scores than those of site {site.name!r}: {difference}")
    if site.trusted is not None:
        check_trusted(session, site.trusted)
    index = listed.index(mine)
    keys, mark = session.masking, session.fingerprint
    agreed = {j: masks.pair_keys(site.masking, keys[j], mark) for j in session.neighbours(index)}
    secrets, held = masks.split(len(agreed), session.needed, session.rounds.steps)
    shares = [
        (j, masks.seal(keys.seal, share, masks.about_share(session.id, index, j)))
        for (j, keys), share in zip(agreed.items(), held, strict=True)
    ]
    site = changed(site, index=index, agreed=agreed, secrets=secrets, present=frozenset(range(len(listed))))
    return site, pack(Deposit(session.id, index, shares), site.signing)


def answer(site: SiteState, message_bytes: bytes) -> Step:
    """Answer a question with masked counts."""
    session = site.session
    question = unpack(message_bytes, Question, session.coordinator)
    if question.session != session.id:
        raise InputError("the message is of another session")
    if question.number != site.number or question.number >= session.rounds.steps:
        raise InputError(f"the message is of round {question.number}, expected round {site.number}")
    if site.stage == "over":
        raise InputError("the session has ended: a site was lost after its answer")
    again = site.stage == "answered"
    if site.stage == "signed" or (again and question.present == session.as_bits(site.present)):
        raise InputError(f"round {question.number} has been answered")
    before, search = Search(site.number - 1, site.prefix) if site.number else None, Search(site.number, question.prefix)
    if question.prefix != site.prefix if again else not session.rounds.extends(before, search):
        raise InputError(f"round {question.number} asks for other scores than those of the round before")
    present = _left(site, question.present)
    about = session.about(question.number, question.prefix, question.present)
    counts = session.rounds.histogram(search, site.keys)
    masked = counts + _mask(site, present, about, len(counts))
    message = Answer(session.id, about, site.index, masked.tobytes())
    now = changed(site, stage="answered", about=about, prefix=question.prefix, present=present)
    return now, pack(message, site.signing)


def countersign(site: SiteState, message_bytes: bytes) -> Step:
    """Sign the list of answering sites, for which the masks were derived."""
    _check_turn(site, unpack(message_bytes, Closed, site.session.coordinator), "answered")
    message = Countersign(site.session.id, site.about, site.index)
    return changed(site, stage="signed"), pack(message, site.signing)


def reveal(site: SiteState, message_bytes: bytes) -> Step:
    """Reveal the seed of the site's own mask, once enough others have signed the same list."""
    session = site.session
    request = unpack(message_bytes, Unmask, session.coordinator)
    _check_turn(site, request, "signed")
    session.check_countersigned(site.about, site.present, request.signatures)
    seed = masks.round_key(site.secrets[site.number], site.about)
    message = Reveal(session.id, site.about, site.index, seed)
    return changed(site, stage="revealed", number=site.number + 1), pack(message, site.signing)


def open_shares(site: SiteState, message_bytes: bytes) -> Step:
    """Open the shares of lost sites' secrets, for the revealed round only."""
    session = site.session
    request = unpack(message_bytes, Lost, session.coordinator)
    _check_turn(site, request, "revealed")
    lost = {sender for sender, _ in request.shares}
    if request.site != site.index or site.index in lost or not lost <= site.present:
        raise InputError("the list of sites lost after their answer is invalid")
    opened, start = [], masks.SECRET * (site.number - 1)
    for sender, sealed in request.shares:
        about = masks.about_share(session.id, sender, site.index)
        shares = masks.unseal(site.agreed[sender].seal, sealed, about) if sender in site.agreed else None
        if shares is None or len(shares) != masks.SECRET * session.rounds.steps:
            raise InputError(f"a share of site number {sender} was altered")
        opened.append((sender, shares[start : start + masks.SECRET]))
    message = Shares(session.id, request.about, site.index, opened)
    return changed(site, stage="over"), pack(message, site.signing)


def _left(site: SiteState, bits: bytes) -> frozenset[int]:
    """Decode the sites that are left: a subset of those before, with this site, and enough to hide it."""
    session = site.session
    left = session.of_bits(bits)
    if site.index not in left or not left <= site.present:
        raise InputError(f"the list of remaining sites lacks site {site.name!r}, or holds an excluded one")
    if site.number and left != site.present:
        raise InputError(
            f"site {site.name!r} answers no more: a site was lost after the first sum, and the difference "
            "of two sums shows a single site; the session ends"
        )
    session.check_enough(left)
    near = len(left.intersection(site.agreed))  # & would go through all sites, not the neighbours
    if near < session.near:
        raise InputError(
            f"only {near} of {len(site.agreed)} neighbours of site {site.name!r} are left to hide it, expected "
            f"{session.near}: the session ends"
        )
    return left


def _mask(site: SiteState, present: frozenset[int], about: bytes, words: int) -> Counted:
    """Return the sum of the round's masks; of two neighbours, the first adds their mask and the second subtracts it."""
    dtype, index = site.session.rounds.dtype, site.index
    keys_of_round = [(j, masks.round_key(keys.mask, about)) for j, keys in site.agreed.items() if j in present]
    added = [masks.round_key(site.secrets[site.number], about), *(key for j, key in keys_of_round if j > index)]
    subtracted = (key for j, key in keys_of_round if j < index)
    return masks.masks_of(added, words, dtype) - masks.masks_of(subtracted, words, dtype)


def _check_turn(site: SiteState, request: OfRound, stage: str) -> None:
    if request.session != site.session.id or request.about != site.about:
        raise InputError(f"the message is of another session, round or list of sites than site {site.name!r} knows of")
    if site.stage != stage:
        raise InputError(f"site {site.name!r} is in another step of round {site.number}")


STEPS: dict[bytes, Callable[[SiteState, bytes], Step]] = {
    b"R": enter,
    b"Q": answer,
    b"C": countersign,
    b"U": reveal,
    b"L": open_shares,
}


def digest_of_sites(session: Session, sites: Iterable[int]) -> str:
    """Return a digest of the names and sizes of some sites."""
    listed = sorted((name_key(session.names[k]), session.sizes[k]) for k in sites)
    return hashlib.sha256(msgspec.msgpack.encode(listed)).hexdigest()


def row_digests(site: SiteState) -> list[str]:
    """Return two digests that identify a site's rows: of their scores, and of the site's name and their number."""
    scores, named = np.sort(site.keys).tobytes(), msgspec.msgpack.encode((name_key(site.name), site.size))
    return [hashlib.sha256(b"fedconformal sums" + what).hexdigest() for what in (b"\n" + scores, b" site\n" + named)]


def _remember(before: SiteState, after: SiteState, sent: bytes) -> SiteState:
    """Refuse a sum with other sites than before; record the sites of the first sum before its list is signed."""
    if not after.roster or after.session.rounds.noisy:
        return after
    first = letter_of(sent) == Countersign.letter.encode() and before.number == 0
    if not first and before.roster:
        return after
    session = after.session
    sites = digest_of_sites(session, after.present if first else range(len(session.names)))
    if after.summed not in ("", sites):
        raise InputError(
            f"site {after.name!r} has shown a sum of these rows with other sites, and the difference of two sums "
            "shows a single site; take part with the same sites, or in a session with epsilon"
        )
    return changed(after, summed=sites) if first else after


def recall_sessions(site: SiteState, ledger: Path) -> SiteState:
    """Return a new site with its ledger's record of these rows."""
    known = read_ledger(ledger).opened(row_digests(site))
    return changed(site, ledger=str(ledger.resolve()), summed=known.sites, sessions=known.count)


def enter_sums(before: SiteState, after: SiteState) -> None:
    """Enter the sites of an opened sum in the site's ledger, if any; to be called before anything is sent."""
    if after.ledger and after.counts and not before.counts:
        enter_session(Path(after.ledger), row_digests(after), after.summed, after.sessions)
