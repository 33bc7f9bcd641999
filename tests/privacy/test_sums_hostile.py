"""Messages that are not what they should be are refused, whoever sent them."""

from __future__ import annotations

import msgspec
import numpy as np

import fedconformal as fc
from fedconformal.privacy.sums import site as at_site
from fedconformal.privacy.sums.coordinator import invite
from fedconformal.privacy.sums.messages import Answer, Join, Lost, Question, Reveal, Shares, pack, unpack
from tests.contracts.tools import refusal, refused
from tests.privacy.sums_play import Round, one_of, took


def test_duplicates_and_replays_are_refused(first: Round) -> None:
    other = Round()
    for state, mine, others, did in (
        (first.begun, first.answers, other.answers, "Answer"),
        (first.closed, first.signatures, other.signatures, "Signed"),
        (first.open, first.reveals, other.reveals, "Reveal"),
        (first.waiting, first.opened, other.opened, "Shares"),
    ):
        with refused(f"site 'a' sent {did} twice"):
            took(state, [*mine, mine[0]])
        with refused("invalid signature"):
            took(state, others)
    later, _ = at_site.answer(first.revealed["a"], first.next_question)
    elsewhere = "is of another session, round or list of sites than site 'a' knows of"
    for take, site, message, why in (
        (at_site.answer, first.answered["a"], first.question, "round 0 has been answered"),
        (at_site.answer, first.signed["a"], first.question, "round 0 has been answered"),
        (at_site.answer, first.revealed["a"], first.question, "round 0, expected round 1"),
        (at_site.answer, first.sites["a"], other.question, "invalid signature"),
        (at_site.answer, first.sites["a"], first.next_question, "round 1, expected round 0"),
        (at_site.countersign, first.signed["a"], first.list, "is in another step of round"),
        (at_site.countersign, first.sites["a"], first.list, "than site 'a' knows of"),
        (at_site.countersign, later, first.list, elsewhere),
        (at_site.reveal, first.revealed["a"], first.request, "is in another step of round"),
        (at_site.reveal, first.answered["a"], first.request, "is in another step of round"),
        (at_site.reveal, later, first.request, elsewhere),
        (at_site.open_shares, first.helped["a"], first.requests["a"], "is in another step of round"),
        (at_site.open_shares, first.signed["a"], first.requests["a"], "is in another step of round"),
        (at_site.open_shares, first.revealed["a"], first.requests["b"], "is invalid"),
        (at_site.open_shares, later, first.requests["a"], elsewhere),
    ):
        with refused(why):
            take(site, message)


def test_messages_out_of_order_are_refused(first: Round) -> None:
    for state, messages, expected, kind in (
        (first.closed, first.answers, "Countersign", "A"),  # the list is closed
        (first.done, first.reveals, "Answer", "V"),  # nobody has answered round 1
        (first.waiting, first.reveals, "Shares", "V"),
        (first.open, first.opened, "Reveal", "S"),  # nobody is lost in round 0
    ):
        with refused(f"expected the message {expected}, got one of the kind b'{kind}'"):
            took(state, messages)
    with refused("the message Answer is of another session, round or list of sites, expected round 1"):
        took(first.done, first.answers)


def test_altered_messages_are_refused(first: Round) -> None:
    rng = np.random.default_rng(0)
    for data, use in (
        (first.answers[0], lambda bad: took(first.begun, [bad])),
        (first.signatures[0], lambda bad: took(first.closed, [bad])),
        (first.reveals[0], lambda bad: took(first.open, [bad])),
        (first.opened[0], lambda bad: took(first.waiting, [bad])),
        (first.question, lambda bad: at_site.answer(first.sites["a"], bad)),
        (first.list, lambda bad: at_site.countersign(first.answered["a"], bad)),
        (first.request, lambda bad: at_site.reveal(first.signed["a"], bad)),
        (first.requests["a"], lambda bad: at_site.open_shares(first.revealed["a"], bad)),
    ):
        for position in [*range(80), *rng.integers(80, len(data), 40).tolist()]:
            bad = bytearray(data)
            bad[min(position, len(data) - 1)] ^= 1 << int(rng.integers(8))
            refusal(lambda bad=bytes(bad), use=use: use(bad))  # type: ignore[misc]
        for cut in (0, 3, 4, 68, 69, len(data) - 1):
            refusal(lambda cut=cut, use=use, data=data: use(data[:cut]))  # type: ignore[misc]
        refusal(lambda use=use, data=data: use(data + b"\0"))  # type: ignore[misc]


