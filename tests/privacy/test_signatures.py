"""Signed summaries: the certificate shows who sent what, and nothing else passes."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import fedconformal as fc
from fedconformal.certificate import Certificate, SignatureRecord
from fedconformal.privacy import check_signatures, new_key, public_key, sign, signed
from tests.contracts.tools import refused

KEYS = {name: new_key() for name in "ab"}
TRUSTED = {name: public_key(key) for name, key in KEYS.items()}
SITES = [fc.summarize([i / 20 for i in range(20)], site=name, score=fc.LAC()) for name in "ab"]


def made() -> tuple[Certificate, list[SignatureRecord]]:
    certificate = fc.calibrate(SITES).certificate
    return certificate, [sign(site, KEYS[site.sites[0]]) for site in SITES]


def test_the_certificate_shows_who_sent_what() -> None:
    certificate, records = made()
    found = signed(certificate, records, TRUSTED)
    assert check_signatures(found, TRUSTED) == []
    again = msgspec.convert(found.to_dict(), Certificate)
    assert check_signatures(again, TRUSTED) == []
    assert "signatures" not in certificate.to_dict()


def test_a_signed_predictor_is_still_verified() -> None:
    result = fc.calibrate(SITES)
    certificate, records = made()
    predictor = fc.Predictor.of(result)
    named = fc.Predictor(
        score=predictor.score, certificate=signed(certificate, records, TRUSTED), curve=predictor.curve
    )
    assert fc.verify(named, SITES) == []
    assert fc.Predictor.from_bytes(named.to_bytes()).certificate == named.certificate


Change = Callable[[list[SignatureRecord]], list[SignatureRecord]]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda r: r[:1], "the summary of 'b' is not signed"),
        (lambda r: [r[0], msgspec.structs.replace(r[0], site="b")], "another key than the one that is trusted"),
        (lambda r: [r[0], msgspec.structs.replace(r[1], signature=r[0].signature)], "is not one of its summary"),
        (lambda r: [r[0], msgspec.structs.replace(r[1], signature="zz")], "is not one of its summary"),
        (lambda r: [*r, r[0]], "more signatures than summaries"),
        (lambda r: [*r, msgspec.structs.replace(r[0], site="c")], "more signatures than summaries"),
    ],
)
def test_what_does_not_pass(change: Change, problem: str) -> None:
    certificate, records = made()
    with refused(problem):
        signed(certificate, change(records), TRUSTED)


def test_another_summary_does_not_pass() -> None:
    certificate = fc.calibrate([SITES[0], SITES[1].extend([0.5])]).certificate
    with refused("the signature of site 'b' is not one of its summary"):
        signed(certificate, made()[1], TRUSTED)


def test_a_signature_made_for_something_else_does_not_pass() -> None:
    """The bare digest may be signed in another protocol, or by somebody who was asked to sign "this hash"."""
    certificate, records = made()
    bare = Ed25519PrivateKey.from_private_bytes(KEYS["b"]).sign(SITES[1].digest().encode())
    with refused("the signature of site 'b' is not one of its summary"):
        signed(certificate, [records[0], msgspec.structs.replace(records[1], signature=bare.hex())], TRUSTED)


def test_keys_must_be_trusted_and_sites_named() -> None:
    certificate, records = made()
    with refused("no key is trusted for site 'b'"):
        signed(certificate, records, {"a": TRUSTED["a"]})
    for summary in (fc.pool(SITES), fc.summarize([0.1])):
        with refused("only the summary of one named site can be signed"):
            sign(summary, KEYS["a"])
    with refused("a private key has 32 bytes, not 3"):
        sign(SITES[0], b"abc")
    unnamed = fc.calibrate([fc.pool(SITES)]).certificate
    assert "not signed" in check_signatures(unnamed, TRUSTED)[0]
