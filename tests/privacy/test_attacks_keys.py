"""Colluders that join with somebody else's key, and a coordinator with two rosters: neither reads a site.

What two sites agree on has to follow from both of their public keys and from the whole roster. Each attack is played on
real messages to its end, where a single site's counts were seen before it did.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

import fedconformal as fc
from fedconformal.privacy.signatures import MaskingKey, SigningKey
from fedconformal.privacy.sums import site as at_site
from fedconformal.privacy.sums.coordinator import invite, read
from fedconformal.privacy.sums.messages import (
    Countersign,
    Deposit,
    Join,
    Lost,
    Reveal,
    Roster,
    Unmask,
    pack,
    signature_of,
    unpack,
)
from fedconformal.privacy.sums.radix import Search
from fedconformal.privacy.sums.state import CoordinatorState
from tests.contracts.tools import refused
from tests.privacy.sums_play import MORE, Attack, Sites, each, fresh

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


def revealed(attack: Attack, liars: dict[int, SigningKey]) -> None:
    """Let the sites sign their list and reveal; liars sign whatever it is."""
    about = next(iter(attack.sites.values())).about
    signatures = attack.countersigned(about).signatures
    for k, key in liars.items():
        signatures.append((k, signature_of(pack(Countersign(attack.session.id, about, k), key))))
    for data in attack.send(Unmask(attack.session.id, about, signatures)).values():
        assert unpack(data, Reveal, attack.session.signing).seed


@pytest.mark.parametrize("twin", [with_a_bit_more, with_a_point_more])
def test_a_key_in_another_spelling_takes_no_mask_off(twin: Callable[[bytes], bytes]) -> None:
    """Of three sites c joins with a's key: b would subtract its mask with a, add the same one for c, and stand bare."""
    state, sites, joins = joined("ab")
    liar = SigningKey.new()
    other, anybody = twin(joins["a"].masking), MaskingKey.new()
    assert anybody.agreed_with(other) == anybody.agreed_with(joins["a"].masking)
    roster = roster_of(state, [joins["a"], joins["b"], Join(state.invite.session, "c", 1, liar.public, other)])
    attack = Attack(state, each(sites, dict.fromkeys(sites, roster))[0])
    answer = attack.send(attack.question(range(3)))["b"]
    revealed(attack, {2: liar})
    assert (attack.total(0, {"b": answer}) != attack.counts(Search(), "b")).any()


def test_shares_of_one_roster_are_not_opened_in_another() -> None:
    """Of eight sites c, d and e collude. The others are told that b is out, and b that there are five sites.

    The others answer twice, with a and without, and open the second sum; b would open a's secret, and thus the first.
    """
    state, sites, joins = joined("abcdefgh")
    order = list(joins.values())
    whole, few = roster_of(state, order), roster_of(state, order[:5])
    sites, sent = each(sites, {name: few if name == "b" else whole for name in sites})
    sealed = dict(unpack(sent[0], Deposit, sites["a"].session.signing).shares)
    others = Attack(state, {name: site for name, site in sites.items() if name != "b"})
    others.send(others.question([0, *range(2, 8)]))
    del others.sites["a"]
    others.send(others.question(range(2, 8)))
    revealed(others, {})

    alone = Attack(state, {"b": sites["b"]})
    alone.send(alone.question(range(5)))
    revealed(alone, {k: sites[name].signing for k, name in ((2, "c"), (3, "d"), (4, "e"))})
    with refused("a share of site number 0 was altered"):
        alone.send(Lost(alone.session.id, alone.sites["b"].about, 1, [(0, sealed[1])]))


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
