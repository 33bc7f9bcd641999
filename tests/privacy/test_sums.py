"""A sums session: the plain threshold, nothing but noise on the way, and what is refused."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import fedconformal as fc
from fedconformal.privacy import calibrate_by_sums, masks
from fedconformal.privacy import sums_coordinator as middle
from fedconformal.privacy import sums_site as ends
from fedconformal.privacy.messages import (
    Answer,
    Deposit,
    Invite,
    Join,
    Lost,
    Question,
    Reveal,
    Roster,
    Shares,
    Unmask,
    pack,
    unpack,
)
from fedconformal.privacy.radix import BYTES, EXACT, SHORT
from fedconformal.privacy.sums import certified
from fedconformal.privacy.sums_reading import Coordinator, seated
from fedconformal.validation import Floats
from tests.contracts.tools import alphas, checks, maybe_infeasible, refusal, refused, vectors

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


@given(st.lists(vectors(6), min_size=3, max_size=4), alphas)
@checks(200)
def test_sums_and_summaries_agree(scores: list[Floats], alpha: Fraction) -> None:
    sites = {f"site-{k}": part for k, part in enumerate(scores)}
    with maybe_infeasible():
        expected = fc.calibrate([fc.summarize(s, "exact", site=k) for k, s in sites.items()], alpha=alpha)
    found = calibrate_by_sums(sites, alpha=alpha)
    assert found.threshold == expected.threshold
    for field in ("coverage_at_least", "coverage_at_most", "rank", "rank_out_of", "target", "status", "promise"):
        assert getattr(found.calibration.certificate, field) == getattr(expected.certificate, field)


@pytest.mark.parametrize(
    "guarantee", [fc.Exchangeable(), fc.Mixture(weights="uniform"), fc.PAC(failure=0.1), fc.NewClient()], ids=repr
)
def test_other_guarantees(guarantee: fc.Guarantee) -> None:
    summaries = [fc.summarize(part, "exact", site=name) for name, part in SCORES.items()]
    expected = fc.calibrate(summaries, alpha=0.3, guarantee=guarantee)
    assert calibrate_by_sums(SCORES, alpha=0.3, guarantee=guarantee).threshold == expected.threshold
    short = calibrate_by_sums(SCORES, alpha=0.3, guarantee=guarantee, widths=SHORT)
    assert 0 <= short.threshold - float(expected.threshold) < 1e-6
    assert short.calibration.certificate.coverage_at_most == 1.0


def test_guarantees_that_need_more_are_refused() -> None:
    with refused("every-client needs every site's own counts"):
        calibrate_by_sums(SCORES, guarantee=fc.EveryClient())
    with refused("sums of fewer than 3 hide too little"):
        calibrate_by_sums({"a": [0.1], "b": [0.2]})


def test_the_bytes_are_few() -> None:
    histograms = sum(2**width * 4 for width in EXACT)
    assert histograms == 1024
    found = calibrate_by_sums(SCORES, widths=EXACT)
    assert found.rounds == 16
    assert found.bytes_up < 12 * histograms  # signatures, shares and reveals on top
    assert calibrate_by_sums(SCORES).threshold == found.threshold


def test_a_predictor_comes_out() -> None:
    found = calibrate_by_sums(SCORES, origin=fc.summarize([0.1], score=fc.LAC()).origin)
    predictor = fc.Predictor.from_bytes(fc.Predictor.of(found.calibration).to_bytes())
    assert predictor.certificate.limit == found.threshold
    assert "no site's own counts were seen" in predictor.certificate.caveat
    assert predictor.predict_set([[0.7, 0.2, 0.1]]).shape == (1, 3)
    infinite = calibrate_by_sums({name: [0.5] for name in "abc"}, alpha=0.01)
    assert infinite.calibration.certificate.threshold == "inf"
    assert infinite.calibration.curve.threshold(Fraction(1, 100)) == math.inf


def test_masked_counts_are_uniform_bytes() -> None:
    """Three sites that hold the same few scores, many sessions: every byte value is equally common."""
    seen = []
    for _ in range(40):
        coordinator, sites = opened({name: np.full(5, 0.5) for name in "abc"}, (8, 8))
        question = middle.ask(coordinator)
        for site in sites.values():
            message = unpack(ends.answer(site, question)[1], Answer, coordinator.session.signing)  # type: ignore[union-attr]
            seen.append(np.frombuffer(message.counts, dtype=np.uint8))
    observed = np.bincount(np.concatenate(seen), minlength=256)
    assert stats.chisquare(observed).pvalue > 1e-6
    columns = np.stack(seen)  # and the counts are nowhere: not even where all of the scores are
    hot = columns.reshape(len(seen), -1, 4)[:, :, 0]
    assert stats.chisquare(np.bincount(hot.ravel() >> 4, minlength=16)).pvalue > 1e-6
    # The same test sees counts that are not masked.
    assert stats.chisquare(observed + np.bincount(np.zeros(2000, dtype=np.int64), minlength=256)).pvalue < 1e-6


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


@pytest.fixture(scope="module")
def first() -> Round:
    return Round()


def test_the_same_sum_comes_out_of_shares(first: Round) -> None:
    assert first.recovered.search == first.done.search
    assert first.recovered.dropped == {6: "after its answer in round 0"}


def test_duplicates_and_replays_are_refused(first: Round) -> None:
    other = Round()
    with refused("site 'a' answered round 0 twice"):
        middle.collect(first.coordinator, [*first.answers, first.answers[0]])
    with refused("site 'a' revealed round 0 twice"):
        middle.finish(first.open, [*first.reveals, first.reveals[0]])
    with refused("site 'a' opened shares twice"):
        middle.recover(first.waiting, [*first.opened, first.opened[0]])
    with refused("round 0 is closed"):
        middle.collect(first.open, first.answers)
    with refused("another session or round, expected round 1"):
        middle.collect(first.done, first.answers)
    with refused("signature is wrong"):
        middle.collect(first.coordinator, other.answers)
    with refused("signature is wrong"):
        middle.recover(first.waiting, other.opened)
    with refused("round 0 has been answered"):
        ends.answer(first.answered["a"], first.question)
    with refused("round 0, expected round 1"):
        ends.answer(first.revealed["a"], first.question)
    with refused("round 0, expected round 1"):
        ends.reveal(first.revealed["a"], first.request)
    with refused("signature is wrong"):
        ends.answer(first.sites["a"], other.question)
    with refused("are not to be opened now"):
        ends.open_shares(first.helped["a"], first.requests["a"])
    later, _ = ends.answer(first.revealed["a"], middle.ask(first.done))
    with refused("are not to be opened now"):
        ends.open_shares(later, first.requests["a"])


def test_messages_out_of_order_are_refused(first: Round) -> None:
    with refused("round 1, expected round 0"):
        ends.answer(first.sites["a"], middle.ask(first.done))
    with refused("has not been answered yet"):
        ends.reveal(first.sites["a"], first.request)
    with refused("are not to be opened now"):
        ends.open_shares(first.answered["a"], first.requests["a"])
    with refused("nobody has answered round 1"):
        middle.finish(first.done, first.reveals)
    with refused("round 0 waits for shares"):
        middle.finish(first.waiting, first.reveals)
    with refused("nobody has vanished in round 0"):
        middle.recover(first.open, first.opened)
    with refused("expected the message Answer, got one of the kind b'V'"):
        middle.collect(first.coordinator, first.reveals)
    with refused("cannot be right"):
        ends.open_shares(first.revealed["a"], first.requests["b"])


def test_altered_messages_are_refused(first: Round) -> None:
    rng = np.random.default_rng(0)
    for data, use in (
        (first.answers[0], lambda bad: middle.collect(first.coordinator, [bad])),
        (first.reveals[0], lambda bad: middle.finish(first.open, [bad])),
        (first.opened[0], lambda bad: middle.recover(first.waiting, [bad])),
        (first.question, lambda bad: ends.answer(first.sites["a"], bad)),
        (first.request, lambda bad: ends.reveal(first.answered["a"], bad)),
        (first.requests["a"], lambda bad: ends.open_shares(first.revealed["a"], bad)),
    ):
        for position in [*range(80), *rng.integers(80, len(data), 40).tolist()]:
            bad = bytearray(data)
            bad[min(position, len(data) - 1)] ^= 1 << int(rng.integers(8))
            refusal(lambda bad=bytes(bad), use=use: use(bad))  # type: ignore[misc]
        for cut in (0, 3, 4, 68, 69, len(data) - 1):
            refusal(lambda cut=cut, use=use, data=data: use(data[:cut]))  # type: ignore[misc]
        refusal(lambda use=use, data=data: use(data + b"\0"))  # type: ignore[misc]


def test_signed_nonsense_of_a_site_is_refused(first: Round) -> None:
    session, a = seated(first.coordinator), first.sites["a"]
    good = unpack(first.answers[0], Answer, session.signing)
    changed = msgspec.structs.replace
    for bad, words in (
        (changed(good, counts=good.counts[:-4]), "bytes of counts"),
        (changed(good, prefix=1), "another session or round"),
        (changed(good, number=1), "another session or round"),
        (changed(good, session=bytes(16)), "another session or round"),
        (changed(good, site=1), "signature is wrong"),
        (changed(good, site=99), "no site number 99"),
    ):
        with refused(words):
            middle.collect(first.coordinator, [pack(bad, a.signing)])
    told = unpack(first.reveals[0], Reveal, session.signing)
    with refused("did not reveal the masks that it should"):
        middle.finish(first.open, [pack(changed(told, masks=[(1, bytes(2**18))]), a.signing)])
    lying = pack(changed(told, seed=bytes(16)), a.signing)
    with refused("the sum of round 0 is impossible"):
        middle.finish(first.open, [lying, *first.reveals[1:]])
    shares = unpack(first.opened[0], Shares, session.signing)
    ((lost, own, locking),) = shares.shares
    for entries in ([], [(lost, None, locking)], [(1, own, locking)]):
        with refused("did not open the shares that it should"):
            middle.recover(first.waiting, [pack(changed(shares, shares=entries), a.signing)])
    wrong = {
        name: unpack(data, Shares, session.signing) for name, data in zip(first.requests, first.opened, strict=True)
    }
    lies = [
        pack(changed(found, shares=[(lost, bytes(16), locking)]), first.sites[name].signing)
        for name, found in wrong.items()
    ]
    with refused("the sum of round 0 is impossible"):
        middle.recover(first.waiting, lies)


def test_signed_nonsense_of_a_coordinator_is_refused(first: Round) -> None:
    session, key = seated(first.coordinator), first.coordinator.signing
    changed = msgspec.structs.replace
    told = unpack(first.request, Unmask, session.coordinator)
    for answered in (b"", bytes(9), b"\xff"):
        with refused("does not fit the roster"):
            ends.reveal(first.answered["a"], pack(changed(told, answered=answered), key))
    without = session.as_bits({1, 2, 3, 4, 5})
    with refused("cannot be right: site 'a' is"):
        ends.reveal(first.answered["a"], pack(changed(told, answered=without), key))
    again = pack(Question(session.id, 1, 0, session.as_bits(range(7))), key)
    with refused("who was out is not"):
        ends.answer(first.helped["a"], again)
    request = unpack(first.requests["a"], Lost, session.coordinator)
    ((sender, sealed),) = request.shares
    for shares in ([(sender, bytes(48))], [(99, sealed)], [(1, sealed)]):
        with refused("was altered, or the site is not lost"):
            ends.open_shares(first.revealed["a"], pack(changed(request, shares=shares), key))
    for vanished, words in (({0}, "cannot be right"), ({3, 4, 5, 6}, "only 3 of 7 sites are left; nothing is opened")):
        with refused(words):
            ends.open_shares(first.revealed["a"], pack(changed(request, vanished=session.as_bits(vanished)), key))


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


def test_a_roster_that_is_not_right_is_refused(first: Round) -> None:
    coordinator, invitation = middle.invite(fc.Mixture(), 0.1)
    sites = [ends.join(ends.new_site(name, [0.1, 0.2]), invitation) for name in "abc"]
    joins = [message for _, message in sites]
    with refused("on the roster twice"):
        middle.seat(coordinator, [*joins, joins[0]])
    with refused("nobody joined"):
        middle.seat(coordinator, [])
    with refused("joined another session"):
        middle.seat(middle.invite(fc.Mixture(), 0.1)[0], joins)
    seated, roster = middle.seat(coordinator, joins)
    with refused("the roster is frozen"):
        middle.seat(seated, joins)
    stranger, _ = ends.join(ends.new_site("d", [0.1]), invitation)
    with refused("site 'd' is not on the roster as it joined"):
        ends.enter(stranger, roster)
    claimed = msgspec.structs.replace(unpack(joins[0], Join), size=5)
    _, smaller = middle.seat(coordinator, [pack(claimed, sites[0][0].signing), *joins[1:]])
    with refused("site 'a' is not on the roster as it joined"):
        ends.enter(sites[0][0], smaller)
    with refused("has joined a session"):
        ends.join(sites[0][0], invitation)
    with refused("no roster yet"):
        ends.answer(sites[0][0], first.question)
    with refused("signature is wrong"):
        ends.enter(first.sites["a"].__class__(**{**vars(first.sites["a"]), "session": None}), roster)


def test_neighbours_are_mutual_and_at_random() -> None:
    for count in (3, 4, 7, 100, 101, 102, 103, 250):
        names = tuple(f"s{k}" for k in range(count))
        found = [masks.circle_of(names, b"x").near(k) for k in range(count)]
        for k, near in enumerate(found):
            assert len(set(near)) == len(near) == min(count - 1, 100) or count == 102
            assert k not in near
            assert all(k in found[j] for j in near)
        if count > 103:
            assert found != [masks.circle_of(names, b"y").near(k) for k in range(count)]


@pytest.mark.parametrize("dtype", ["<u4", "<u8"])
def test_a_mask_can_be_expanded_from_any_word_on(dtype: str) -> None:
    whole = masks.expand(bytes(32), 100, np.dtype(dtype))
    for start, words in itertools.product((0, 1, 3, 16, 37), (1, 5, 63)):
        assert np.array_equal(masks.expand(bytes(32), words, np.dtype(dtype), start), whole[start : start + words])


def test_repr_shows_no_secrets(first: Round) -> None:
    site = first.answered["a"]
    assert "Private" not in repr(site)
    assert not any(repr(secret) in repr(site) for secret in site.secrets)
    assert replace(site).name == "a"


def test_every_message_has_its_own_letter() -> None:
    kinds = (Invite, Join, Roster, Deposit, Question, Answer, Unmask, Reveal, Lost, Shares)
    assert len({kind.letter for kind in kinds}) == len(kinds)
