"""A coordinator that asks different sites different things: it gets noise, or a refusal.

Each attack has the own masks of all sites, which is more than a coordinator ever gets; before masks followed from what
was asked, it read a site's counts even without them.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np
import pytest

import fedconformal as fc
from fedconformal._base.arrays import Integers
from fedconformal._base.float_bits import keys_of
from fedconformal.privacy import new_key, public_key
from fedconformal.privacy.sums import masks
from fedconformal.privacy.sums import site as at_site
from fedconformal.privacy.sums.coordinator import invite
from fedconformal.privacy.sums.messages import (
    Answer,
    Closed,
    Identity,
    Join,
    Question,
    Roster,
    Unmask,
    pack,
    signature_of,
    unpack,
)
from fedconformal.privacy.sums.radix import Rounds, Search
from fedconformal.privacy.sums.session import Session
from fedconformal.privacy.sums.state import CoordinatorState
from fedconformal.summaries import Provenance
from tests.contracts.tools import refused
from tests.privacy.sums_play import SCORES, Sites, carried, each, fresh, one_of, opened, took


def summed(session: Session, number: int, sites: Sites, answers: list[bytes]) -> Integers:
    """Add up answers, and take off the own masks of the sites."""
    rounds = session.rounds
    total = np.zeros(rounds.cells(number), dtype=rounds.dtype)
    for site, data in zip(sites.values(), answers, strict=True):
        message = unpack(data, Answer, session.signing)
        own = masks.masks_of([masks.round_key(site.secrets[number], message.about)], len(total), rounds.dtype)
        total += np.frombuffer(message.counts, dtype=rounds.dtype) - own
    return total.astype(np.int64)


def counts(session: Session, search: Search, names: str) -> Integers:
    """Return what the sites' counts add up to."""
    assert isinstance(session.rounds, Rounds)
    own = [session.rounds.histogram(search, keys_of(SCORES[name])).astype(np.int64) for name in names]
    total: Integers = np.sum(own, axis=0)
    return total


def is_noise(total: Integers) -> bool:
    return bool((total > 2**20).sum() > len(total) / 2)


@pytest.fixture
def second() -> tuple[CoordinatorState, Sites]:
    """A session before the question of its second round, of which the digits are known."""
    state, question, sites = opened()
    while state.search.number == 0:
        sites, sent = each(sites, dict.fromkeys(sites, question))
        state, outgoing = took(state, sent)
        question = one_of(outgoing)
    return state, sites


@pytest.fixture
def begun() -> tuple[CoordinatorState, Sites]:
    """A session before the question of its first round."""
    state, _, sites = opened()
    return state, sites


def asked(state: CoordinatorState, sites: Sites, questions: Mapping[str, Question]) -> tuple[Sites, list[bytes]]:
    return each(sites, {name: pack(question, state.signing) for name, question in questions.items()})


def test_the_same_question_to_all_gives_the_sum(second: tuple[CoordinatorState, Sites]) -> None:
    state, sites = second
    session, search = state.session, state.search
    question = Question(session.id, 1, search.prefix, session.as_bits(range(7)))
    _, answers = asked(state, sites, dict.fromkeys(sites, question))
    assert np.array_equal(summed(session, 1, sites, answers), counts(session, search, "abcdefg"))


def test_another_question_to_one_site_gives_noise(second: tuple[CoordinatorState, Sites]) -> None:
    """It asks everybody but g for a cell without scores: what is left would be the counts of g."""
    state, sites = second
    session, search = state.session, state.search
    question = Question(session.id, 1, search.prefix, session.as_bits(range(7)))
    other = msgspec.structs.replace(question, prefix=search.prefix ^ 1)
    _, answers = asked(state, sites, {name: question if name == "g" else other for name in sites})
    assert is_noise(summed(session, 1, sites, answers))


def test_digits_that_do_not_extend_the_last_ones_are_refused(second: tuple[CoordinatorState, Sites]) -> None:
    state, sites = second
    session = state.session
    for number, prefix in ((0, 0), (2, state.search.prefix << 3)):
        with refused(f"of round {number}, expected round 1"):
            asked(state, sites, {"a": Question(session.id, number, prefix, session.as_bits(range(7)))})
    with refused("asks for other scores than those of the round before"):
        asked(state, sites, {"a": Question(session.id, 1, 2**63 - 1, session.as_bits(range(7)))})


def question_of(state: CoordinatorState, sites: Sites) -> dict[str, Question]:
    session = state.session
    return dict.fromkeys(
        sites, Question(session.id, state.search.number, state.search.prefix, session.as_bits(range(7)))
    )


