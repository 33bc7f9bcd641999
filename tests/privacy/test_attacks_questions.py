"""A coordinator that asks sites different things learns noise, and one that asks twice learns nothing.

Each attack takes off the own masks of all sites; before masks followed from what was asked, it read a site's counts
even without them.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pytest

import fedconformal as fc
from fedconformal._base.arrays import Integers
from fedconformal.privacy import new_key, public_key
from fedconformal.privacy.sums import site as at_site
from fedconformal.privacy.sums.coordinator import invite
from fedconformal.privacy.sums.messages import Closed, Identity, Join, Roster, Unmask, pack, unpack
from fedconformal.privacy.sums.state import CoordinatorState
from fedconformal.summaries import Provenance
from tests.contracts.tools import refused
from tests.privacy.sums_play import SCORES, Attack, Sites, each, fresh, one_of, opened, took

ALL, SIX = range(7), range(6)
"""All sites, and all but g."""


def is_noise(total: Integers) -> bool:
    return bool((total > 2**20).sum() > len(total) / 2)


@pytest.fixture
def begun() -> Attack:
    """A session before the question of its first round."""
    state, _, sites = opened()
    return Attack(state, sites)


@pytest.fixture
def second() -> Attack:
    """A session before the question of its second round, of which the digits are known."""
    state, question, sites = opened()
    outgoing: Mapping[str, bytes] = dict.fromkeys(sites, question)
    while state.search.number == 0:
        sites, sent = each(sites, outgoing)
        state, outgoing = took(state, sent)
    return Attack(state, sites)


def test_another_question_to_one_site_gives_noise(second: Attack) -> None:
    """It asks everybody but g for a cell without scores: what is left would be the counts of g."""
    prefix = second.state.search.prefix
    question, other = second.question(ALL, 1, prefix), second.question(ALL, 1, prefix ^ 1)
    same = Attack(second.state, dict(second.sites))
    assert (same.total(1, same.send(question)) == same.counts(second.state.search, SCORES)).all()
    assert is_noise(second.total(1, second.send({name: question if name == "g" else other for name in SCORES})))


def test_digits_that_do_not_extend_the_last_ones_are_refused(second: Attack) -> None:
    for number, prefix in ((0, 0), (2, second.state.search.prefix << 3)):
        with refused(f"of round {number}, expected round 1"):
            second.send(second.question(ALL, number, prefix), to="a")
    with refused("asks for other scores than those of the round before"):
        second.send(second.question(ALL, 1, 2**63 - 1), to="a")


@pytest.mark.parametrize("names", ["a", "bcdef"])
def test_different_lists_of_present_sites_give_noise(begun: Attack, names: str) -> None:
    """Site a is the only one that adds no mask with g, or the only one that does; each way the rest would cancel."""
    everybody, without = begun.question(ALL), begun.question(SIX)
    answers = begun.send({name: without if name in names else everybody for name in "abcdef"})
    assert is_noise(begun.total(0, answers))
    again = begun.send(without, to=set("abcdef") - set(names))
    of_names = {name: answers[name] for name in names}
    assert (begun.total(0, again | of_names) == begun.counts(begun.state.search, "abcdef")).all()


def test_after_the_first_sum_nobody_may_be_missing(second: Attack) -> None:
    """The sum over all has been seen: one of a part of them, without g, would show how many rows g has there."""
    prefix = second.state.search.prefix
    without, why = second.question(SIX, 1, prefix), "answers no more: a site was lost after the first sum"
    with refused(why):
        second.send(without, to="a")
    second.send(second.question(ALL, 1, prefix))
    with refused(why):  # nor is it asked again, without one that is said to be lost
        second.send(without, to="a")


def joined_session(provenances: Mapping[str, Provenance] | None = None) -> tuple[CoordinatorState, Sites, list[bytes]]:
    state, invitation = invite(fc.Mixture(), 0.1)
    made = {name: at_site.new_site(name, part, (provenances or {}).get(name)) for name, part in SCORES.items()}
    return state, *each(made, dict.fromkeys(made, invitation))


def test_different_rosters_give_noise() -> None:
    """The coordinator tells the others that g has one score more."""
    state, joined, joins = joined_session()
    state, outgoing = took(state, joins)
    said = unpack(one_of(outgoing), Roster, state.invite.coordinator)
    name, size, *rest = said.sites[-1]
    altered = pack(msgspec.structs.replace(said, sites=[*said.sites[:-1], (name, size + 1, *rest)]), state.signing)
    sites, _ = each(joined, {name: one_of(outgoing) if name == "g" else altered for name in joined})
    assert sites["a"].session.fingerprint != sites["g"].session.fingerprint
    attack = Attack(state, sites)
    assert is_noise(attack.total(0, attack.send(attack.question(ALL))))


def test_scores_of_other_models_or_temperatures_give_noise() -> None:
    """All but g score with weights of zero: the coordinator tells each that everybody does as it does."""
    provenances = {name: Provenance(model="real" if name == "g" else "zero", temperature=1.0) for name in SCORES}
    state, joined, joins = joined_session(provenances)
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
    attack = Attack(state, each(joined, rosters)[0])
    assert is_noise(attack.total(0, attack.send(attack.question(ALL))))


def test_a_temperature_that_no_fit_gives_is_refused() -> None:
    """Probabilities are alike then, or 0 and 1, and scores are known beforehand."""
    with refused("expected a number from 0.05 to 20, as a fit gives"):
        joined_session({"a": Provenance(temperature=20.1)})


def test_the_last_message_once_more_gets_the_same_answer(begun: Attack) -> None:
    question, close = begun.signed(begun.question(ALL)), begun.signed(Closed(begun.session.id, begun.state.about))
    answered, sent = at_site.step(begun.sites["a"], question)
    assert at_site.step(answered, question) == (answered, sent)
    signed, signature = at_site.step(answered, close)
    with refused("round 0 has been answered"):
        at_site.step(signed, question)  # only the last one
    assert at_site.step(signed, close) == (signed, signature)


def test_two_lists_in_one_round_are_not_both_signed(begun: Attack) -> None:
    """A sum over all, and one without g: the difference would be the counts of g."""
    session, seven, six = begun.session, begun.question(ALL), begun.question(SIX)
    about = {count: session.about(0, 0, one.present) for count, one in ((7, seven), (6, six))}
    begun.send(seven)
    one = begun.countersigned(about[7], to="g")
    begun.send(six, to="abcdef")  # g is lost, it says
    with refused("of another session, round or list of sites than site 'a' knows of"):
        begun.send(Closed(session.id, about[7]), to="a")
    more = begun.countersigned(about[6], to="abcdef").signatures
    with refused("is in another step"):
        at_site.countersign(begun.sites["a"], begun.signed(Closed(session.id, about[6])))
    with refused("round 0 has been answered"):
        begun.send(seven, to="a")
    with refused("only 1 of 7 sites signed the list of sites that answered; with fewer than 6 nothing is revealed"):
        begun.send(one, to="g")
    with refused("site number 0 did not sign this list of sites that answered"):
        begun.send(Unmask(session.id, about[7], more), to="g")
    with refused("only 5 of 7 sites signed"):
        begun.send(Unmask(session.id, about[6], [*more[:5], more[0]]), to="a")
    begun.send(Unmask(session.id, about[6], more), to="a")


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
    fake = fresh()["d"]
    name, size, signing, _, identity = said.sites[3]
    for keys in ((fake.signing.public, fake.masking.public), (signing, fake.masking.public)):
        altered = [*said.sites[:3], (name, size, *keys, identity)]
        with refused("site 'd' joined with a key that is not its own"):
            at_site.enter(sites["a"], pack(msgspec.structs.replace(said, sites=altered), state.signing))
    join = unpack(joins[3], Join)
    assert join.identity is not None
    stolen = msgspec.structs.replace(join, identity=Identity(join.identity.key, bytes(64)))
    with refused("site 'd' joined with a key that is not its own"):
        took(state, [*joins[:3], pack(stolen, sites["d"].signing)])
