"""Colluders that join with somebody else's key, and a coordinator with two rosters: neither reads a site.

What two sites agree on has to follow from both of their public keys and from the whole roster. Each attack is played on
real messages to its end, where a single site's counts were seen before it did.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np
import pytest

import fedconformal as fc
from fedconformal._base.float_bits import keys_of
from fedconformal.privacy.keys import MaskingKey, SigningKey
from fedconformal.privacy.sums import masks
from fedconformal.privacy.sums import site as at_site
from fedconformal.privacy.sums.coordinator import invite, read
from fedconformal.privacy.sums.messages import (
    Answer,
    Closed,
    Countersign,
    Deposit,
    Join,
    Lost,
    Question,
    Reveal,
    Roster,
    Unmask,
    pack,
    signature_of,
    unpack,
)
from fedconformal.privacy.sums.radix import Counted, Search
from fedconformal.privacy.sums.session import Session
from fedconformal.privacy.sums.state import CoordinatorState
from tests.contracts.tools import refused
from tests.privacy.sums_play import MORE, Sites, each, fresh

FIELD = 2**255 - 19


def with_a_bit_more(key: bytes) -> bytes:
    """X25519 ignores the last bit of a public key."""
    return key[:-1] + bytes([key[-1] ^ 0x80])


def with_a_point_more(key: bytes) -> bytes:
    """Add the point of order two: private keys are multiples of eight, which make it disappear."""
    return pow(int.from_bytes(key, "little"), -1, FIELD).to_bytes(32, "little")


def joined(names: str) -> tuple[CoordinatorState, Sites, dict[str, Join]]:
    state, invitation = invite(fc.Mixture(), 0.1)
    sites, sent = each(fresh({name: MORE[name] for name in names}), dict.fromkeys(names, invitation))
    return state, sites, {name: unpack(data, Join) for name, data in zip(sites, sent, strict=True)}


def roster_of(state: CoordinatorState, joins: list[Join]) -> bytes:
    listed = [(one.site, one.size, one.signing, one.masking, one.identity) for one in joins]
    return pack(Roster(state.invite.session, listed), state.signing)


def own_mask(session: Session, seed: bytes) -> Counted:
    return masks.masks_of([seed], session.rounds.cells(0), session.rounds.dtype)


def words(session: Session, answer: bytes) -> Counted:
    return np.frombuffer(unpack(answer, Answer, session.signing).counts, dtype=session.rounds.dtype)


def counts(session: Session, name: str) -> Counted:
    return session.rounds.histogram(Search(), keys_of(MORE[name]))


def asked(state: CoordinatorState, session: Session, sites: Sites, present: list[int]) -> tuple[Sites, list[bytes]]:
    question = pack(Question(session.id, 0, 0, session.as_bits(present)), state.signing)
    return each(sites, dict.fromkeys(sites, question))


def revealed(state: CoordinatorState, session: Session, sites: Sites, liars: list[tuple[int, SigningKey]]) -> Sites:
    """Let the sites sign their list and reveal; liars sign whatever it is."""
    about = next(iter(sites.values())).about
    sites, sent = each(sites, dict.fromkeys(sites, pack(Closed(session.id, about), state.signing)))
    signatures = [(one.index, signature_of(data)) for one, data in zip(sites.values(), sent, strict=True)]
    signatures += [(k, signature_of(pack(Countersign(session.id, about, k), key))) for k, key in liars]
    sites, sent = each(sites, dict.fromkeys(sites, pack(Unmask(session.id, about, signatures), state.signing)))
    assert all(unpack(data, Reveal, session.signing).seed for data in sent)
    return sites


@pytest.mark.parametrize("twin", [with_a_bit_more, with_a_point_more])
def test_a_key_in_another_spelling_takes_no_mask_off(twin: Callable[[bytes], bytes]) -> None:
    """Of three sites c joins with a's key: b would subtract its mask with a, add the same one for c, and stand bare."""
    state, sites, joins = joined("ab")
    liar = SigningKey.new()
    other, anybody = twin(joins["a"].masking), MaskingKey.new()
    assert anybody.agreed_with(other) == anybody.agreed_with(joins["a"].masking)
    roster = roster_of(state, [joins["a"], joins["b"], Join(state.invite.session, "c", 1, liar.public, other)])
    sites, _ = each(sites, dict.fromkeys(sites, roster))
    session = sites["b"].session
    sites, (_, answer) = asked(state, session, sites, [0, 1, 2])
    about = sites["b"].about
    sites = revealed(state, session, sites, [(2, liar)])
    seed = masks.round_key(sites["b"].secrets[0], about)  # as b revealed it
    assert (words(session, answer) - own_mask(session, seed) != counts(session, "b")).any()


def test_shares_of_one_roster_are_not_opened_in_another() -> None:
    """Of eight sites c, d and e collude. The others are told that b is out, and b that there are five sites.

    The others answer twice, with a and without, and open the second sum; b would open a's secret, and thus the first.
    """
    state, sites, joins = joined("abcdefgh")
    order = list(joins.values())
    liars = [(k, sites[name].signing) for k, name in enumerate("abcde") if name in "cde"]
    whole, few = roster_of(state, order), roster_of(state, order[:5])
    sites, sent = each(sites, {name: few if name == "b" else whole for name in sites})
    session = sites["a"].session
    sealed = dict(unpack(sent[0], Deposit, session.signing).shares)
    outside = {name: site for name, site in sites.items() if name != "b"}
    first, _ = asked(state, session, outside, [0, *range(2, 8)])
    second, _ = asked(state, session, {name: site for name, site in first.items() if name != "a"}, [*range(2, 8)])
    revealed(state, session, second, [])

    alone = {"b": sites["b"]}
    alone, _ = asked(state, alone["b"].session, alone, [*range(5)])
    alone = revealed(state, alone["b"].session, alone, liars)
    request = pack(Lost(session.id, alone["b"].about, 1, [(0, sealed[1])]), state.signing)
    with refused("a share of site number 0 was altered"):
        each(alone, {"b": request})


@pytest.mark.parametrize(
    "key", [bytes(32), b"\x01" + bytes(31), b"\xec" + b"\xff" * 30 + b"\x7f"], ids=["0", "1", "-1"]
)
def test_a_key_of_small_order_is_refused(key: bytes) -> None:
    """Anybody knows what it agrees on; the coordinator, or who hands it the roster, may put it there."""
    state, sites, joins = joined("abcde")
    hostile = msgspec.structs.replace(joins["e"], masking=key)
    with refused("a public key for masks is of small order"):
        read(state, pack(hostile, sites["e"].signing))
    with refused("a public key for masks is of small order"):
        at_site.step(sites["a"], roster_of(state, [*list(joins.values())[:4], hostile]))
