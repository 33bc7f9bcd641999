"""Write tests/vectors/sums: one message of each kind of a sums session, and the masks of one pair, from fixed keys.

Another implementation that makes the same bytes from the same keys can take part. A session of four sites is played, in
which the last one is lost after its answer; every random byte of it follows from a counter.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec

from fedconformal.guarantees import Mixture
from fedconformal.privacy.signatures import SecretKey, SigningKey
from fedconformal.privacy.sums import coordinator, masks, messages, site
from fedconformal.privacy.sums.coordinator import read
from fedconformal.privacy.sums.masks import SECRET
from fedconformal.privacy.sums.state import CoordinatorState, SiteState

PAGE = Path(__file__).parent.parent / "tests" / "vectors" / "sums" / "messages.json"
SCORES = {"clinic-a": [0.1, 0.2], "clinic-b": [0.3, 0.4, 0.5], "clinic-c": [0.5, 0.9], "clinic-d": [0.7]}
KINDS = {
    letter: kind
    for kind in vars(messages).values()
    if isinstance(kind, type) and (letter := vars(kind).get("letter")) is not None
}


@contextmanager
def counted_bytes() -> Iterator[Callable[[int], bytes]]:
    """Let everything that is drawn follow from a counter."""
    number = count()

    def drawn(size: int) -> bytes:
        blocks = (hashlib.sha256(b"vector" + next(number).to_bytes(4, "big")).digest() for _ in range(-(-size // 32)))
        return b"".join(blocks)[:size]

    def new(kind: type[SecretKey]) -> SecretKey:
        return kind(drawn(32))

    with patch("os.urandom", drawn), patch.object(SecretKey, "new", classmethod(new)):
        yield drawn


def made() -> dict[str, Any]:
    """Play the session, and return what the file holds."""
    with counted_bytes() as drawn:
        state, invitation = coordinator.invite(Mixture(), 0.25)
        kept = {name: SigningKey(drawn(32)) for name in SCORES}
        sites = {name: site.new_site(name, scores) for name, scores in SCORES.items()}
        first: dict[str, dict[str, Any]] = {"I": shown(invitation, "coordinator", state.signing)}
        outgoing = dict.fromkeys(sites, invitation)
        states: list[CoordinatorState] = []
        while outgoing:
            states.append(state)
            sent = []
            for name, message in outgoing.items():
                first.setdefault(message[4:5].decode(), shown(message, "coordinator", state.signing))
                if name == "clinic-d" and message[4:5] == b"U":
                    continue
                sites[name], reply = site.step(sites[name], message, kept[name].raw)
                first.setdefault(reply[4:5].decode(), shown(reply, name, sites[name].signing))
                sent.append(reply)
            state, outgoing = coordinator.step(state, [read(state, data) for data in sent])
            if state.search.number or state.search.answer is not None:
                break
    keys = {name: {"kept": kept[name].raw.hex(), **keys_of(one)} for name, one in sites.items()}
    return {"keys": keys, "masks": derived(sites, states), "messages": [first[letter] for letter in KINDS]}


def shown(data: bytes, sender: str, key: SigningKey) -> dict[str, Any]:
    """Return a message as bytes and as fields."""
    kind = KINDS[data[4:5].decode()]
    fields = msgspec.json.decode(msgspec.json.encode(msgspec.structs.asdict(messages.unpack(data, kind, key.public))))
    return {"kind": kind.__name__, "from": sender, "fields": fields, "bytes": data.hex()}


def keys_of(one: SiteState) -> dict[str, str]:
    """Return a site's private keys of the session."""
    return {"signing": one.signing.raw.hex(), "masking": one.masking.raw.hex()}


def derived(sites: dict[str, SiteState], states: list[CoordinatorState]) -> dict[str, Any]:
    """Return what two sites agree on, and the words that they add in the first round."""
    a, b = sites["clinic-a"], sites["clinic-b"]
    session, pair = a.session, a.agreed[b.index]
    about = next(state.about for state in states if state.answers)
    dtype = session.rounds.dtype
    round_key, own = masks.round_key(pair.mask, about), masks.round_key(a.secrets[0], about)
    deposit = states[-1].deposits[b.index]
    sealed = dict(deposit.shares)[a.index]
    opened = masks.unseal(pair.seal, sealed, masks.about_share(session.id, b.index, a.index)) or b""
    return {
        "pair": ["clinic-a", "clinic-b"],
        "fingerprint": session.fingerprint,
        "about": about.hex(),
        "pair_key_for_masks": pair.mask.hex(),
        "pair_key_for_shares": pair.seal.hex(),
        "round_key": round_key.hex(),
        "mask": masks.masks_of([round_key], 8, dtype).tolist(),
        "own_secret": a.secrets[0].hex(),
        "own_seed": own.hex(),
        "own_mask": masks.masks_of([own], 8, dtype).tolist(),
        "neighbours_of_b": session.neighbours(b.index),
        "shares_that_a_holds_of_b": [opened[k : k + SECRET].hex() for k in range(0, len(opened), SECRET)],
        "needed": session.needed,
        "quorum": session.quorum,
    }


def text() -> str:
    """Return the file."""
    return json.dumps(made(), indent=1) + "\n"


if __name__ == "__main__":
    PAGE.write_text(text(), "utf-8")
