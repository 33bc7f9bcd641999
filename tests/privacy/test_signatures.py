"""Signed summaries: the certificate shows who sent what, and nothing else passes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import fedconformal as fc
from fedconformal.certificates.certificate import Certificate, SignatureRecord
from fedconformal.privacy import check_signatures, is_sealed, new_key, public_key, seal, sign, signatures, signed
from fedconformal.privacy.signatures import Seal
from fedconformal.summaries.summary import digest_of
from tests.contracts.tools import changed, refused

KEYS = {name: new_key() for name in "ab"}
TRUSTED = {name: public_key(key) for name, key in KEYS.items()}
ABOUT: dict[str, Any] = {"score": fc.LAC(), "alpha": 0.1, "model": "m", "calibration": "june", "expires": "2999-01-31"}


def sites(**about: Any) -> list[fc.Summary]:
    return [fc.Summary.of_scores([(i + (n == "b") / 2) / 20 for i in range(20)], site=n, **about) for n in "ab"]


SITES = sites(**ABOUT)


def made() -> tuple[Certificate, list[SignatureRecord]]:
    certificate = fc.calibrate(SITES).certificate
    return certificate, [sign(site, KEYS[site.sites[0]]) for site in SITES]


def test_a_signed_predictor_is_still_verified() -> None:
    certificate, records = made()
    named = replace(fc.calibrate(SITES), certificate=signed(certificate, records, TRUSTED))
    assert fc.verify(named, SITES, trusted=TRUSTED) == fc.verify(named, SITES, sealed=True) == []
    assert "signatures: not confirmed" in fc.verify(named, SITES)[0]
    assert "no key is trusted for site 'b'" in fc.verify(named, SITES, trusted={"a": TRUSTED["a"]})[0]  # revoked
    again = fc.Predictor.from_bytes(named.to_bytes()).certificate
    assert again == named.certificate
    assert check_signatures(again, TRUSTED) == []


ANOTHER = "the signature is not one of site 'b' for this file"
Change = Callable[[list[SignatureRecord]], list[SignatureRecord]]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda r: r[:1], "the summary of 'b' is not signed"),
        (lambda r: [r[0], msgspec.structs.replace(r[0], site="b")], "another key than the one that is trusted"),
        (lambda r: [r[0], msgspec.structs.replace(r[1], signature=r[0].signature)], ANOTHER),
        (lambda r: [r[0], msgspec.structs.replace(r[1], signature="zz")], ANOTHER),
        (lambda r: [*r, r[0]], "more signatures than summaries"),
    ],
)
def test_what_does_not_pass(change: Change, problem: str) -> None:
    certificate, records = made()
    with refused(problem):
        signed(certificate, change(records), TRUSTED)


def test_another_summary_does_not_pass() -> None:
    certificate = fc.calibrate([SITES[0], fc.Summary.of_scores([0.5], site="b", **ABOUT)]).certificate
    with refused(ANOTHER):
        signed(certificate, made()[1], TRUSTED)


def test_a_signature_made_for_something_else_does_not_pass() -> None:
    """The same bytes may be signed in another protocol, or by somebody who was asked to sign "this hash"."""
    certificate, records = made()
    digest, key = digest_of(SITES[1]), Ed25519PrivateKey.from_private_bytes(KEYS["b"])
    listed = signatures._summary_data("b", digest, SITES[1].provenance, 0.1).removeprefix(b"fedconformal summary 1 ")
    for bare in (digest.encode(), listed):
        other = msgspec.structs.replace(records[1], signature=key.sign(bare).hex())
        with refused(ANOTHER):
            signed(certificate, [records[0], other], TRUSTED)


def test_keys_must_be_trusted_and_sites_named() -> None:
    certificate, records = made()
    with refused("no key is trusted for site 'b'"):
        signed(certificate, records, {"a": TRUSTED["a"]})
    for summary in (fc.pool(SITES), fc.Summary.of_scores([0.1], alpha=0.1, calibration="june")):
        with refused("only the summary of one named site can be signed"):
            sign(summary, KEYS["a"])
    with refused("a private key has 32 bytes, not 3"):
        sign(SITES[0], b"abc")
    unnamed = fc.calibrate([fc.pool(SITES)]).certificate
    assert "not signed" in check_signatures(unnamed, TRUSTED)[0]


def test_a_summary_of_an_earlier_calibration_does_not_pass() -> None:
    """January's summaries, signed in January, sent again in June."""
    january = sites(**ABOUT | {"calibration": "january"})
    with refused("the signature is not one of site 'a' for this file"):
        signed(made()[0], [sign(site, KEYS[site.sites[0]]) for site in january], TRUSTED)
    with refused("calibration june against january"):
        fc.calibrate([SITES[0], january[1]])


@pytest.mark.parametrize(
    "fields", [{"calibration": "july"}, {"model": "m2"}, {"alpha": 0.2}, {"expires": "2999-02-01"}], ids=str
)
def test_everything_that_is_named_is_signed(fields: dict[str, Any]) -> None:
    certificate, records = made()
    named = signed(certificate, records, TRUSTED)
    assert check_signatures(changed(named, **fields), TRUSTED)


def test_what_names_no_calibration_is_neither_signed_nor_accepted() -> None:
    plain = sites(score=fc.LAC(), model="m")
    with refused("names no calibration"):
        sign(plain[0], KEYS["a"])
    with refused("name no calibration"):
        signed(fc.calibrate(plain).certificate, made()[1], TRUSTED)


def test_the_seal_of_a_predictor() -> None:
    data = fc.calibrate(SITES).to_bytes()
    found = seal(data, KEYS["a"])
    assert is_sealed(data, found, TRUSTED["a"])
    assert not is_sealed(data, found, TRUSTED["b"])
    assert not is_sealed(data, msgspec.structs.replace(found, signature="zz"), TRUSTED["a"])
    assert not is_sealed(data + b" ", found, TRUSTED["a"])
    # A signature of a summary is not one of a predictor, should their digests ever be equal.
    assert not is_sealed(data, Seal(key=TRUSTED["a"], signature=made()[1][0].signature), TRUSTED["a"])
