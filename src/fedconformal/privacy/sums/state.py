"""What the coordinator and the sites of a sums session know, between two messages.

A state is a plain value: in memory, in a file and in Flower's context it is the same one. It holds secrets and is never
sent. Functions return the next state and leave this one as it is.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import Annotated, Any, Literal, TypeVar

import msgspec
import numpy as np

from fedconformal._base.float_bits import Keys
from fedconformal.errors import InputError
from fedconformal.privacy.keys import MaskingKey, SigningKey
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
from fedconformal.privacy.sums.session import Session, joined_origin, session_of
from fedconformal.summaries import Origin
from fedconformal.summaries.wire import NOTHING, About, ScoreField


class SiteState(
    msgspec.Struct, tag="sums-site-3", array_like=True, forbid_unknown_fields=True, frozen=True, dict=True, kw_only=True
):
    """What a site knows; all of it stays there."""

    name: str
    scores: bytes
    """The keys of all scores, whose order is that of the scores: 64-bit words, the low byte first."""
    signing: SigningKey
    masking: MaskingKey
    score: ScoreField | None = None
    model: str | None = None
    temperature: float | None = None
    summed: str = ""
    """A digest of the sites with which a sum of these scores was opened, in this session or before; see `memory`."""
    ledger: str = ""
    """The file in which that is noted."""
    policy: str = ""
    """The file with what may leave this site, which every step asks."""
    trusted: dict[str, str] | None = None
    """The keys that the others have to join with, by site; None if nobody said."""
    invite: Invite | None = None
    roster: bytes = b""
    """As it came, with the coordinator's signature."""
    index: int = -1
    """The site's place on the roster."""
    agreed: dict[int, PairKeys] = {}
    """The keys agreed on with each neighbour, nearest first."""
    secrets: list[Share] = []
    """One for each round: the seed of the site's own mask follows from it."""
    number: int = 0
    """The next round, or the one that is open."""
    prefix: int = 0
    """The digits of the last question."""
    stage: Literal["waiting", "answered", "signed", "revealed", "over"] = "waiting"
    """What the site did last in the round; after `revealed` it may open shares of lost sites, and then it is over."""
    about: bytes = b""
    """What its last answer is about."""
    present: frozenset[int] = frozenset()
    """The sites that were there at the last message."""
    rows: int = 0
    """How many there are, if their losses are added up: `scores` is then what more is kept at each threshold."""
    origin: About = NOTHING
    """What else the scores were made from, and what for."""

    @property
    def keys(self) -> Keys:
        """The keys of the scores."""
        return np.frombuffer(self.scores, dtype="<u8")

    @property
    def size(self) -> int:
        """The number of rows."""
        return self.rows or len(self.keys)

    @cached_property
    def session(self) -> Session:
        """The session, once there is a roster."""
        if self.invite is None or not self.roster:
            raise InputError(f"site {self.name!r} has no roster yet")
        return session_of(self.invite, self.roster)

    @property
    def is_over(self) -> bool:
        """Whether nothing can be asked of the site any more: it has opened shares of sites that were lost."""
        return self.stage == "over"

    def __repr__(self) -> str:
        """Show no secrets."""
        return f"SiteState(name={self.name!r}, number={self.number})"


class CoordinatorState(
    msgspec.Struct, tag="sums-coordinator-3", array_like=True, forbid_unknown_fields=True, frozen=True, dict=True
):
    """What the coordinator knows."""

    signing: SigningKey
    invite: Invite
    first: Join | None = None
    """How the first site joined, with what any site says of the scores: all were made from the same."""
    roster: bytes = b""
    """As it is sent, with the coordinator's signature."""
    search: Search = Search()
    present: frozenset[int] = frozenset()
    """The sites that are still there."""
    deposits: dict[int, Deposit] = {}
    answers: dict[int, Answer] = {}
    """Of the open round."""
    signed: frozenset[int] = frozenset()
    """Who signed the list of those who answered the open round."""
    reveals: dict[int, Reveal] = {}
    """Of the open round, if a site was lost after its answer and has to be recovered."""
    counted: frozenset[int] = frozenset()
    """The sites that answered the last closed round: the sum is over them, also over those that were lost later."""
    dropped: dict[int, str] = {}
    """The sites that are not there any more, and since when."""
    exchanges: int = 0
    """How often all sites were sent something, and answered."""
    received: int = 0
    """Bytes from all sites so far, if the session goes by files."""
    tag: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]*$")] = ""
    """Another one at each step by files: it names the files that were prepared with this state."""

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
        return session_of(self.invite, self.roster)

    @property
    def origin(self) -> Origin:
        """What all sites' scores were made from."""
        return Origin() if self.first is None else joined_origin(self.first)

    @cached_property
    def lost_after_answer(self) -> frozenset[int]:
        """The sites that answered the open round and revealed nothing."""
        return frozenset(self.answers.keys() - self.reveals.keys())

    def held_by(self, holder: int) -> list[int]:
        """Return the lost sites whose shares this site holds."""
        return sorted(self.lost_after_answer.intersection(self.session.neighbours(holder)))

    @cached_property
    def about(self) -> bytes:
        """What the open round is about."""
        return self.session.about(self.search.number, self.search.prefix, self.session.as_bits(self.present))

    def __repr__(self) -> str:
        """Show no secrets."""
        return f"CoordinatorState(search={self.search})"


S = TypeVar("S", bound=msgspec.Struct)


def encode_state(state: SiteState | CoordinatorState) -> bytes:
    """Encode a state; the bytes hold secrets."""
    return msgspec.msgpack.encode(state)


def check_state(data: bytes) -> None:
    """Refuse what is no state of a session, of this release or of another one."""
    if not re.match(rb"[\x90-\xdd].{0,4}sums-(site|coordinator)", data, re.DOTALL):
        raise InputError("this is not a state of a sums session")


def decode_state(data: bytes, kind: type[S]) -> S:
    """Decode a state."""
    check_state(data)
    found: S = decoded(
        data, kind, "a state of a sums session of this release: finish the session with the one that wrote it"
    )
    return found


def decoded(data: bytes, kind: Any, what: str) -> Any:
    """Decode, or say what this is not."""
    try:
        return msgspec.msgpack.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, OverflowError, RecursionError):
        raise InputError(f"this is not {what}") from None
