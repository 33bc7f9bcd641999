"""A sums session from its invitation to the threshold, over any channel; and one with all sites in this process.

`coordinator.step` says what to send, a channel sends it and collects the answers, `coordinator.read` reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Protocol

from fedconformal.privacy.sums import coordinator, site
from fedconformal.privacy.sums.messages import Message
from fedconformal.privacy.sums.state import CoordinatorState, SiteState

Reader = Callable[[bytes], Message]
"""Reads one message of a site, or raises InputError with the reason why it is refused."""
Start = Callable[[], tuple[CoordinatorState, bytes]]
"""Opens a session, and returns its invitation."""


class Channel(Protocol):
    """Carries messages between the coordinator and the sites; it drops a site whose message cannot be read."""

    def invite(self, invitation: bytes, read: Reader) -> Sequence[Message]:
        """Invite all sites and collect who joins; a second invitation goes to those who answered last."""

    def exchange(self, outgoing: Mapping[str, bytes], read: Reader) -> Sequence[Message]:
        """Send each of these sites its message, and collect what they answer."""


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
    """A channel to sites in this process: nobody is lost."""

    def __init__(self, sites: Iterable[SiteState]) -> None:
        self._sites = list(sites)
        self._places = {one.name: place for place, one in enumerate(self._sites)}

    def invite(self, invitation: bytes, read: Reader) -> list[Message]:
        """Let all sites join; that two of them have one name is for the roster to refuse."""
        return [self._exchange(place, invitation, read) for place in range(len(self._sites))]

    def exchange(self, outgoing: Mapping[str, bytes], read: Reader) -> list[Message]:
        """Let each site take its step."""
        return [self._exchange(self._places[name], message, read) for name, message in outgoing.items()]

    def _exchange(self, place: int, message: bytes, read: Reader) -> Message:
        self._sites[place], sent = site.step(self._sites[place], message)
        return read(sent)
