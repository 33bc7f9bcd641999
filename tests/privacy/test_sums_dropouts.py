"""Sites that are lost on the way: the session goes on, the threshold may only rise, and no small sum is shown."""

from __future__ import annotations

import math

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.privacy.sums import coordinator as middle
from fedconformal.privacy.sums import masks
from fedconformal.privacy.sums import site as ends
from fedconformal.privacy.sums.drive import certified
from fedconformal.privacy.sums.messages import Deposit, Question, Shares, Unmask, pack, unpack
from fedconformal.privacy.sums.radix import BYTES
from fedconformal.privacy.sums.reading import seated
from tests.contracts.tools import refused
from tests.privacy.sums_play import SCORES, Round, opened, played


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
    coordinator, invitation = middle.invite(fc.Mixture(), 0.1)
    sites = [ends.join(ends.new_site(name, part), invitation) for name, part in SCORES.items()]
    coordinator, roster = middle.seat(coordinator, [message for _, message in sites])
    with refused("nobody has entered yet"):
        middle.ask(coordinator)
    entered = [ends.enter(site, roster) for site, _ in sites]
    with refused("only 3 of 7 sites"):
        middle.admit(coordinator, [message for _, message in entered[:3]])
    with refused("site 'a' entered twice"):
        middle.admit(coordinator, [message for _, message in [*entered, entered[0]]])
    begun = middle.admit(coordinator, [message for _, message in entered[:-1]])
    assert begun.dropped == {6: "before the first round"}
    with refused("the session has begun"):
        middle.admit(begun, [entered[-1][1]])
    with refused("the list of those who are left cannot be right"):
        ends.answer(entered[-1][0], middle.ask(begun))


def test_too_many_missing_shares_end_the_session() -> None:
    with refused("only 2 of 7 sites are left; their sum stays hidden"):
        played(SCORES, lambda _n, _s: True, lambda _n, s: s in "ab")
    with refused("shares of its secrets are there: start another session"):
        played(SCORES, lambda _n, _s: True, lambda _n, s: s != "d", lambda _n, s: s in "abc")


def test_sites_do_not_reveal_the_sum_of_a_few(first: Round) -> None:
    with refused("only 3 of 7 sites answered; their sum stays hidden"):
        played(SCORES, lambda _n, s: s in "abc", lambda _n, _s: True)
    session, key = seated(first.coordinator), first.coordinator.signing
    few = pack(Unmask(session.id, 0, session.as_bits({0, 1, 2})), key)
    with refused("only 3 of 7 sites answered; their sum stays hidden"):
        ends.reveal(first.answered["a"], few)
    fewer = pack(Question(session.id, 0, 0, session.as_bits({0, 1, 2})), key)
    with refused("only 3 of 7 sites answered; their sum stays hidden"):
        ends.answer(first.sites["a"], fewer)


@pytest.mark.long
def test_a_site_is_not_left_without_neighbours() -> None:
    """Most of the sites are there, but hardly any of those whose masks hide this one."""
    coordinator, sites = opened({f"s{k:03}": np.array([0.5]) for k in range(250)}, (4,))
    session, site = seated(coordinator), sites["s000"]
    near = session.neighbours(0)
    for gone, fine in ((near[:66], True), (near[:67], False)):
        left = session.as_bits(set(range(250)) - set(gone))
        question = pack(Question(session.id, 0, 0, left), coordinator.signing)
        if fine:
            ends.answer(site, question)
        else:
            with refused("only 33 of 100 neighbours of site 's000' are left to hide behind"):
                ends.answer(site, question)


def test_the_same_sum_comes_out_of_shares(first: Round) -> None:
    assert first.recovered.search == first.done.search
    assert first.recovered.dropped == {6: "after its answer in round 0"}


def test_of_a_site_that_did_not_answer_no_seed_is_opened() -> None:
    """Its answer may be late: with the seed of its own mask, and its neighbours' masks, it would be open."""
    coordinator, sites = opened(SCORES, (8, 8))
    question = middle.ask(coordinator)
    sent = {name: ends.answer(site, question) for name, site in sites.items()}
    coordinator, request = middle.collect(coordinator, [sent[name][1] for name in "abcdef"])
    shown = {name: ends.reveal(sent[name][0], request) for name in "abcdef"}
    coordinator, requests = middle.finish(coordinator, [shown[name][1] for name in "abcde"])
    session = seated(coordinator)
    opened_shares = [
        unpack(ends.open_shares(shown[name][0], asked)[1], Shares, session.signing) for name, asked in requests.items()
    ]
    assert {i: own is None for found in opened_shares for i, own, _ in found.shares} == {5: False, 6: True}


def test_the_key_of_two_sites_takes_both_of_them() -> None:
    """With the lock of one site, its halves are noise: they are the key only together with the other's."""
    _, sites = opened(SCORES, (8, 8))
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


def deposit_of(site: ends.Site) -> Deposit:
    """Return what a site left with its neighbours."""
    session = site.session
    assert session is not None
    halves = masks.lock(site.secrets[1], [(keys, site.index < j) for j, keys in site.agreed.items()])
    return Deposit(session.id, site.index, halves, [])
