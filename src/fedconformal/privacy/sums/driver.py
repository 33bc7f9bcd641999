"""A sums session from its invitation to the threshold, over any channel; and one with all sites in this process.

`coordinator.step` says what to send, a channel sends it and collects the answers, `coordinator.read` reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from fedconformal._base.registry import build
from fedconformal.calibration.predictor import Predictor
from fedconformal.errors import InputError
from fedconformal.guarantees import Guarantee
from fedconformal.privacy.sums import coordinator, site
from fedconformal.privacy.sums.certificate import certified
from fedconformal.privacy.sums.messages import Message
from fedconformal.privacy.sums.radix import IN_STEPS
from fedconformal.privacy.sums.state import CoordinatorState, SiteState
from fedconformal.summaries import LossSummary

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


@dataclass(frozen=True, kw_only=True, eq=False)
class Sums:
    """The predictor of a session in this process, and the cost of the session."""

    predictor: Predictor
    rounds: int
    exchanges: int
    """How often all sites were sent something, and answered: joining, entering, and three times a round."""
    bytes_up: int
    """Sent by an average site, in all rounds."""

    @property
    def threshold(self) -> float:
        """The threshold; +inf if alpha cannot be promised."""
        return float(self.predictor.threshold)


def calibrate_by_sums(
    sites: Iterable[SiteState],
    *,
    alpha: Any = 0.1,
    guarantee: Guarantee | str = "mixture",
    widths: tuple[int, ...] | None = None,
    **how: Any,
) -> Sums:
    """Find the threshold while the coordinator sees only sums; `how` is for `coordinator.invite`.

    It narrows in small steps and stops at a cell of few rows, so the threshold is the plain one rounded up. `widths`
    are for the exact one: how many bits of a score each round settles, 64 in all (`BYTES`; `EXACT` with the fewest
    counts). Such sums show rows one by one.

    >>> scores = {"a": [0.1, 0.2, 0.3, 0.4], "b": [0.5, 0.6, 0.7], "c": [0.2, 0.9]}
    >>> sites = [site.new_site(name, part) for name, part in scores.items()]
    >>> found = calibrate_by_sums(sites, alpha=0.6)  # ceil(0.4 (9 + 3)) = 5, and the fifth score is 0.4
    >>> found.threshold, found.rounds
    (0.5, 1)
    >>> calibrate_by_sums(sites, alpha=0.6, widths=(8,) * 8).threshold
    0.4
    """
    steps = IN_STEPS if widths is None else (widths, None)
    return _run(partial(coordinator.invite, build(guarantee, Guarantee), alpha, *steps, **how), sites)


def calibrate_losses_by_sums(
    sites: Sequence[LossSummary], *, risk: Any, guarantee: Guarantee | str = "mixture", **how: Any
) -> Sums:
    """Find the smallest threshold whose expected loss is at most `risk`, while the coordinator sees a few sums only.

    The curves stay at the sites. The search stops at a part of the grid in which few rows change, so the threshold is
    the plain one or a larger one; with `exact` it is the plain one. `how` is for `coordinator.invite_losses`.

    >>> from fedconformal import LossSummary
    >>> losses = [[1, 0.5, 0], [1, 0, 0], [0.5, 0.5, 0]]
    >>> sites = [LossSummary.of_losses(losses, thresholds=[1, 2, 3], site=site) for site in "abc"]
    >>> calibrate_losses_by_sums(sites, risk=0.5, exact=True).threshold  # (3 + 3) / (9 + 3) at the second threshold
    2.0
    """
    if not sites:
        raise InputError("there are no loss curves to calibrate from")
    about = build(guarantee, Guarantee), risk, sites[0].grid, sites[0].bound
    return _run(partial(coordinator.invite_losses, *about, **how), map(site.site_from, sites))


def _run(start: Start, sites: Iterable[SiteState]) -> Sums:
    channel = InMemory(sites)
    state = run_session(start, channel)
    return Sums(
        predictor=certified(state),
        rounds=state.search.number,
        exchanges=state.exchanges,
        bytes_up=round(channel.up / len(state.session.names)),
    )


class InMemory:
    """A channel to sites in this process: nobody is lost, and the bytes are counted."""

    def __init__(self, sites: Iterable[SiteState]) -> None:
        self._sites = list(sites)
        self._places = {one.name: place for place, one in enumerate(self._sites)}
        self.up = 0

    def invite(self, invitation: bytes, read: Reader) -> list[Message]:
        """Let all sites join; that two of them have one name is for the roster to refuse."""
        return [self._exchange(place, invitation, read) for place in range(len(self._sites))]

    def exchange(self, outgoing: Mapping[str, bytes], read: Reader) -> list[Message]:
        """Let each site take its step."""
        return [self._exchange(self._places[name], message, read) for name, message in outgoing.items()]

    def _exchange(self, place: int, message: bytes, read: Reader) -> Message:
        self._sites[place], sent = site.step(self._sites[place], message)
        self.up += len(sent)
        return read(sent)
