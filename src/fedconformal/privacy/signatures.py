"""Private keys, and signatures of summaries, predictors and messages of a watch.

A private key has 32 bytes: Ed25519 for signatures, X25519 for key agreement with a neighbour. `repr` hides it.

A site signs the SHA-256 of its summary with the site, the calibration's id, the model, alpha and the day of expiry, all
of which are in the certificate. A signature proves the origin of a file, not that its content is true.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self, TypeVar

import msgspec

from fedconformal._base.files import read_bytes
from fedconformal._base.names import name_key
from fedconformal.certificates.certificate import Certificate, ProvenanceRecord, SignatureRecord
from fedconformal.errors import InputError, prefix_errors, requires_extra
from fedconformal.summaries import Provenance, Summary
from fedconformal.summaries.summary import digest_of

T = TypeVar("T")

PURPOSE = b"fedconformal summary 1 "
SEAL = b"fedconformal predictor "
WATCHED = b"fedconformal watch "

Key = Annotated[bytes, msgspec.Meta(min_length=32, max_length=32)]


class SecretKey(msgspec.Struct, array_like=True, forbid_unknown_fields=True, frozen=True, dict=True):
    """A private key; its key object is cached, because creating it takes as long as a signature."""

    kind: ClassVar[str]

    raw: Key

    def __post_init__(self) -> None:
        if len(self.raw) != 32:
            raise InputError(f"a private key has 32 bytes, not {len(self.raw)}")

    @classmethod
    def new(cls) -> Self:
        """Return a new key."""
        return cls(_private(cls.kind).generate().private_bytes_raw())

    @cached_property
    def _key(self) -> Any:
        return _private(self.kind).from_private_bytes(self.raw)

    @property
    def public(self) -> bytes:
        """The public key."""
        return bytes(self._key.public_key().public_bytes_raw())

    def __repr__(self) -> str:
        """Hide the key."""
        return f"{type(self).__name__}(...)"


def _private(kind: str) -> Any:
    with requires_extra("secure"):
        from cryptography.hazmat.primitives.asymmetric import ed25519, x25519
    return ed25519.Ed25519PrivateKey if kind == "Ed25519" else x25519.X25519PrivateKey


class SigningKey(SecretKey, frozen=True):
    """An Ed25519 key.

    >>> key = SigningKey.new()
    >>> key, is_signed(b"data", key.sign(b"data"), key.public), is_signed(b"other", key.sign(b"data"), key.public)
    (SigningKey(...), True, False)
    """

    kind = "Ed25519"

    def sign(self, data: bytes) -> bytes:
        """Return the signature."""
        return bytes(self._key.sign(data))


class MaskingKey(SecretKey, frozen=True):
    """An X25519 key.

    >>> first, second = MaskingKey.new(), MaskingKey.new()
    >>> first.agreed_with(second.public) == second.agreed_with(first.public)
    True
    """

    kind = "X25519"

    def agreed_with(self, public: bytes) -> bytes:
        """Return the shared secret; a public key of small order is refused."""
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

        try:
            return bytes(self._key.exchange(X25519PublicKey.from_public_bytes(public)))
        except ValueError:
            raise InputError("a public key for masks is of small order, and hides nothing: make a new one") from None


def is_signed(data: bytes, signature: bytes, public: bytes) -> bool:
    """Return whether a signature by an Ed25519 key is valid."""
    with requires_extra("secure"):
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, data)
    except (InvalidSignature, ValueError):
        return False
    return True


class Seal(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The coordinator's public key and its signature of a predictor, both in hexadecimal."""

    key: str
    signature: str


def new_id() -> str:
    """Return a random id of a calibration; the coordinator creates it and gives it to every site."""
    return secrets.token_hex(16)


def new_key() -> bytes:
    """Return a new private key of 32 bytes, which stays at the site."""
    return SigningKey.new().raw


def public_key(private: bytes) -> str:
    """Return the public key of a private key; give it to the coordinator over a trusted channel."""
    return SigningKey(private).public.hex()


def read_trusted(path: Path) -> dict[str, str]:
    """Read the sites' public keys, by site, from a JSON file."""
    with prefix_errors(path):
        return decode_json(read_bytes(path), dict[str, str], "public keys by site")


def decode_json(data: bytes, kind: type[T], what: str) -> T:
    """Read a file of keys or signatures."""
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"not {what}: {error}") from None


def sign(summary: Summary, private: bytes) -> SignatureRecord:
    """Sign a summary.

    Parameters
    ----------
    summary
        The summary of one site, for a named calibration.
    private
        The private key of the site.

    Returns
    -------
    SignatureRecord

    Examples
    --------
    >>> from fedconformal import Summary
    >>> key = new_key()
    >>> record = sign(Summary.of_scores([0.1, 0.2], site="clinic-a", alpha=0.1, calibration=new_id()), key)
    >>> record.site, record.key == public_key(key)
    ('clinic-a', True)
    """
    if len(summary.sites) != 1:
        raise InputError("only the summary of one named site can be signed; name it when you summarise")
    (site,), provenance = summary.sites, summary.provenance
    if provenance.calibration is None or provenance.alpha is None:
        raise InputError(
            "the summary names no calibration, so a signature would be valid for any later one; "
            "summarise again with the id and the alpha that the coordinator gave you (calibration=)"
        )
    return _record(site, _summary_data(site, digest_of(summary), provenance, provenance.alpha), private)


