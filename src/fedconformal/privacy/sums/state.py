"""States of the coordinator and of the sites of a sums session, between two messages.

A state holds secrets and is never sent. States are immutable: functions return the next state. An engine stores the
encoded state of a site.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import msgspec
import numpy as np

from fedconformal._base.arrays import Keys
from fedconformal.errors import InputError
from fedconformal.privacy.signatures import MaskingKey, SigningKey
from fedconformal.privacy.sums.masks import PairKeys
from fedconformal.privacy.sums.messages import (
    Answer,
    Countersign,
    Deposit,
    Invite,
    Join,
    Message,
    Reveal,
    Share,
    Shares,
)
from fedconformal.privacy.sums.radix import Search
from fedconformal.privacy.sums.session import Session, session_of
from fedconformal.summaries.format import NOTHING, ProvenanceHeader


class SiteState(
    msgspec.Struct, tag="sums-site-4", array_like=True, forbid_unknown_fields=True, frozen=True, dict=True, kw_only=True
):
    """State of a site, which never leaves it."""

    name: str
    scores: bytes
    """Order-preserving keys of all scores: 64-bit words, little-endian."""
    signing: SigningKey
    masking: MaskingKey
    summed: str = ""
    """Digest of the sites with which a sum of these scores was opened, in this session or before; see `site.summed`."""
    sessions: int = 0
    """Number of earlier sessions that opened a sum of these rows."""
    ledger: str = ""
    """Path of the ledger that records them."""
    trusted: dict[str, str] | None = None
    """Keys required of the other sites, by name; None if there is no requirement."""
    invite: Invite | None = None
    roster: bytes = b""
    """The roster as received, with the coordinator's signature."""
    index: int = -1
    agreed: dict[int, PairKeys] = {}
    """Keys shared with each neighbour, nearest first."""
    secrets: list[Share] = []
    """One secret per round, from which the seed of the site's own mask is derived."""
    number: int = 0
    """The current or next round."""
    prefix: int = 0
    """The digits of the last question."""
    stage: Literal["waiting", "answered", "signed", "revealed", "over"] = "waiting"
    """Last action of the site in the round; after "revealed" it may open shares of lost sites once."""
    about: bytes = b""
    """Subject of the site's last answer."""
    present: frozenset[int] = frozenset()
    asked: bytes = b""
    """The SHA-256 of the last message, whose answer is `reply`: a repeated message gets the same answer."""
    reply: bytes = b""
    provenance: ProvenanceHeader = NOTHING
    patients: int | None = None
    """Number of distinct ids among the rows, for the site's policy; None if there are no ids."""

    @property
    def keys(self) -> Keys:
        """The keys of the scores."""
        return np.frombuffer(self.scores, dtype="<u8")

    @property
    def size(self) -> int:
        """The number of rows."""
        return len(self.keys)

    @property
    def counts(self) -> bool:
        """Whether this session counts as opened: the list of its first sum, without noise, is signed."""
        noisy = self.invite is None or self.invite.epsilon is not None
        return not noisy and (self.number > 0 or self.stage == "signed")

    @cached_property
    def session(self) -> Session:
        """The session, once there is a roster."""
        if self.invite is None or not self.roster:
            raise InputError(f"site {self.name!r} has no roster yet")
        return session_of(msgspec.msgpack.encode(self.invite), self.roster)

    def __repr__(self) -> str:
        """Show no secrets."""
        return f"SiteState(name={self.name!r}, number={self.number})"


@dataclass(frozen=True)
class CoordinatorState:
    """State of the coordinator."""

    signing: SigningKey
    invite: Invite
    roster: bytes = b""
    """The roster as sent, with the coordinator's signature."""
    search: Search = field(default_factory=Search)
    present: frozenset[int] = frozenset()
    deposits: Mapping[int, Deposit] = field(default_factory=dict)
    answers: Mapping[int, Answer] = field(default_factory=dict)
    signed: frozenset[int] = frozenset()
    """Sites that signed the list of answers of the open round."""
    reveals: Mapping[int, Reveal] = field(default_factory=dict)
    """Reveals of the open round, if a site was lost after its answer and has to be recovered."""
    counted: frozenset[int] = frozenset()
    """Sites that answered the last closed round; the sum includes those that were lost later."""
    dropped: dict[int, str] = field(default_factory=dict)
    """Sites that dropped out, with the time."""

    @property
    def expects(self) -> type[Message]:
        """The kind of message that the sites send next."""
        if self.search.answer is not None:
            raise InputError("the threshold has been found; there are no more rounds")
        if not self.roster:
            return Join
        if not self.deposits:
            return Deposit
        if not self.answers:
            return Answer
        if not self.signed:
            return Countersign
        return Shares if self.reveals else Reveal

    @cached_property
    def session(self) -> Session:
        """The session, once there is a roster."""
        if not self.roster:
            raise InputError("there is no roster yet")
        return session_of(msgspec.msgpack.encode(self.invite), self.roster)

    @cached_property
    def lost_after_answer(self) -> frozenset[int]:
        """Sites that answered the open round but did not reveal."""
        return frozenset(self.answers.keys() - self.reveals.keys())

    @property
    def may_restart(self) -> bool:
        """Whether the session may restart without a lost site: only before the first answer is in.

        Nothing is disclosed until then, so the guarantee is for the sites that are left. Later the roster is frozen:
        the difference of two sums over different sites would show one site's counts.
        """
        return self.search.number == 0 and not self.answers

    def held_by(self, holder: int) -> list[int]:
        """Return the lost sites whose shares this site holds."""
        return sorted(self.lost_after_answer.intersection(self.session.neighbours(holder)))

    @cached_property
    def about(self) -> bytes:
        """Subject of the open round."""
        return self.session.about(self.search.number, self.search.prefix, self.session.as_bits(self.present))

    def __repr__(self) -> str:
        """Show no secrets."""
        return f"CoordinatorState(search={self.search})"


def encode_state(state: SiteState) -> bytes:
    """Encode the state of a site; the bytes hold secrets."""
    return msgspec.msgpack.encode(state)


def decode_state(data: bytes) -> SiteState:
    """Decode the state of a site."""
    try:
        return msgspec.msgpack.decode(data, type=SiteState)
    except (msgspec.DecodeError, UnicodeDecodeError, OverflowError, RecursionError):
        raise InputError("this is not a state of a sums session of this release; start the session again") from None
