"""A second session of the same scores with other sites is refused: the difference of two sums shows a single site."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

import fedconformal as fc
from fedconformal.privacy import Ledger, Outgoing, Policy, read_ledger, write_ledger
from fedconformal.privacy.ledger import ChargedRows, OpenedSums, enter_session
from fedconformal.privacy.sums import site as at_site
from fedconformal.privacy.sums.coordinator import invite
from fedconformal.privacy.sums.site import enter_sums, recall_sessions, row_digests
from fedconformal.privacy.sums.state import decode_state, encode_state
from tests.contracts.tools import refused
from tests.privacy.attack import watching
from tests.privacy.sums_play import SCORES, Sites, each, fresh, opened, took

A = ChargedRows("a", "0")
REFUSED = "has shown a sum of these rows with other sites"


def session(sites: Sites, silent: Collection[str] = (), **noise: Any) -> Sites:
    """Play a session to its end; some sites do not answer. Return those that are there at the end."""
    state, invitation = invite(fc.Mixture(), 0.1, **noise)
    outgoing = dict.fromkeys(sites, invitation)
    while outgoing:
        if state.deposits:
            sites = {name: site for name, site in sites.items() if name not in silent}
        moved, sent = each(sites, outgoing)
        sites |= moved
        state, outgoing = took(state, sent)
    return sites


def again(sites: Sites, *out: str) -> Sites:
    """Return these sites with the same scores and new keys, after their states were written and read."""
    read = {name: decode_state(encode_state(site)) for name, site in sites.items()}
    return {name: at_site.with_new_keys(site) for name, site in read.items() if name not in out}


def test_the_difference_of_two_sums_shows_a_site() -> None:
    """What the refusal is for: sites that remember nothing give one of them away."""
    with watching() as seen:
        everybody = session(fresh())
        before = len(seen)
        session({name: site for name, site in fresh().items() if name != "c"})
    rounds = everybody["c"].session.rounds
    own = rounds.histogram(rounds.start, everybody["c"].keys)
    assert (seen[0][2] - seen[before][2] == own).all()
    with refused(REFUSED):
        session(again(everybody, "c"))


def test_a_site_that_is_lost_is_missing_in_the_sum_as_well() -> None:
    """The roster is the same, and the sum is not over the same sites."""
    everybody = session(fresh())
    with refused(REFUSED):
        session(again(everybody), silent="c")
    with refused(REFUSED):
        session(again(session(fresh(), silent="c")) | {"c": fresh()["c"]})
    session(again(session(fresh(), silent="c")))  # those who were in the first sum


def test_sizes_count_and_the_same_sites_may_sum_again() -> None:
    everybody = session(fresh())
    with refused(REFUSED):
        session(again(everybody, "c") | {"c": at_site.new_site("c", SCORES["c"][:-1])})
    once_more = session(again(everybody, "c") | {"c": at_site.new_site("c", SCORES["d"])})
    assert {site.summed for site in [*once_more.values(), *everybody.values()]} == {everybody["a"].summed}


def test_noise_spends_epsilon_instead() -> None:
    pytest.importorskip("opendp", reason="noise needs opendp")
    everybody = session(fresh())
    left = session(again(everybody, "c"), epsilon=1000)
    assert {site.summed for site in left.values()} == {everybody["a"].summed}


def test_a_ledger_remembers(tmp_path: Path) -> None:
    path = tmp_path / "ledger.json"
    write_ledger(path, Ledger(budget=1.0).spend([A], 0.25, "threshold"))
    new = recall_sessions(at_site.new_site("a", SCORES["a"]), path)
    assert new.summed == ""
    done = session(fresh() | {"a": new})["a"]
    assert read_ledger(path).sessions == {}  # nobody noted it
    enter_sums(new, done)
    assert read_ledger(path).sessions == dict.fromkeys(row_digests(done), OpenedSums(done.summed, 1))
    assert read_ledger(path).spent(A) == 0.25
    later = Ledger.spend(read_ledger(path), [A], 0.5, "threshold")
    assert later.sessions == read_ledger(path).sessions
    shuffled = recall_sessions(at_site.new_site("another name", SCORES["a"][::-1].copy()), path)
    assert shuffled.summed == done.summed
    assert recall_sessions(at_site.new_site("a", SCORES["a"][1:]), path).summed == ""
    with refused(REFUSED):
        session({name: site for name, site in fresh().items() if name not in "ac"} | {shuffled.name: shuffled})
    for name in row_digests(done):  # sessions at once, with the same sites or others, are not each the first one
        with refused("these rows were summed in another session meanwhile; start this one again"):
            enter_session(path, [name], done.summed, 0)


def test_sessions_are_counted(tmp_path: Path) -> None:
    """Each session of the same rows shows counts of other cells; a site's policy says how many there may be."""
    path, policy = tmp_path / "ledger.json", Policy(most_sessions=2)
    write_ledger(path, Ledger(budget=1.0))
    for count in range(1, 3):
        warmer = recall_sessions(at_site.new_site("a", SCORES["a"] / count), path)  # other scores of the same rows
        assert warmer.sessions == count - 1
        done = session(fresh() | {"a": warmer})["a"]
        policy.check(Outgoing.of_sums(done))
        enter_sums(warmer, done)
        enter_sums(done, done)  # later steps of a session are not counted again
        assert {one.count for one in read_ledger(path).sessions.values()} == {*range(1, count + 1)}
    assert at_site.with_new_keys(done).sessions == 2
    joined, _ = at_site.join(recall_sessions(at_site.new_site("a", SCORES["a"]), path), invite(fc.Mixture(), 0.1)[1])
    with refused("most_sessions = 2, and these rows were in as many sums sessions before"):
        policy.check(Outgoing.of_sums(joined))
    noisy, _ = at_site.join(
        recall_sessions(at_site.new_site("a", SCORES["a"]), path), invite(fc.Mixture(), 0.1, epsilon=1)[1]
    )
    policy.check(Outgoing.of_sums(noisy))  # which spends epsilon instead


def test_a_changed_score_is_the_same_row(tmp_path: Path) -> None:
    """A coordinator that asks for another temperature gets other scores of the same rows."""
    path = tmp_path / "ledger.json"
    write_ledger(path, Ledger(budget=1.0))
    new = recall_sessions(at_site.new_site("a", SCORES["a"]), path)
    enter_sums(new, session(fresh() | {"a": new})["a"])
    warmer = recall_sessions(at_site.new_site("a", SCORES["a"] * (1 + 1e-15)), path)
    assert row_digests(warmer)[0] != row_digests(new)[0]
    with refused(REFUSED):
        session({name: site for name, site in fresh().items() if name != "c"} | {"a": warmer})


def test_until_a_site_signs_nothing_is_noted() -> None:
    """Nothing can be read from what it sent: the session may start again with others, and does not count."""
    _, question, sites = opened()
    sites, _ = each(sites, dict.fromkeys(sites, question))
    assert {(site.summed, at_site.with_new_keys(site).sessions) for site in sites.values()} == {("", 0)}
    session(again(sites, "c"))


def test_who_signed_remembers_even_if_others_open_the_sum() -> None:
    """One honest site reveals, and opens the shares of all others; these are then asked for a sum without that one."""
    state, question, sites = opened()
    sites, answers = each(sites, dict.fromkeys(sites, question))
    state, lists = took(state, answers)
    signed, _ = each(sites, lists)
    assert len({site.summed for site in signed.values()} - {""}) == 1
    with refused(REFUSED):
        session(again(signed, "c"))
    session(again(signed))
