"""Certificates and node keys for trying a deployment; a real one has its own authority.

The authority's key is used once and not written. A node proves who it is with an EC P-384 key in OpenSSH's format.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
import os
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

DAYS = 90
ENCODING, PRIVATE, NO_PASSWORD = serialization.Encoding, serialization.PrivateFormat, serialization.NoEncryption()


def make_certs(folder: Path, nodes: int) -> None:
    """Write ca.crt, server.pem and server.key, and for every node a key and its public half, into a new folder."""
    authority, server = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    ca = _certificate(authority, authority, "fedconformal trial authority")
    certificate = _certificate(server, authority, "fedconformal trial server", loopback=True)
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
    folder.mkdir(mode=0o700)
    for name, content in files.items():
        # Nobody else may read a file, from its first byte on.
        with os.fdopen(os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content)


def _certificate(
    key: ec.EllipticCurvePrivateKey, authority: ec.EllipticCurvePrivateKey, name: str, *, loopback: bool = False
) -> x509.Certificate:
    """Sign the certificate of a server on loopback, or the authority's own."""
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
        .add_extension(x509.BasicConstraints(ca=not loopback, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key()), critical=False)
    )
    if loopback:
        hosts = x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("localhost")
        builder = builder.add_extension(x509.SubjectAlternativeName(hosts), critical=False)
    return builder.sign(authority, hashes.SHA256())
