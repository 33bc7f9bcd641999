"""Sites that are lost on the way: the threshold may only rise, no small sum is shown, and no two that differ."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.certificates.text import explain_uninformative
from fedconformal.privacy.sums import site as at_site
from fedconformal.privacy.sums.coordinator import invite
from fedconformal.privacy.sums.driver import InMemory, Reader, certify_session, run_session
from fedconformal.privacy.sums.masks import combine
from fedconformal.privacy.sums.messages import Message, Question, Shares, letter_of, pack, unpack
from fedconformal.privacy.sums.radix import edges
from fedconformal.summaries import Provenance
from tests.contracts.tools import refused
from tests.privacy.attack import watching
from tests.privacy.sums_play import (
    MORE,
    SCORES,
    Round,
    Stage,
    always,
    calibrate_by_sums,
    each,
    fresh,
    one_of,
    opened,
    played,
    rounded,
    took,
)

pytestmark = pytest.mark.long
in_four_rounds = pytest.mark.usefixtures("to_the_last_cell")
PLAIN = rounded(np.sort(np.concatenate(list(SCORES.values())))[126])
"""Of rank 0.9 * 140 + 1."""


@in_four_rounds
@pytest.mark.parametrize("number", range(4))
def test_a_site_that_drops_out_only_raises_the_threshold(number: int) -> None:
    without = played(SCORES, lambda n, s: s != "c" or n < number)
    assert (without.search.answer or 0) >= PLAIN
    assert len(without.present) == 6
    assert without.search.number == max(number, 1)  # no sum without it after one with it


@in_four_rounds
@pytest.mark.parametrize(("number", "signs"), [(0, True), (0, False), (1, False), (3, True)])
def test_a_site_that_vanishes_after_its_answer_still_counts_in_that_round(number: int, signs: bool) -> None:
    def there(n: int, s: str) -> bool:
        return s != "c" or n < number

    vanished = played(SCORES, reveals=there, signs=always if signs else there)
    assert (vanished.search.answer or 0) >= PLAIN
    assert vanished.dropped == {2: f"after its answer in round {number + 1}"}
    assert vanished.search.number == number + 1
    if number == 3:  # it is in all sums
        assert vanished.search == played(SCORES).search
        assert vanished.search.answer == PLAIN


STAGES: dict[str, Callable[[Stage], dict[str, Stage]]] = {
    "answers": lambda there: {"answers": there},
    "signs": lambda there: {"signs": there},
    "reveals": lambda there: {"reveals": there},
    "opens shares": lambda there: {"reveals": lambda n, s: s != "a" or n < 1, "helps": there},
}


@pytest.mark.parametrize(("stage", "gone"), [*zip(STAGES, ["abcdef", "abcdefg"] * 2, strict=True)])
def test_after_the_first_sum_no_loss_is_too_large(stage: str, gone: str) -> None:
    """However many are lost, and wherever: the threshold is the edge of the cell that the sums of all have reached."""
    with watching() as seen:
        found = played(SCORES, **STAGES[stage](lambda n, s: s not in gone or n < 1)).search
    assert len(seen) == 1
    assert (found.number, found.stopped) == (1, "a site was lost after the first sum")
    assert found.answer == edges()[511::512][np.searchsorted(edges()[511::512], PLAIN)]


def test_a_site_that_joins_and_does_not_enter_is_out() -> None:
    state, invitation = invite(fc.Mixture(), 0.1)
    joined, joins = each(fresh(), dict.fromkeys(SCORES, invitation))
    state, roster = took(state, joins)
    entered, deposits = each(joined, roster)
    with refused("site 'a' sent Deposit twice"):
        took(state, [*deposits, deposits[0]])
    begun, questions = took(state, deposits[:-1])
    assert begun.dropped == {6: "before the first round"}
    assert sorted(questions) == list("abcdef")
    with refused("the list of remaining sites"):
        at_site.answer(entered["g"], one_of(questions))


class Lossy(InMemory):
    """A channel that loses site c at every message of one kind; a second invitation goes to the others."""

    def __init__(self, letter: bytes) -> None:
        super().__init__(fresh().values())
        self.letter, self.invitations = letter, 0

    def invite(self, invitation: bytes, read: Reader) -> list[Message]:
        self.invitations += 1
        if self.invitations > 1:
            super().__init__(at_site.with_new_keys(site) for site in self._sites if site.name != "c")
        return super().invite(invitation, read)

    def exchange(self, outgoing: Mapping[str, bytes], read: Reader) -> list[Message]:
        lost = {"c"} if letter_of(outgoing.get("c", b"")) == self.letter else set()
        return super().exchange({name: outgoing[name] for name in outgoing if name not in lost}, read)


@in_four_rounds
@pytest.mark.parametrize(
    ("letter", "invitations", "dropped"),
    [(b"R", 2, {}), (b"Q", 2, {}), (b"C", 1, {2: "after its answer in round 1"})],
    ids=["before it enters", "before the first answer", "when the first sum is asked for"],
)
def test_a_session_starts_again_only_before_the_first_sum(
    letter: bytes, invitations: int, dropped: dict[int, str]
) -> None:
    channel = Lossy(letter)
    found = run_session(lambda: invite(fc.Mixture(), 0.1), channel)
    assert (channel.invitations, found.dropped) == (invitations, dropped)
    assert len(found.session.names) == len(SCORES) + 1 - invitations
    if invitations == 2:
        left = np.sort(np.concatenate([part for name, part in SCORES.items() if name != "c"]))
        assert found.search.answer == rounded(left[108])  # rank 0.9 * 120 + 1


NO_SHARES = "site 'd' is lost, and only 3 of 4 shares of its secret are there: the sum stays hidden"


@pytest.mark.parametrize(
    ("sites", "there", "why"),
    [
        (SCORES, {"answers": "abcde"}, "only 5 of 7 sites are left; a sum of fewer than 6 stays hidden"),
        ("abcd", {"answers": "bcd"}, "only 3 of 4 sites are left; a sum of fewer than 4 stays hidden"),
        (SCORES, {"signs": "cdefg"}, "only 5 of 7 sites signed the list of sites that answered; with fewer than 6"),
        (SCORES, {"reveals": "abc"}, NO_SHARES),
        (SCORES, {"reveals": "abcefg", "helps": "abc"}, NO_SHARES),
    ],
)
def test_too_few_for_the_first_sum_end_the_session(sites: Iterable[str], there: dict[str, str], why: str) -> None:
    def among(names: str) -> Stage:
        return lambda _n, s: s in names

    with refused(why):
        played({name: MORE[name] for name in sites}, **{stage: among(names) for stage, names in there.items()})


def test_sites_do_not_reveal_the_sum_of_a_few(first: Round) -> None:
    session, key = first.begun.session, first.begun.signing
    fewer = pack(Question(session.id, 0, 0, session.as_bits(range(5))), key)
    with refused("only 5 of 7 sites are left; a sum of fewer than 6 stays hidden"):
        at_site.answer(first.sites["a"], fewer)


@pytest.mark.parametrize(("count", "gone", "noise"), [(250, 24, {}), (150, 10, {"epsilon": 100})])
def test_a_site_is_not_left_without_neighbours(count: int, gone: int, noise: dict[str, Any]) -> None:
    """Most of the sites are there, but hardly any of those whose masks hide this one.

    With noise the circle stays in one piece: sites between two gaps would be a sum of their own, with too little noise.
    """
    pytest.importorskip("opendp", reason="noise needs opendp")
    state, _, sites = opened({f"s{k:03}": np.linspace(0, 1, 40) for k in range(count)}, **noise)
    session, site = state.session, sites["s000"]

    def asked(missing: int) -> bytes:
        left = set(range(count)) - set(session.neighbours(0)[:missing])
        return pack(Question(session.id, 0, 0, session.as_bits(left)), state.signing)

    at_site.answer(site, asked(gone - 1))
    with refused(f"only {100 - gone} of 100 neighbours of site 's000' are left to hide it, expected {101 - gone}"):
        at_site.answer(site, asked(gone))


def test_of_a_lost_site_only_this_round_is_opened(first: Round) -> None:
    """Its secrets of later rounds, in which it may be asked by itself, stay hidden; and so do those of others."""
    opened_shares = [unpack(data, Shares, first.begun.session.signing) for data in first.opened]
    places = {j: place for place, j in enumerate(first.begun.session.neighbours(6))}
    found = {places[message.site]: share for message in opened_shares for _, share in message.shares}
    assert {i for message in opened_shares for i, _ in message.shares} == {6}
    some = dict(list(found.items())[: first.begun.session.needed])
    assert combine(some) == first.sites["g"].secrets[0] != first.sites["g"].secrets[1]


@pytest.mark.parametrize(("count", "full"), [(8, True), (16, False)])
def test_a_site_lost_before_the_first_sum(count: int, full: bool) -> None:
    """Of 8 sites its share is above alpha: every set will hold every label, and the certificate says why."""
    scores = {f"s{k:02}": np.random.default_rng(k).random(60 if k else 30) for k in range(count)}
    state, share = played(scores, lambda _n, s: s != "s01"), 60 / (60 * count - 30)
    expected = pytest.warns(fc.InfeasibleWarning, match=rf"s01 \({share:.3g} of the rows\) dropped out")
    with expected if full else nullcontext():
        certificate = certify_session(state).certificate
    assert (certificate.threshold == math.inf) == full
    assert certificate.privacy is not None
    assert [one["share"] for one in certificate.privacy["dropped"]] == [share]


def test_a_site_lost_after_the_first_sum() -> None:
    """Its rows are counted in the first round, so the threshold is finite: the edge of the cell that was reached."""
    certificate = certify_session(played(SCORES, lambda n, s: s != "c" or n < 1)).certificate
    assert certificate.limit == edges()[511::512][np.searchsorted(edges()[511::512], PLAIN)]  # of eight cells
    assert certificate.privacy is not None
    assert certificate.privacy["precision"]["stopped"] == "a site was lost after the first sum"
    assert (certificate.privacy["rounds"], certificate.coverage_at_most) == (1, 1.0)
    assert "after it the search stops at the cell that it has reached" in certificate.statement.caveat


def test_a_full_set_by_rounding_is_explained() -> None:
    """The cell of the threshold ends at 1, the largest score of LAC: every label is in every set."""
    sites = {name: np.r_[np.linspace(0.1, 0.4, 36), np.linspace(0.97, 0.98, 4)] for name in "abc"}
    certificate = calibrate_by_sums(sites, provenance=Provenance(score=fc.LAC())).certificate
    assert certificate.limit == 1.0
    assert "noise or a public cell moved the threshold" in str(explain_uninformative(certificate, classes=3))
