"""Messages of a sums session from fixed keys: the same bytes as ever, and all that another implementation needs."""

from __future__ import annotations

import hashlib
import json

import numpy as np

from fedconformal.privacy.sums.messages import PREFIX
from scripts import sums_vectors

FOUND = json.loads(sums_vectors.PAGE.read_text("utf-8"))


def test_the_messages_are_the_same_bytes() -> None:
    assert sums_vectors.PAGE.read_text("utf-8") == sums_vectors.text(), "run `python scripts/sums_vectors.py`"


def test_there_is_one_of_each_kind() -> None:
    assert [one["kind"] for one in FOUND["messages"]] == [kind.__name__ for kind in sums_vectors.KINDS.values()]


def test_masks_by_other_means() -> None:
    """The same words from the words of the README alone, without the package's own functions."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    keys, masks = FOUND["keys"], FOUND["masks"]
    bodies = {one["kind"]: bytes.fromhex(one["bytes"])[PREFIX:] for one in FOUND["messages"]}
    fingerprint = hashlib.sha256(bodies["Invite"] + bodies["Roster"])
    assert fingerprint.hexdigest() == masks["fingerprint"]
    question = (0).to_bytes(4, "big") + (0).to_bytes(8, "big") + b"\xf0"
    about = hashlib.sha256(b"fedconformal round" + fingerprint.digest() + question)
    assert about.hexdigest() == masks["about"]
    mine, theirs = (X25519PrivateKey.from_private_bytes(bytes.fromhex(keys[k]["masking"])) for k in masks["pair"])
    public = sorted(key.public_key().public_bytes_raw() for key in (mine, theirs))
    agreed = mine.exchange(theirs.public_key())
    both = hashlib.blake2b(fingerprint.digest() + b"".join(public), key=agreed, person=b"fedconformal 2").digest()
    assert both.hex() == masks["pair_key_for_masks"] + masks["pair_key_for_shares"]
    for secret, key, words in (
        (both[:32], "round_key", "mask"),
        (bytes.fromhex(masks["own_secret"]), "own_seed", "own_mask"),
    ):
        made = hashlib.blake2b(about.digest(), key=secret, digest_size=32).digest()
        assert made.hex() == masks[key]
        counter = bytes(15) + b"\x02"  # GCM's first block after the one of its tag
        stream = Cipher(algorithms.AES(made), modes.CTR(counter)).encryptor().update(bytes(32))
        assert np.frombuffer(stream, "<u4").tolist() == masks[words]
