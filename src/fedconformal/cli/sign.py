"""fedconformal sign: at a site, sign a summary, so that the certificate shows who sent it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec
import typer

from fedconformal.calibration import Calibration
from fedconformal.certificate import SignatureRecord
from fedconformal.cli.console import print_json, say
from fedconformal.cli.inputs import Json, check_output
from fedconformal.errors import InputError
from fedconformal.files import naming, read_bytes, write_bytes
from fedconformal.privacy import signatures
from fedconformal.summaries.base import Summary

T = TypeVar("T")

Trusted = Annotated[
    Path | None,
    typer.Option("--signed", metavar="KEYS", help='The sites\' public keys, {"site": "hex"} (.json); all must sign.'),
]


def sign(
    summary: Annotated[Path, typer.Argument(help="The site's own summary (.fcs).")],
    key: Annotated[Path, typer.Option(help="The site's private key; never send it.")],
    new_key: Annotated[bool, typer.Option("--new-key", help="Make the key first.")] = False,
    json: Json = False,
) -> None:
    """Sign a summary; the signature is written beside it, as SUMMARY.sig."""
    output = beside(summary)
    check_output(output, summary, key)
    data = read_bytes(summary)
    with naming(summary):
        found = Summary.from_bytes(data)
    if new_key:
        _make_key(key)
    with naming(key):
        private = read_bytes(key)
        public = signatures.public_key(private)
    with naming(summary):
        record = signatures.sign(found, private)
    write_bytes(output, msgspec.json.encode(record) + b"\n")
    if json:
        print_json({"signature": str(output), "site": record.site, "public_key": public})
        return
    say(f"wrote {output}: send it along with {summary}")
    say(f"public key of {record.site!r}: {public}")


def _make_key(path: Path) -> None:
    if path.exists():
        raise InputError(f"{path}: exists; leave out --new-key to sign with it")
    write_bytes(path, signatures.new_key(), private=True)


def beside(summary: Path) -> Path:
    """Return where the signature of a summary lies."""
    return summary.with_name(summary.name + ".sig")


def read_trusted(path: Path) -> dict[str, str]:
    """Read the sites' public keys."""
    with naming(path):
        return _decode(read_bytes(path), dict[str, str], "public keys by site")


def with_signatures(result: Calibration, summaries: Sequence[Path], trusted: Path) -> Calibration:
    """Check the signatures that lie beside the summaries, and put them into the certificate."""
    if result.certificate.privacy is not None:
        raise InputError("--signed does not go with --privacy, which withholds what was signed")
    records = []
    for path in map(beside, summaries):
        if not path.exists():
            raise InputError(f"{path}: is not there; the site makes it with fedconformal sign")
        with naming(path):
            records.append(_decode(read_bytes(path), SignatureRecord, "a signature"))
    return replace(result, certificate=signatures.signed(result.certificate, records, read_trusted(trusted)))


def _decode(data: bytes, kind: type[T], what: str) -> T:
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"not {what}: {error}") from None