def test_signed_nonsense_of_a_site_is_refused(first: Round) -> None:
    session, a = first.begun.session, first.sites["a"]
    good = unpack(first.answers[0], Answer, session.signing)
    changed = msgspec.structs.replace
    for bad, words in (
        (changed(good, counts=good.counts[:-4]), "bytes of counts"),
        (changed(good, about=bytes(32)), "another session, round or list of sites"),
        (changed(good, session=bytes(16)), "another session, round or list of sites"),
        (changed(good, site=1), "invalid signature"),
        (changed(good, site=99), "no site number 99"),
    ):
        with refused(words):
            took(first.begun, [pack(bad, a.signing)])
    said = unpack(first.reveals[0], Reveal, session.signing)
    lying = pack(changed(said, seed=bytes(32)), a.signing)
    with refused("the sum of round 0 is impossible"):
        took(first.open, [lying, *first.reveals[1:]])
    shares = unpack(first.opened[0], Shares, session.signing)
    ((lost, share),) = shares.shares
    for entries in ([], [(1, share)], [(lost, share), (lost, share)]):
        with refused("did not open the requested shares"):
            took(first.waiting, [pack(changed(shares, shares=entries), a.signing)])
    lies = [
        pack(changed(unpack(data, Shares, session.signing), shares=[(lost, bytes(16))]), first.sites[name].signing)
        for name, data in zip(first.requests, first.opened, strict=True)
    ]
    with refused("the sum of round 0 is impossible"):
        took(first.waiting, lies)


def test_signed_nonsense_of_a_coordinator_is_refused(first: Round) -> None:
    session, key = first.begun.session, first.begun.signing
    changed = msgspec.structs.replace
    asked = unpack(first.question, Question, session.coordinator)
    for present in (b"", bytes(9), b"\xff"):
        with refused("does not fit the roster"):
            at_site.answer(first.sites["a"], pack(changed(asked, present=present), key))
    without = session.as_bits({1, 2, 3, 4, 5, 6})
    with refused("lacks site 'a'"):
        at_site.answer(first.sites["a"], pack(changed(asked, present=without), key))
    with refused("asks for other scores than those of the round before"):
        at_site.answer(first.sites["a"], pack(changed(asked, prefix=1), key))
    again = pack(Question(session.id, 1, first.done.search.prefix, session.as_bits(range(7))), key)
    with refused("the session has ended: a site was lost after its answer"):
        at_site.answer(first.helped["a"], again)
    request = unpack(first.requests["a"], Lost, session.coordinator)
    ((sender, sealed),) = request.shares
    for shares in ([(sender, bytes(48))], [(1, sealed)]):
        with refused("was altered"):
            at_site.open_shares(first.revealed["a"], pack(changed(request, shares=shares), key))
    for shares in ([(0, sealed)], [(99, sealed)]):
        with refused("is invalid"):
            at_site.open_shares(first.revealed["a"], pack(changed(request, shares=shares), key))


def test_a_roster_that_is_not_right_is_refused(first: Round) -> None:
    state, invitation = invite(fc.Mixture(), 0.1)
    sites = [at_site.join(at_site.new_site(name, [0.1, 0.2]), invitation) for name in "abc"]
    joins = [message for _, message in sites]
    with refused("on the roster twice"):
        took(state, [*joins, joins[0]])
    named = msgspec.structs.replace(unpack(joins[0], Join), site="x\n\x1b[31m")
    with refused("site"):
        took(state, [pack(named, sites[0][0].signing), *joins[1:]])
    with refused("no site joined"):
        took(state, [])
    with refused("joined another session"):
        took(invite(fc.Mixture(), 0.1)[0], joins)
    frozen, rosters = took(state, joins)
    roster = one_of(rosters)
    with refused("expected the message Deposit, got one of the kind b'J'"):
        took(frozen, joins)
    stranger, _ = at_site.join(at_site.new_site("d", [0.1]), invitation)
    with refused("site 'd' is not on the roster as it joined"):
        at_site.enter(stranger, roster)
    claimed = msgspec.structs.replace(unpack(joins[0], Join), size=5)
    _, smaller = took(state, [pack(claimed, sites[0][0].signing), *joins[1:]])
    with refused("site 'a' is not on the roster as it joined"):
        at_site.enter(sites[0][0], one_of(smaller))
    with refused("has joined a session"):
        at_site.join(sites[0][0], invitation)
    with refused("no roster yet"):
        at_site.answer(sites[0][0], first.question)
    with refused("invalid signature"):
        at_site.enter(msgspec.structs.replace(first.sites["a"], roster=b""), roster)


def test_repr_shows_no_secrets(first: Round) -> None:
    site = first.answered["a"]
    shown = repr([site, site.signing, site.masking, first.begun])
    hidden = [*site.secrets, site.signing.raw, site.masking.raw, first.begun.signing.raw, site.scores]
    assert not any(repr(secret) in shown for secret in hidden)
    assert "'a'" in shown
