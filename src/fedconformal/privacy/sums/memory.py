"""A site remembers with whom its rows were summed: the difference of two sums over other sites would show one site.

Before it signs the list of the first sum of a session, which others may then open without it, it notes a digest of the
names and sizes of all who are in it. A second session of the same rows has to be with the same sites, from its roster
to its sums. Rows are known by their scores, and by the site's name and their number: who asks for another temperature
asks for the same rows. Sessions are counted, as every one shows counts of other cells, and a site's policy may end
that (`most_sessions`). Without a ledger a site remembers for as long as its state is there. Sums with noise spend
epsilon from the ledger instead.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

import msgspec
import numpy as np

from fedconformal._base.names import name_key
from fedconformal.errors import InputError
from fedconformal.privacy.ledger import enter_session, read_ledger
from fedconformal.privacy.sums.messages import Countersign, letter_of
from fedconformal.privacy.sums.radix import Rounds
from fedconformal.privacy.sums.session import Session
from fedconformal.privacy.sums.state import SiteState


def summed(session: Session, sites: Iterable[int]) -> str:
    """Return a digest of the names and sizes of some sites."""
    return _summed(session.names, session.sizes, frozenset(sites))


@lru_cache(maxsize=4)  # with everybody in one process, all sites note the same
def _summed(names: tuple[str, ...], sizes: tuple[int, ...], sites: frozenset[int]) -> str:
    listed = sorted((name_key(names[k]), sizes[k]) for k in sites)
    return hashlib.sha256(msgspec.msgpack.encode(listed)).hexdigest()


def rows_digest(site: SiteState) -> str:
    """Return a digest of a site's scores, in any order."""
    return hashlib.sha256(b"fedconformal sums\n" + np.sort(site.keys).tobytes()).hexdigest()


def known_by(site: SiteState) -> list[str]:
    """Return by what a site's rows are known: their scores, and its name with their number."""
    named = msgspec.msgpack.encode((name_key(site.name), site.size))
    return [rows_digest(site), hashlib.sha256(b"fedconformal sums site\n" + named).hexdigest()]


def remembering(before: SiteState, after: SiteState, sent: bytes) -> SiteState:
    """Refuse a sum with other sites than before; note with whom the first sum is, before its list is signed."""
    if not after.roster or not isinstance(after.session.rounds, Rounds):
        return after
    first = letter_of(sent) == Countersign.letter.encode() and before.number == 0
    if not first and before.roster:
        return after
    session = after.session
    found = summed(session, after.present if first else range(len(session.names)))
    if after.summed not in ("", found):
        raise InputError(
            f"site {after.name!r} has shown a sum of these rows with other sites, and the difference of two sums "
            "shows a single site; take part with the same sites, or in a session with epsilon"
        )
    return msgspec.structs.replace(after, summed=found) if first else after


def recalled(site: SiteState, ledger: Path) -> SiteState:
    """Return a new site with what its ledger says of these rows."""
    known = read_ledger(ledger).opened(known_by(site))
    return msgspec.structs.replace(site, ledger=str(ledger.resolve()), summed=known.sites, sessions=known.count)


def note(before: SiteState, after: SiteState) -> None:
    """Enter in the site's ledger, if it has one, with whom a sum is opened; to be called before anything is sent."""
    if after.ledger and after.counts and not before.counts:
        enter_session(Path(after.ledger), known_by(after), after.summed, after.sessions)
