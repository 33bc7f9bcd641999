"""fedconformal sign: at a site, sign a summary, so that the certificate shows who sent it; or a predictor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from fedconformal._base.files import read_bytes, write_bytes
from fedconformal._base.names import join_names
from fedconformal.calibration.predictor import Predictor
from fedconformal.certificates.certificate import SignatureRecord
from fedconformal.cli.console import print_result
from fedconformal.cli.options import Json
from fedconformal.cli.outputs import check_output
from fedconformal.errors import InputError, prefix_errors
from fedconformal.monitoring.messages import Period, read_periods
from fedconformal.privacy import signatures
from fedconformal.summaries.summary import Summary

Trusted = Annotated[
    Path | None,
    typer.Option("--signed", metavar="KEYS", help="The sites' public keys (.json); all must sign."),
]
CalibrationId = Annotated[
    str | None,
    typer.Option("--calibration", metavar="ID", help="Id of this calibration, such as lungs-2027-06."),
]


def sign(
    file: Annotated[
        Path | None,
        typer.Argument(help="A site's own summary (.fcs) or periods (.fcw), or the coordinator's predictor (.json)."),
    ] = None,
    *,
    key: Annotated[Path, typer.Option(help="The private key; never send it.")],
    new_key: Annotated[bool, typer.Option("--new-key", help="Make the key first.")] = False,
    json: Json = False,
) -> None:
    """Sign a site's file, or a predictor as its coordinator, in FILE.sig; without FILE, show the public key."""
    data, signer = b"", None
    if file is not None:
        check_output(signature_path(file), file, key)
        data = read_bytes(file)
        with prefix_errors(file):
            signer = _signer(file, data)
    if new_key:
        if key.exists():
            raise InputError(f"{key}: exists; leave out --new-key to sign with it")
        write_bytes(key, signatures.new_key(), private=True)
    with prefix_errors(key):
        private = read_bytes(key)
        public = signatures.public_key(private)
    if file is None or signer is None:
        print_result({"key": str(key), "public_key": public}, f"public key of {key}: {public}", json=json)
        return
    with prefix_errors(file):
        record = signer(private)
    output = signature_path(file)
    write_bytes(output, msgspec.json.encode(record) + b"\n")
    who = record.site if isinstance(record, SignatureRecord) else "coordinator"
    print_result(
        {"signature": str(output), "site": None if isinstance(record, signatures.Seal) else who, "public_key": public},
        f"wrote {output}: send it along with {file}",
        f"public key of {who!r}: {public}",
        json=json,
    )


def _signer(file: Path, data: bytes) -> Callable[[bytes], SignatureRecord | signatures.Seal]:
    """Check a file, and return the function that signs it with a private key."""
    if file.suffix == ".json":
        Predictor.from_bytes(data)
        return partial(signatures.seal, data)
    if file.suffix == ".fcw":
        return partial(signatures.sign_periods, one_site(read_periods(data)), data)
    summary = Summary.from_bytes(data)
    if summary.provenance.calibration is None:
        raise InputError(
            "does not say which calibration it is for, so a signature would pass in any later one; "
            "summarise again with --calibration ID, which the coordinator chooses"
        )
    return partial(signatures.sign, summary)


def one_site(periods: Sequence[Period]) -> str:
    """Return the site whose messages these are."""
    sites = sorted({period.site for period in periods})
    if len(sites) != 1:
        raise InputError(f"holds messages of {join_names(sites)}; only those of one site can be signed")
    return sites[0]


def signature_path(file: Path) -> Path:
    """Return where the signature of a file is."""
    return file.with_name(file.name + ".sig")


def is_signed_by(predictor: Path, data: bytes, coordinator: str) -> bool:
    """Whether the signature beside the predictor is the coordinator's, of these bytes."""
    path = signature_path(predictor)
    with prefix_errors(path):
        found = signatures.decode_json(read_bytes(path), signatures.Seal, "a signature")
        return signatures.is_sealed(data, found, coordinator)


def check_calibration(summaries: Sequence[Summary], paths: Sequence[Path], wanted: str) -> None:
    """Refuse summaries that were made for another calibration, or for any."""
    for summary, path in zip(summaries, paths, strict=True):
        stated = summary.provenance.calibration
        if stated != wanted:
            made = "names no calibration" if stated is None else f"was made for the calibration {stated}"
            raise InputError(f"{path}: {made}, not for {wanted}; ask the site to summarise with --calibration {wanted}")


def signature_of(file: Path) -> SignatureRecord:
    """Read the signature of a site, which is beside its file."""
    path = signature_path(file)
    if not path.exists():
        raise InputError(f"{path}: is not there; the site makes it with fedconformal sign")
    with prefix_errors(path):
        return signatures.decode_json(read_bytes(path), SignatureRecord, "a signature")


def with_signatures(predictor: Predictor, summaries: Sequence[Path], trusted: Path) -> Any:
    """Check the signatures beside the summaries, and put them into the certificate."""
    records = [signature_of(path) for path in summaries]
    known = signatures.read_trusted(trusted)
    return replace(predictor, certificate=signatures.signed(predictor.certificate, records, known))
