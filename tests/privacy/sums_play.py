"""A session to look into: played to its end, or stopped in its first round with every message at hand."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import fedconformal as fc
from fedconformal._base.arrays import Floats
from fedconformal.privacy.sums import coordinator as middle
from fedconformal.privacy.sums import site as ends
from fedconformal.privacy.sums.radix import EXACT, SHORT
from fedconformal.privacy.sums.reading import Coordinator

SCORES = {name: np.random.default_rng(k).random(20) for k, name in enumerate("abcdefg")}

Stage = Callable[[int, str], bool]


def opened(
    scores: dict[str, Floats], widths: tuple[int, ...] = EXACT, alpha: float = 0.1
) -> tuple[Coordinator, dict[str, ends.Site]]:
    """Bring a session to its first round."""
    coordinator, invitation = middle.invite(fc.Mixture(), alpha, widths)
    joined = {name: ends.join(ends.new_site(name, part), invitation) for name, part in scores.items()}
    coordinator, roster = middle.seat(coordinator, [message for _, message in joined.values()])
    entered = {name: ends.enter(site, roster) for name, (site, _) in joined.items()}
    coordinator = middle.admit(coordinator, [message for _, message in entered.values()])
    return coordinator, {name: site for name, (site, _) in entered.items()}


def played(
    scores: dict[str, Floats],
    answers: Stage,
    reveals: Stage,
    helps: Stage = lambda _n, _s: True,
    widths: tuple[int, ...] = EXACT,
) -> Coordinator:
    """Play to the end; who answers, reveals and opens shares in which round is up to the functions."""
    coordinator, sites = opened(scores, widths)
    while coordinator.search.answer is None:
        number, question = coordinator.search.number, middle.ask(coordinator)
        present = [name for name in sites if answers(number, name)]
        sent = {name: ends.answer(sites[name], question) for name in present}
        coordinator, request = middle.collect(coordinator, [message for _, message in sent.values()])
        shown = {name: ends.reveal(site, request) for name, (site, _) in sent.items() if reveals(number, name)}
        coordinator, requests = middle.finish(coordinator, [message for _, message in shown.values()])
        sites = {name: site for name, (site, _) in shown.items()}
        if requests:
            helped = {n: ends.open_shares(sites[n], asked) for n, asked in requests.items() if helps(number, n)}
            coordinator = middle.recover(coordinator, [message for _, message in helped.values()])
            sites |= {name: site for name, (site, _) in helped.items()}
    return coordinator


class Round:
    """A first round, with every message at hand; `lost` has vanished in it after its answer."""

    lost = "g"

    def __init__(self) -> None:
        self.coordinator, self.sites = opened(SCORES, SHORT)
        self.question = middle.ask(self.coordinator)
        sent = {name: ends.answer(site, self.question) for name, site in self.sites.items()}
        self.answered = {name: site for name, (site, _) in sent.items()}
        self.answers = [message for _, message in sent.values()]
        self.open, self.request = middle.collect(self.coordinator, self.answers)
        shown = {name: ends.reveal(site, self.request) for name, site in self.answered.items()}
        self.revealed = {name: site for name, (site, _) in shown.items()}
        self.reveals = [message for _, message in shown.values()]
        self.done, _ = middle.finish(self.open, self.reveals)
        self.waiting, self.requests = middle.finish(self.open, self.reveals[:-1])
        helped = {name: ends.open_shares(self.revealed[name], asked) for name, asked in self.requests.items()}
        self.helped = {name: site for name, (site, _) in helped.items()}
        self.opened = [message for _, message in helped.values()]
        self.recovered = middle.recover(self.waiting, self.opened)
