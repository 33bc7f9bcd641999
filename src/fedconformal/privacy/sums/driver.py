"""Driver of a sums session, from invitation to certificate, over any channel or with all sites in this process.

`coordinator.step` returns the messages to send, a channel sends them and collects the answers, and `coordinator.read`
decodes them.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from functools import partial
from typing import Any, Protocol

from fedconformal.calibration.predictor import Predictor
from fedconformal.certificates import text
from fedconformal.certificates.certificate import Promise, SummaryRecord
from fedconformal.errors import InputError
from fedconformal.privacy.distributed_dp import NoisyRound
from fedconformal.privacy.release import Inputs, certify, one_step
from fedconformal.privacy.sums import coordinator, site
from fedconformal.privacy.sums.messages import Message
from fedconformal.privacy.sums.radix import LEAST
from fedconformal.privacy.sums.state import CoordinatorState, SiteState

Reader = Callable[[bytes], Message]
"""Decodes a site's message, or raises InputError with the reason for its refusal."""
Start = Callable[[], tuple[CoordinatorState, bytes]]
"""Opens a session and returns its invitation."""


class Channel(Protocol):
    """Carries messages between the coordinator and the sites; it drops a site whose message cannot be read."""

    def invite(self, invitation: bytes, read: Reader) -> Sequence[Message]:
        """Invite all sites and collect their answers; a second invitation goes to the sites that answered last."""

    def exchange(self, outgoing: Mapping[str, bytes], read: Reader) -> Sequence[Message]:
        """Send each of these sites its message, and collect the answers."""


def run_session(start: Start, channel: Channel) -> CoordinatorState:
    """Run a session until the threshold is found."""
    state, invitation = start()
    messages = channel.invite(invitation, partial(coordinator.read, state))
    while True:
        state, outgoing = coordinator.step(state, messages)
        if not outgoing:
            return state
        messages = channel.exchange(outgoing, partial(coordinator.read, state))
        if len(messages) < len(outgoing) and state.may_restart:
            state, invitation = start()
            messages = channel.invite(invitation, partial(coordinator.read, state))


class InMemory:
    """A channel to sites in this process; no site is lost."""

    def __init__(self, sites: Iterable[SiteState]) -> None:
        self._sites = list(sites)
        self._places = {site_state.name: place for place, site_state in enumerate(self._sites)}

    def invite(self, invitation: bytes, read: Reader) -> list[Message]:
        """Let all sites join; the roster refuses duplicate names."""
        return [self._exchange(place, invitation, read) for place in range(len(self._sites))]

    def exchange(self, outgoing: Mapping[str, bytes], read: Reader) -> list[Message]:
        """Run each site's step."""
        return [self._exchange(self._places[name], message, read) for name, message in outgoing.items()]

    def _exchange(self, place: int, message: bytes, read: Reader) -> Message:
        self._sites[place], sent = site.step(self._sites[place], message)
        return read(sent)


HIDDEN = (
    " It was found from sums over all sites: no site's own counts were seen. The threshold is the upper edge of a "
    "public cell, never below the plain one; the sums show how many rows of all sites together are in each of a few "
    "cells."
)
FOLLOWED = (
    " It is assumed that every site follows the protocol: nothing bounds the counts that a site sends by its number of "
    "rows, so one site can move the threshold to anywhere."
)
DROPPED = (
    " A site dropped out. Before the first sum its scores count for nothing; after it the search stops at the cell "
    "that it has reached. So the threshold can be too high, not too low, and the promise still includes that site."
)


def certify_session(state: CoordinatorState) -> Predictor:
    """Return the predictor of a completed session."""
    session, threshold = state.session, state.search.answer
    if threshold is None:
        raise InputError("the session is not finished; there are more rounds")
    rounds, provenance, guarantee = session.rounds, session.provenance, session.guarantee
    records = [
        SummaryRecord(sites=(name,), sizes=(n,), kind="sums", sha256=hashlib.sha256(key).hexdigest())
        for name, n, key in zip(session.names, session.sizes, session.signing, strict=True)
    ]
    inputs = Inputs(alpha=session.alpha, guarantee=guarantee, records=records, provenance=provenance)
    caveat = FOLLOWED + (DROPPED if state.dropped else "")
    privacy: dict[str, Any] = {
        "mode": "sums",
        "rounds": state.search.number,
        "session": session.fingerprint,
        "dropped": [
            {"site": session.names[k], "when": when, "share": session.sizes[k] / sum(session.sizes)}
            for k, when in sorted(state.dropped.items())
        ],
    }
    if isinstance(rounds, NoisyRound):
        return rounds.certify(threshold, state.counted, inputs, caveat, **privacy)
    privacy["precision"] = {"least": LEAST, "reach": 2.0**state.invite.exponent, "stopped": state.search.stopped}
    privacy["claim"] = "the coordinator saw the name and number of scores of every site, and of the scores only sums"
    band = guarantee.band(session.alpha, session.sizes)
    coverage = band.least if threshold < math.inf else Fraction(1)
    promise = Promise.of(
        threshold,
        sum(session.sizes),
        least=0.0 if provenance.estimated else float(coverage),
        rank=(band.rank, band.out_of),
    )
    return certify(
        one_step(threshold, coverage),
        inputs,
        caveat=text.caveat(guarantee, text.answers_to(provenance.score)) + HIDDEN + caveat,
        target=band.least,
        promises=[promise],
        privacy=privacy,
    )
