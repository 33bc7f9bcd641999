"""A session to look into: played to its end, or stopped in its first round with every message at hand."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import numpy as np

import fedconformal as fc
from fedconformal._base.arrays import Floats, Integers
from fedconformal._base.registry import build
from fedconformal.privacy.sums import masks
from fedconformal.privacy.sums import site as at_site
from fedconformal.privacy.sums.coordinator import invite, read, step
from fedconformal.privacy.sums.driver import InMemory, certify_session, run_session
from fedconformal.privacy.sums.messages import (
    Answer,
    Closed,
    Countersign,
    Message,
    Question,
    Reveal,
    Shares,
    Unmask,
    pack,
    signature_of,
    unpack,
)
from fedconformal.privacy.sums.radix import Search, edges
from fedconformal.privacy.sums.session import Session
from fedconformal.privacy.sums.state import CoordinatorState, SiteState
from fedconformal.summaries import Provenance

SCORES = {name: np.random.default_rng(k).random(20) for k, name in enumerate("abcdefg")}

MORE = {name: np.random.default_rng(k).random(20) for k, name in enumerate("abcdefghijkl")}
"""Twelve sites, of which three can be lost: nine are the quorum."""

Stage = Callable[[int, str], bool]
Sites = dict[str, SiteState]


def fresh(scores: Mapping[str, Any] = SCORES, provenance: Provenance | None = None) -> Sites:
    """Make sites that have joined nothing yet."""
    return {name: at_site.new_site(name, part, provenance) for name, part in scores.items()}


def calibrate_by_sums(
    scores: Mapping[str, Any],
    *,
    alpha: Any = 0.1,
    guarantee: Any = "mixture",
    provenance: Provenance | None = None,
    **how: Any,
) -> fc.Predictor:
    """Run a session of sites with these scores."""

    def start() -> tuple[CoordinatorState, bytes]:
        return invite(build(guarantee, fc.Guarantee), alpha, **how)

    return certify_session(run_session(start, InMemory(fresh(scores, provenance).values())))


def rounded(threshold: float, exponent: int = 0) -> float:
    """Return the upper edge of the cell of a score."""
    cells = edges(exponent)
    return float(cells[np.searchsorted(cells, threshold)]) if np.isfinite(threshold) else threshold


def took(state: CoordinatorState, received: Iterable[bytes]) -> tuple[CoordinatorState, dict[str, bytes]]:
    """Let the coordinator read these messages and take its step."""
    return step(state, [read(state, data) for data in received])


def one_of(outgoing: Mapping[str, bytes]) -> bytes:
    """Return what goes to all sites alike."""
    (message,) = set(outgoing.values())
    return message


def each(sites: Sites, outgoing: Mapping[str, bytes]) -> tuple[Sites, list[bytes]]:
    """Let the sites take the step that is asked of them; return them afterwards, and what they send."""
    done = {name: at_site.step(sites[name], message) for name, message in outgoing.items() if name in sites}
    return {name: site for name, (site, _) in done.items()}, [sent for _, sent in done.values()]


def opened(scores: Mapping[str, Any] = SCORES, late: str = "", **noise: Any) -> tuple[CoordinatorState, bytes, Sites]:
    """Bring a session to the question of its first round; the site `late` joins and does not enter."""
    state, invitation = invite(fc.Mixture(), 0.1, **noise)
    sites, joins = each(fresh(scores), dict.fromkeys(scores, invitation))
    state, roster = took(state, joins)
    sites, deposits = each({name: site for name, site in sites.items() if name != late}, roster)
    state, question = took(state, deposits)
    return state, one_of(question), sites


def carried(
    state: CoordinatorState, outgoing: Mapping[str, bytes], sites: Sites, until: type[Message] | None = None
) -> tuple[CoordinatorState, Sites, Mapping[str, bytes]]:
    """Let these sites, and no others, go on until the coordinator waits for messages of a kind, or to the end."""
    while outgoing and state.expects is not until:
        sites, sent = each(sites, outgoing)
        state, outgoing = took(state, sent)
    return state, sites, outgoing


def always(_number: int, _site: str) -> bool:
    return True


def played(
    scores: Mapping[str, Floats],
    answers: Stage = always,
    reveals: Stage = always,
    helps: Stage = always,
    signs: Stage = always,
) -> CoordinatorState:
    """Play to the end; the functions say which site answers, signs, reveals and opens shares in which round."""
    state, question, sites = opened(scores)
    outgoing = dict.fromkeys(sites, question)
    stages = {Answer: answers, Countersign: signs, Reveal: reveals, Shares: helps}
    while outgoing:
        stage = stages[state.expects]
        moved, sent = each({name: site for name, site in sites.items() if stage(state.search.number, name)}, outgoing)
        sites = sites | moved if stage is helps else moved
        state, outgoing = took(state, sent)
    return state


class Attack:
    """A coordinator that signs whatever it likes, and sites that answer."""

    def __init__(self, state: CoordinatorState, sites: Sites) -> None:
        self.state, self.sites = state, sites

    @property
    def session(self) -> Session:
        """The session as the first site knows it."""
        return next(iter(self.sites.values())).session

    def question(self, present: Collection[int], number: int = 0, prefix: int = 0) -> Question:
        return Question(self.session.id, number, prefix, self.session.as_bits(present))

    def signed(self, message: Message) -> bytes:
        return pack(message, self.state.signing)

    def send(self, message: Message | Mapping[str, Message], to: Iterable[str] | None = None) -> dict[str, bytes]:
        """Send one message to some sites, by default to all, or each its own; return what they send."""
        each_one = message if isinstance(message, Mapping) else dict.fromkeys(self.sites if to is None else to, message)
        moved, sent = each(self.sites, {name: self.signed(one) for name, one in each_one.items()})
        self.sites |= moved
        return dict(zip(moved, sent, strict=True))

    def countersigned(self, about: bytes, to: Iterable[str] | None = None) -> Unmask:
        """Let sites sign a list, and return the request to reveal that holds their signatures."""
        sent = self.send(Closed(self.session.id, about), to)
        signatures = [(self.sites[name].index, signature_of(data)) for name, data in sent.items()]
        return Unmask(self.session.id, about, signatures)

    def total(self, number: int, answers: Mapping[str, bytes]) -> Integers:
        """Add up answers, and take off the own masks of the sites, which is more than a coordinator ever gets."""
        rounds = self.session.rounds
        total = np.zeros(rounds.cells(number), dtype=rounds.dtype)
        for name, data in answers.items():
            message = unpack(data, Answer, self.session.signing)
            seed = masks.round_key(self.sites[name].secrets[number], message.about)
            total += np.frombuffer(message.counts, dtype=rounds.dtype) - masks.masks_of(
                [seed], len(total), rounds.dtype
            )
        return total.astype(np.int64)

    def counts(self, search: Search, names: Iterable[str]) -> Integers:
        """Return what the sites' counts add up to."""
        found: Integers = np.sum([self.session.rounds.histogram(search, self.sites[k].keys) for k in names], axis=0)
        return found.astype(np.int64)


class Round:
    """A first round, with every message at hand; `lost` is lost in it after its answer."""

    lost = "g"

    def __init__(self) -> None:
        self.begun, self.question, self.sites = opened()
        self.answered, self.answers = each(self.sites, dict.fromkeys(self.sites, self.question))
        self.closed, lists = took(self.begun, self.answers)
        self.list = one_of(lists)
        self.signed, self.signatures = each(self.answered, lists)
        self.open, requests = took(self.closed, self.signatures)
        self.request = one_of(requests)
        self.revealed, self.reveals = each(self.signed, requests)
        self.done, questions = took(self.open, self.reveals)
        self.next_question = one_of(questions)
        self.waiting, self.requests = took(self.open, self.reveals[:-1])
        self.helped, self.opened = each(self.revealed, self.requests)
