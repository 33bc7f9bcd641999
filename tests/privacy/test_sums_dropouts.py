"""Sites that are lost on the way: the session goes on, the threshold may only rise, and no small sum is shown."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.privacy.sums import masks
from fedconformal.privacy.sums import site as at_site
from fedconformal.privacy.sums.certificate import certified
from fedconformal.privacy.sums.coordinator import invite
from fedconformal.privacy.sums.drive import InMemory, Reader, play
from fedconformal.privacy.sums.messages import Deposit, Message, Question, Shares, Unmask, letter_of, pack, unpack
from fedconformal.privacy.sums.radix import BYTES
from fedconformal.privacy.sums.state import SiteState
from tests.contracts.tools import refused
from tests.privacy.sums_play import SCORES, Round, each, one_of, opened, played, took


@pytest.mark.parametrize("number", range(16))
def test_a_site_that_drops_out_only_raises_the_threshold(number: int) -> None:
    everybody = played(SCORES, lambda _n, _s: True, lambda _n, _s: True)
    without = played(SCORES, lambda n, s: s != "c" or n < number, lambda _n, _s: True)
    assert everybody.search.answer == np.sort(np.concatenate(list(SCORES.values())))[math.ceil(0.9 * 147) - 1]
    assert without.search.answer is not None
    assert everybody.search.answer is not None
    assert without.search.answer >= everybody.search.answer
    assert len(without.present) == 6


@pytest.mark.parametrize("number", range(16))
def test_a_site_that_vanishes_after_its_answer_still_counts_in_that_round(number: int) -> None:
    everybody = played(SCORES, lambda _n, _s: True, lambda _n, _s: True)
    vanished = played(SCORES, lambda n, s: s != "c" or n <= number, lambda n, s: s != "c" or n < number)
    assert vanished.search.answer is not None
    assert everybody.search.answer is not None
    assert vanished.search.answer >= everybody.search.answer
    if number == 15:
        assert vanished.search.answer == everybody.search.answer


@pytest.mark.parametrize("number", range(16))
def test_a_site_that_vanishes_while_a_neighbour_is_out_still_counts(number: int) -> None:
    """One is out before its answer, the other after it, in the same round: their masks are recovered from shares."""
    early = played(SCORES, lambda n, s: s != "c" or n < number, lambda _n, _s: True)
    both = played(SCORES, lambda n, s: s != "c" or n < number, lambda n, s: s != "d" or n < number)
    assert early.search.answer is not None
    assert both.search.answer is not None
    assert both.search.answer >= early.search.answer
    assert both.dropped == {2: f"before its answer in round {number}", 3: f"after its answer in round {number}"}
    if number == 15:
        assert both.search.answer == early.search.answer


def test_sites_out_in_earlier_rounds_do_not_matter_any_more() -> None:
    """Three of seven are lost one by one, in both ways."""
    last = {"a": (-1, -1), "b": (3, 2), "c": (4, 3)}
    scores = SCORES | {name: np.array([0.01]) for name in last}
    found = played(
        scores, lambda n, s: n <= last.get(s, (99, 99))[0], lambda n, s: n <= last.get(s, (99, 99))[1], widths=BYTES
    )
    assert found.search.number == 8
    assert found.search.answer is not None
    assert found.present == {3, 4, 5, 6}
    assert found.dropped == {
        0: "before its answer in round 0",
        1: "after its answer in round 3",
        2: "after its answer in round 4",
    }
    certificate = certified(found).certificate
    assert certificate.privacy is not None
    assert [one["site"] for one in certificate.privacy["dropped"]] == ["a", "b", "c"]
    assert "the promise still includes that site" in certificate.caveat
    assert (certificate.clients, certificate.coverage_at_most) == (7, 1.0)


def test_who_joins_and_does_not_enter_is_out() -> None:
    state, invitation = invite(fc.Mixture(), 0.1)
    fresh = {name: at_site.new_site(name, part) for name, part in SCORES.items()}
    joined, joins = each(fresh, dict.fromkeys(fresh, invitation))
    state, roster = took(state, joins)
    entered, deposits = each(joined, roster)
    with refused("only 3 of 7 sites"):
        took(state, deposits[:3])
    with refused("site 'a' entered twice"):
        took(state, [*deposits, deposits[0]])
    begun, questions = took(state, deposits[:-1])
    assert begun.dropped == {6: "before the first round"}
    assert sorted(questions) == list("abcdef")
    with refused("expected the message Answer, got one of the kind b'D'"):
        took(begun, deposits[-1:])
    with refused("the list of those who are left cannot be right"):
        at_site.answer(entered["g"], one_of(questions))


class Lossy(InMemory):
    """A channel that loses site c at every message of one kind; a second invitation goes to the others."""

    def __init__(self, letter: bytes) -> None:
        super().__init__(at_site.new_site(name, part) for name, part in SCORES.items())
        self.letter, self.invitations = letter, 0

    def invite(self, invitation: bytes, read: Reader) -> list[Message]:
        self.invitations += 1
        if self.invitations > 1:
            super().__init__(at_site.renewed(site) for site in self._sites if site.name != "c")
        return super().invite(invitation, read)

    def exchange(self, outgoing: Mapping[str, bytes], read: Reader) -> list[Message]:
        lost = {"c"} if letter_of(outgoing.get("c", b"")) == self.letter else set()
        return super().exchange({name: outgoing[name] for name in outgoing if name not in lost}, read)


@pytest.mark.parametrize(
    ("letter", "invitations", "dropped"),
    [(b"R", 2, {}), (b"Q", 2, {}), (b"U", 1, {2: "after its answer in round 0"})],
    ids=["before it enters", "before the first answer", "when the first sum is asked for"],
)
def test_a_session_starts_again_only_before_the_first_sum(
    letter: bytes, invitations: int, dropped: dict[int, str]
) -> None:
    channel = Lossy(letter)
    found = play(lambda: invite(fc.Mixture(), 0.1, BYTES), channel)
    assert (channel.invitations, found.dropped) == (invitations, dropped)
    assert len(found.session.names) == len(SCORES) + 1 - invitations
    if invitations == 2:
        left = np.sort(np.concatenate([part for name, part in SCORES.items() if name != "c"]))
        assert found.search.answer == left[math.ceil(0.9 * (len(left) + 6)) - 1]


def test_too_many_missing_shares_end_the_session() -> None:
    with refused("only 2 of 7 sites are left; their sum stays hidden"):
        played(SCORES, lambda _n, _s: True, lambda _n, s: s in "ab")
    with refused("shares of its secrets are there: start another session"):
        played(SCORES, lambda _n, _s: True, lambda _n, s: s != "d", lambda _n, s: s in "abc")


def test_sites_do_not_reveal_the_sum_of_a_few(first: Round) -> None:
    with refused("only 3 of 7 sites answered; their sum stays hidden"):
        played(SCORES, lambda _n, s: s in "abc", lambda _n, _s: True)
    session, key = first.begun.session, first.begun.signing
    few = pack(Unmask(session.id, 0, session.as_bits({0, 1, 2})), key)
    with refused("only 3 of 7 sites answered; their sum stays hidden"):
        at_site.reveal(first.answered["a"], few)
    fewer = pack(Question(session.id, 0, 0, session.as_bits({0, 1, 2})), key)
    with refused("only 3 of 7 sites answered; their sum stays hidden"):
        at_site.answer(first.sites["a"], fewer)


@pytest.mark.long
def test_a_site_is_not_left_without_neighbours() -> None:
    """Most of the sites are there, but hardly any of those whose masks hide this one."""
    state, _, sites = opened({f"s{k:03}": np.array([0.5]) for k in range(250)}, (4,))
    session, site = state.session, sites["s000"]
    near = session.neighbours(0)
    for gone, fine in ((near[:66], True), (near[:67], False)):
        left = session.as_bits(set(range(250)) - set(gone))
        question = pack(Question(session.id, 0, 0, left), state.signing)
        if fine:
            at_site.answer(site, question)
        else:
            with refused("only 33 of 100 neighbours of site 's000' are left to hide behind"):
                at_site.answer(site, question)


def test_the_same_sum_comes_out_of_shares(first: Round) -> None:
    assert first.recovered.search == first.done.search
    assert first.recovered.dropped == {6: "after its answer in round 0"}


def test_of_a_site_that_did_not_answer_no_seed_is_opened() -> None:
    """Its answer may be late: with the seed of its own mask, and its neighbours' masks, it would be open."""
    state, question, sites = opened(SCORES, (8, 8))
    answered, answers = each(sites, dict.fromkeys(sites, question))
    state, requests = took(state, answers[:-1])
    revealed, reveals = each(answered, requests)
    state, asked = took(state, reveals[:-1])
    _, sent = each(revealed, asked)
    opened_shares = [unpack(data, Shares, state.session.signing) for data in sent]
    assert {i: own is None for found in opened_shares for i, own, _ in found.shares} == {5: False, 6: True}


def test_the_key_of_two_sites_takes_both_of_them() -> None:
    """With the lock of one site, its halves are noise: they are the key only together with the other's."""
    _, _, sites = opened(SCORES, (8, 8))
    a, b = sites["a"], sites["b"]
    keys = a.agreed[b.index]
    assert keys == b.agreed[a.index]
    halves = {
        site.index: dict(zip(site.agreed, masks.unlock(site.secrets[1], deposit_of(site).halves), strict=True))
        for site in (a, b)
    }
    one, other = halves[a.index][b.index], halves[b.index][a.index]
    assert masks.joined(one, other) == keys.mask
    assert keys.mask not in (one, other)


def deposit_of(site: SiteState) -> Deposit:
    """Return what a site left with its neighbours."""
    session = site.session
    halves = masks.lock(site.secrets[1], [(keys, site.index < j) for j, keys in site.agreed.items()])
    return Deposit(session.id, site.index, halves, [])