def sign_periods(site: str, periods: bytes, private: bytes) -> SignatureRecord:
    """Sign the file of a site's watch, which holds its counts, the predictor and the days.

    >>> key = new_key()
    >>> record = sign_periods("clinic-a", b"...", key)
    >>> check_periods(record, "clinic-a", b"...", {"clinic-a": public_key(key)})
    >>> check_periods(record, "clinic-b", b"...", {"clinic-b": public_key(key)})
    "the signature is not one of site 'clinic-b' for this file"
    """
    return _record(site, _watch_data(site, periods), private)


def seal(predictor: bytes, private: bytes) -> Seal:
    """Sign the bytes of a predictor as its coordinator; `is_sealed` verifies the signature.

    Examples
    --------
    >>> key = new_key()
    >>> is_sealed(b"...", seal(b"...", key), public_key(key)), is_sealed(b"..", seal(b"...", key), public_key(key))
    (True, False)
    """
    return Seal(key=public_key(private), signature=SigningKey(private).sign(_predictor_data(predictor)).hex())


def is_sealed(predictor: bytes, record: Seal, coordinator: str) -> bool:
    """Whether the coordinator with this public key signed these bytes of a predictor."""
    return record.key == coordinator and _valid(record, _predictor_data(predictor))


def check_periods(record: SignatureRecord, site: str, periods: bytes, trusted: Mapping[str, str]) -> str | None:
    """Return a description of the problem with the signature of a watch's file; None if it is valid."""
    return _problem(record, site, _watch_data(site, periods), keys_by_site(trusted))


def signed(certificate: Certificate, signatures: Sequence[SignatureRecord], trusted: Mapping[str, str]) -> Certificate:
    """Return a certificate with signatures; every site must have signed with the key trusted for it.

    Parameters
    ----------
    certificate
        The certificate of a named calibration.
    signatures
        Signatures of its summaries, by `sign`.
    trusted
        Public keys by site.
    """
    if certificate.provenance.calibration is None:
        raise InputError(
            "the summaries name no calibration, so old ones could be sent again; make an id with "
            "new_id and summarise for it"
        )
    by_site = {name_key(record.site): record for record in signatures}
    summaries = [
        msgspec.structs.replace(s, signature=by_site.get(name_key(s.sites[0])) if len(s.sites) == 1 else None)
        for s in certificate.summaries
    ]
    result = msgspec.structs.replace(certificate, summaries=summaries)
    problems = check_signatures(result, trusted)
    if len(signatures) > len(certificate.summaries):
        problems.append("there are more signatures than summaries")
    if problems:
        raise InputError(problems[0])
    return result


def check_signatures(certificate: Certificate, trusted: Mapping[str, str]) -> list[str]:
    """Return descriptions of the problems with a certificate's signatures; empty if every site signed."""
    problems: list[str | None] = []
    keys = keys_by_site(trusted)
    for summary in certificate.summaries:
        if len(summary.sites) != 1 or summary.signature is None:
            label = repr(summary.sites[0]) if len(summary.sites) == 1 else "several or unnamed sites"
            problems.append(f"the summary of {label} is not signed")
        else:
            (site,) = summary.sites
            data = _summary_data(site, summary.sha256, certificate.provenance, certificate.alpha)
            problems.append(_problem(summary.signature, site, data, keys))
    return [problem for problem in problems if problem is not None]


def keys_by_site(trusted: Mapping[str, str]) -> dict[str, str]:
    """Return trusted keys by normalised site name; two keys for one site are refused."""
    keys = {name_key(name): key for name, key in trusted.items()}
    if len(keys) < len(trusted):
        raise InputError("there are two keys for one site among those that are trusted")
    return keys


def _problem(record: SignatureRecord, site: str, data: bytes, trusted: Mapping[str, str]) -> str | None:
    """Return why a record is not a site's valid signature of these bytes, or None."""
    key = trusted.get(name_key(site))
    if key is None:
        return f"no key is trusted for site {site!r}"
    if record.key != key:
        return f"site {site!r} signed with another key than the one that is trusted"
    if name_key(record.site) != name_key(site) or not _valid(record, data):
        return f"the signature is not one of site {site!r} for this file"
    return None


def _summary_data(site: str, digest: str, provenance: Provenance | ProvenanceRecord, alpha: Any) -> bytes:
    bound = [provenance.calibration, provenance.model, None if alpha is None else float(alpha), provenance.expires]
    return PURPOSE + json.dumps([name_key(site), digest, *bound]).encode()


def _watch_data(site: str, periods: bytes) -> bytes:
    return WATCHED + json.dumps([name_key(site), hashlib.sha256(periods).hexdigest()]).encode()


def _predictor_data(predictor: bytes) -> bytes:
    return SEAL + hashlib.sha256(predictor).hexdigest().encode()


def _record(site: str, data: bytes, private: bytes) -> SignatureRecord:
    return SignatureRecord(site=site, key=public_key(private), signature=SigningKey(private).sign(data).hex())


def _valid(record: SignatureRecord | Seal, data: bytes) -> bool:
    try:
        return is_signed(data, bytes.fromhex(record.signature), bytes.fromhex(record.key))
    except ValueError:
        return False