def test_different_lists_of_who_is_present_give_noise(begun: tuple[CoordinatorState, Sites]) -> None:
    """Site a is the only one that adds no mask with g, or the only one that does; each way the rest would cancel."""
    state, sites = begun
    session = state.session
    everybody = Question(session.id, 0, 0, session.as_bits(range(7)))
    without = Question(session.id, 0, 0, session.as_bits(range(6)))
    sites.pop("g")
    for names in ("a", "abc", "bcdef"):
        _, answers = asked(state, sites, {name: without if name in names else everybody for name in sites})
        assert is_noise(summed(session, 0, sites, answers))
    _, answers = asked(state, sites, dict.fromkeys(sites, without))
    assert np.array_equal(summed(session, 0, sites, answers), counts(session, state.search, "abcdef"))


def test_after_the_first_sum_nobody_may_be_missing(second: tuple[CoordinatorState, Sites]) -> None:
    """The sum over all has been seen: one of a part of them, without g, would show how many rows g has there."""
    state, sites = second
    session, prefix = state.session, state.search.prefix
    everybody = Question(session.id, 1, prefix, session.as_bits(range(7)))
    without = Question(session.id, 1, prefix, session.as_bits(range(6)))
    why = "counts for nobody any more: a site was lost after the first sum"
    for name in "abcdef":
        with refused(why):
            asked(state, sites, {name: without})
    answered, _ = asked(state, sites, dict.fromkeys(sites, everybody))
    with refused(why):  # nor is it asked again, without one that is said to be lost
        asked(state, answered, {"a": without})


def test_different_rosters_give_noise() -> None:
    """The coordinator tells the others that g has one score more."""
    state, invitation = invite(fc.Mixture(), 0.1)
    joined, joins = each(fresh(), dict.fromkeys(SCORES, invitation))
    state, outgoing = took(state, joins)
    said = unpack(one_of(outgoing), Roster, state.invite.coordinator)
    name, size, *rest = said.sites[-1]
    altered = msgspec.structs.replace(said, sites=[*said.sites[:-1], (name, size + 1, *rest)])
    rosters = {name: one_of(outgoing) if name == "g" else pack(altered, state.signing) for name in joined}
    sites, _ = each(joined, rosters)
    session = state.session
    question = pack(Question(session.id, 0, 0, session.as_bits(range(7))), state.signing)
    _, answers = each(sites, dict.fromkeys(sites, question))
    assert sites["a"].session.fingerprint != sites["g"].session.fingerprint
    assert is_noise(summed(session, 0, sites, answers))


def test_scores_of_other_models_or_temperatures_give_noise() -> None:
    """All but g score with weights of zero: the coordinator tells each that everybody does as it does."""
    state, invitation = invite(fc.Mixture(), 0.1)
    provenances = {name: Provenance(model="real" if name == "g" else "zero", temperature=1.0) for name in SCORES}
    sites = {name: at_site.new_site(name, part, provenances[name]) for name, part in SCORES.items()}
    joined, joins = each(sites, dict.fromkeys(sites, invitation))
    with refused("model zero against real"):
        took(state, joins)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "fedconformal.privacy.sums.coordinator.combine_provenances", lambda provenances, _: provenances[0]
        )
        state, outgoing = took(state, joins)
    said = unpack(one_of(outgoing), Roster, state.invite.coordinator)
    with refused("the roster is for other scores than those of site 'g': model zero against real"):
        each({"g": joined["g"]}, outgoing)
    rosters = {
        name: pack(msgspec.structs.replace(said, provenance=provenances[name].to_header()), state.signing)
        for name in joined
    }
    sites, _ = each(joined, rosters)
    session = state.session
    question = pack(Question(session.id, 0, 0, session.as_bits(range(7))), state.signing)
    _, answers = each(sites, dict.fromkeys(sites, question))
    assert is_noise(summed(session, 0, sites, answers))


@pytest.mark.parametrize("temperature", [1e300, 20.1, 0.049])
def test_a_temperature_that_no_fit_gives_is_refused(temperature: float) -> None:
    """Probabilities are alike then, or 0 and 1, and scores are known beforehand."""
    _, invitation = invite(fc.Mixture(), 0.1)
    with refused("expected a number from 0.05 to 20, as a fit gives"):
        at_site.join(at_site.new_site("a", SCORES["a"], Provenance(temperature=temperature)), invitation)


def test_the_last_message_once_more_gets_the_same_answer(begun: tuple[CoordinatorState, Sites]) -> None:
    state, sites = begun
    question = pack(question_of(state, sites)["a"], state.signing)
    answered, sent = at_site.step(sites["a"], question)
    assert at_site.step(answered, question) == (answered, sent)
    session = state.session
    signed, signature = at_site.step(answered, pack(Closed(session.id, state.about), state.signing))
    with refused("round 0 has been answered"):
        at_site.step(signed, question)  # only the last one
    assert at_site.step(signed, pack(Closed(session.id, state.about), state.signing)) == (signed, signature)


