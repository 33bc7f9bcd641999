"""Certificates and node keys for trying a deployment; a real one has its own authority.

The authority's key is used once and not written. A node proves who it is with an EC P-384 key in OpenSSH's format.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import ipaddress
import os
import re
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from fedconformal._base.names import abbreviate
from fedconformal.errors import InputError

DAYS = 90
ENCODING, PRIVATE, NO_PASSWORD = serialization.Encoding, serialization.PrivateFormat, serialization.NoEncryption()


def make_certs(folder: Path, nodes: int, hosts: Sequence[str] = ("127.0.0.1", "localhost")) -> list[Path]:
    """Write ca.crt, server.pem and server.key, and for every node a key and what the SuperLink gets to see of it.

    Args:
        folder: not there yet, or empty.
        nodes: how many keys.
        hosts: names and addresses by which nodes reach the SuperLink.
    """
    if nodes < 1:
        raise InputError(f"nodes is {nodes}, expected at least 1")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder}: is there already; choose another directory")
    authority, server = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    ca = _certificate(authority, authority, "fedconformal trial authority", None)
    certificate = _certificate(server, authority, "fedconformal trial server", hosts)
    key = server.private_bytes(ENCODING.PEM, PRIVATE.PKCS8, NO_PASSWORD)
    files = {
        "ca.crt": ca.public_bytes(ENCODING.PEM),
        "server.pem": certificate.public_bytes(ENCODING.PEM),
        "server.key": key,
    }
    for number in range(nodes):
        node = ec.generate_private_key(ec.SECP384R1())
        files[f"node-{number}"] = node.private_bytes(ENCODING.PEM, PRIVATE.OpenSSH, NO_PASSWORD)
        public = node.public_key().public_bytes(ENCODING.OpenSSH, serialization.PublicFormat.OpenSSH)
        files[f"node-{number}.pub"] = public + b"\n"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for name, content in files.items():
            # Nobody else may read a file, from its first byte on.
            with os.fdopen(os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(content)
    except OSError as error:
        raise InputError(f"{folder}: cannot be written ({error.strerror}); choose another directory") from None
    return [folder / name for name in files]


def _certificate(
    key: ec.EllipticCurvePrivateKey, authority: ec.EllipticCurvePrivateKey, name: str, hosts: Sequence[str] | None
) -> x509.Certificate:
    """Sign a server's certificate for these hosts, or, without hosts, the authority's own."""
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "fedconformal trial authority")])
    now = dt.datetime.now(dt.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(minutes=5))
        .not_valid_after(now + dt.timedelta(days=DAYS))
        .add_extension(x509.BasicConstraints(ca=hosts is None, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key()), critical=False)
    )
    if hosts is not None:
        builder = builder.add_extension(x509.SubjectAlternativeName([_host(host) for host in hosts]), critical=False)
    return builder.sign(authority, hashes.SHA256())


def _host(host: str) -> x509.GeneralName:
    with contextlib.suppress(ValueError):
        return x509.IPAddress(ipaddress.ip_address(host))
    if not re.fullmatch(r"[A-Za-z0-9*]([A-Za-z0-9.-]*[A-Za-z0-9])?", host):
        raise InputError(
            f"host is {abbreviate(host)!r}, expected a name or an address, such as link.example or 10.0.0.7"
        )
    return x509.DNSName(host)
