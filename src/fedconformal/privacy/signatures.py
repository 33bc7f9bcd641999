"""Who sent what: each site signs its summary with a key of its own (Ed25519), and the certificate shows it.

What is signed is the SHA-256 of the summary's bytes, which the certificate lists. So whoever has the certificate and
the sites' public keys can check who sent what, without the summaries. A signature says whose a summary is, not that
it is true.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from fedconformal.certificate import Certificate, SignatureRecord
from fedconformal.errors import InputError
from fedconformal.privacy.extras import needing
from fedconformal.summaries.base import Summary
from fedconformal.validation import name_key

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

PURPOSE = b"fedconformal summary "
"""Signed along, so that a signature for something else can never pass for one of a summary."""


def new_key() -> bytes:
    """Make a private key of 32 bytes; it stays at the site."""
    with needing("secure"):
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    return Ed25519PrivateKey.generate().private_bytes_raw()


def public_key(private: bytes) -> str:
    """Return the public key that belongs to a private one; give it to the coordinator over a channel you trust."""
    return _private(private).public_key().public_bytes_raw().hex()


def sign(summary: Summary, private: bytes) -> SignatureRecord:
    """Sign a summary.

    >>> from fedconformal import summarize
    >>> key = new_key()
    >>> record = sign(summarize([0.1, 0.2], site="clinic-a"), key)
    >>> record.site, record.key == public_key(key)
    ('clinic-a', True)
    """
    if len(summary.sites) != 1:
        raise InputError("only the summary of one named site can be signed; name it with --site")
    signature = _private(private).sign(PURPOSE + summary.digest().encode())
    return SignatureRecord(site=summary.sites[0], key=public_key(private), signature=signature.hex())


def signed(certificate: Certificate, signatures: Sequence[SignatureRecord], trusted: Mapping[str, str]) -> Certificate:
    """Put signatures into a certificate; every site must have signed, with the key that is trusted for it."""
    found = msgspec.structs.replace(certificate, signatures=sorted(signatures, key=lambda record: record.site))
    problems = check_signatures(found, trusted)
    if problems:
        raise InputError(problems[0])
    return found


def check_signatures(certificate: Certificate, trusted: Mapping[str, str]) -> list[str]:
    """Return what is wrong with a certificate's signatures, in words; an empty list if every site signed."""
    records = {name_key(record.site): record for record in certificate.signatures or []}
    names = Counter(map(name_key, trusted))
    problems = [f"there are two keys for site {name!r}" for name, times in names.items() if times > 1]
    trusted = {name_key(name): key for name, key in trusted.items()}
    for summary in certificate.summaries if not problems else ():
        name = name_key(summary.sites[0]) if len(summary.sites) == 1 else None
        if name is None or name not in records:
            problems.append(f"the summary of {name or 'several or unnamed sites'!r} is not signed")
        elif name not in trusted:
            problems.append(f"no key is trusted for site {name!r}")
        elif records[name].key != trusted[name]:
            problems.append(f"site {name!r} signed with another key than the one that is trusted")
        elif not _valid(records[name], summary.sha256):
            problems.append(f"the signature of site {name!r} is not one of its summary")
    if len(records) != len(certificate.signatures or []) or len(records) > len(certificate.summaries):
        problems.append("there are more signatures than summaries")
    return problems


def _valid(record: SignatureRecord, digest: str) -> bool:
    with needing("secure"):
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    try:
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(record.key))
        key.verify(bytes.fromhex(record.signature), PURPOSE + digest.encode())
    except (InvalidSignature, ValueError):
        return False
    return True


def _private(private: bytes) -> Ed25519PrivateKey:
    with needing("secure"):
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    if len(private) != 32:
        raise InputError(f"a private key has 32 bytes, not {len(private)}")
    return Ed25519PrivateKey.from_private_bytes(private)