def test_two_lists_in_one_round_are_not_both_signed(begun: tuple[CoordinatorState, Sites]) -> None:
    """A sum over all, and one without g: the difference would be the counts of g."""
    state, sites = begun
    session, key = state.session, state.signing
    lists = {len(names): Question(session.id, 0, 0, session.as_bits(names)) for names in (range(7), range(6))}
    about = {count: session.about(0, 0, question.present) for count, question in lists.items()}
    answered, _ = asked(state, sites, dict.fromkeys(sites, lists[7]))
    signed, signatures = each({"g": answered.pop("g")}, {"g": pack(Closed(session.id, about[7]), key)})
    again, _ = asked(state, answered, dict.fromkeys(answered, lists[6]))  # g is lost, it says
    with refused("of another session, round or list of sites than site 'a' knows of"):
        at_site.countersign(again["a"], pack(Closed(session.id, about[7]), key))
    others, more = each(again, dict.fromkeys(again, pack(Closed(session.id, about[6]), key)))
    with refused("is in another step"):
        at_site.countersign(others["a"], pack(Closed(session.id, about[6]), key))
    with refused("round 0 has been answered"):
        at_site.answer(others["a"], pack(lists[7], key))
    six = [(k, signature_of(data)) for k, data in enumerate(more)]
    with refused("only 1 of 7 sites signed the list of those who answered; with fewer than 6 nothing is revealed"):
        at_site.reveal(signed["g"], pack(Unmask(session.id, about[7], [(6, signature_of(signatures[0]))]), key))
    with refused("site number 0 did not sign this list of those who answered"):
        at_site.reveal(signed["g"], pack(Unmask(session.id, about[7], six), key))
    with refused("only 5 of 7 sites signed"):
        at_site.reveal(others["a"], pack(Unmask(session.id, about[6], [*six[:5], six[0]]), key))
    at_site.reveal(others["a"], pack(Unmask(session.id, about[6], six), key))


KEYS = {name: new_key() for name in "abcd"}
PUBLIC = {name: public_key(key) for name, key in KEYS.items()}


def joined_with(
    keys: Mapping[str, bytes | None], trusted: Mapping[str, str]
) -> tuple[CoordinatorState, Sites, list[bytes]]:
    state, invitation = invite(fc.Mixture(), 0.1)
    done = {
        name: at_site.join(at_site.new_site(name, SCORES[name], trusted=trusted), invitation, key)
        for name, key in keys.items()
    }
    return state, {name: site for name, (site, _) in done.items()}, [data for _, data in done.values()]


def test_sites_know_each_other_by_their_keys() -> None:
    state, sites, joins = joined_with(KEYS, PUBLIC)
    state, roster = took(state, joins)
    sites, deposits = each(sites, roster)
    state, questions = took(state, deposits)
    assert carried(state, questions, sites)[0].search.answer is not None
    session = sites["a"].session
    assert session.fingerprint == sites["d"].session.fingerprint
    assert session.names == tuple("abcd")
    assert [one and one.key.hex() for one in session.identities] == list(PUBLIC.values())


@pytest.mark.parametrize(
    ("keys", "trusted", "problem"),
    [
        (KEYS | {"d": None}, PUBLIC, "site 'd' joined without a key of its own"),
        (KEYS | {"d": new_key()}, PUBLIC, "site 'd' joined with another key than the one that is trusted"),
        (KEYS, {name: PUBLIC[name] for name in "abc"}, "no key is trusted for site 'd', which is on the roster"),
        (KEYS, PUBLIC | {" d": PUBLIC["a"]}, "there are two keys for one site"),
    ],
)
def test_a_roster_with_invented_sites_is_refused(
    keys: Mapping[str, bytes | None], trusted: Mapping[str, str], problem: str
) -> None:
    """Sites that the coordinator plays itself would leave one honest site alone in the sum."""
    state, sites, joins = joined_with(keys, trusted)
    _, roster = took(state, joins)
    with refused(problem):
        at_site.enter(sites["a"], one_of(roster))


def test_keys_exchanged_on_the_way_are_refused() -> None:
    """The coordinator puts its own keys for masks in the place of those that site d joined with."""
    state, sites, joins = joined_with(KEYS, PUBLIC)
    _, outgoing = took(state, joins)
    said = unpack(one_of(outgoing), Roster, state.invite.coordinator)
    fake = at_site.new_site("d", SCORES["d"])
    name, size, _, _, identity = said.sites[3]
    for keys in ((fake.signing.public, fake.masking.public), (said.sites[3][2], fake.masking.public)):
        altered = [*said.sites[:3], (name, size, *keys, identity)]
        with refused("site 'd' joined with a key that is not its own"):
            at_site.enter(sites["a"], pack(msgspec.structs.replace(said, sites=altered), state.signing))
    join = unpack(joins[3], Join)
    assert join.identity is not None
    stolen = msgspec.structs.replace(join, identity=Identity(join.identity.key, bytes(64)))
    with refused("site 'd' joined with a key that is not its own"):
        took(state, [*joins[:3], pack(stolen, sites["d"].signing)])
