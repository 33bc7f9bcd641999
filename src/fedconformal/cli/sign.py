"""fedconformal sign: at a site, sign a summary, so that the certificate shows who sent it; or a predictor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from fedconformal._base.files import read_bytes, write_bytes
from fedconformal._base.names import join_names
from fedconformal.calibration.predictor import Predictor
from fedconformal.certificates.certificate import SignatureRecord
from fedconformal.cli.console import print_result
from fedconformal.cli.inputs import Json
from fedconformal.cli.outputs import check_output
from fedconformal.errors import InputError, prefix_errors
from fedconformal.privacy import signatures
from fedconformal.summaries.summary import Summary

if TYPE_CHECKING:
    from fedconformal.monitoring.messages import Period

Trusted = Annotated[
    Path | None,
    typer.Option("--signed", metavar="KEYS", help='The sites\' public keys, {"site": "hex"} (.json); all must sign.'),
]
CalibrationId = Annotated[
    str | None,
    typer.Option("--calibration", metavar="ID", help="The id of this calibration (calibrate --new-id makes one)."),
]


def sign(
    file: Annotated[
        Path,
        typer.Argument(help="A site's own summary (.fcs) or periods (.fcw), or the coordinator's predictor (.json)."),
    ],
    key: Annotated[Path, typer.Option(help="The private key; never send it.")],
    new_key: Annotated[bool, typer.Option("--new-key", help="Make the key first.")] = False,
    json: Json = False,
) -> None:
    """Sign a site's file, or a predictor as its coordinator; the signature is written to FILE.sig."""
    output = beside(file)
    check_output(output, file, key)
    data = read_bytes(file)
    with prefix_errors(file):
        made = _signing(file, data)
    if new_key:
        _make_key(key)
    with prefix_errors(key):
        private = read_bytes(key)
        public = signatures.public_key(private)
    with prefix_errors(file):
        record = made(private)
    write_bytes(output, msgspec.json.encode(record) + b"\n")
    who = record.site if isinstance(record, SignatureRecord) else "coordinator"
    print_result(
        {"signature": str(output), "site": None if isinstance(record, signatures.Seal) else who, "public_key": public},
        f"wrote {output}: send it along with {file}",
        f"public key of {who!r}: {public}",
        json=json,
    )


def _signing(file: Path, data: bytes) -> Callable[[bytes], SignatureRecord | signatures.Seal]:
    """Check a file, and return what signs it with a private key."""
    if file.suffix == ".json":
        Predictor.from_bytes(data)
        return partial(signatures.seal, data)
    if file.suffix == ".fcw":
        from fedconformal.monitoring.messages import (
            read_periods,  # which calibrate, with options from here, does not need
        )

        return partial(signatures.sign_periods, one_site(read_periods(data)), data)
    summary = Summary.from_bytes(data)
    if summary.provenance.calibration is None:
        raise InputError(
            "does not say which calibration it is for, so a signature would pass in any later one; "
            "summarise again with --calibration ID, which the coordinator makes with calibrate --new-id"
        )
    return partial(signatures.sign, summary)


def one_site(periods: Sequence[Period]) -> str:
    """Return the site whose messages these are."""
    sites = sorted({period.site for period in periods})
    if len(sites) != 1:
        raise InputError(f"holds messages of {join_names(sites)}; only those of one site can be signed")
    return sites[0]


def _make_key(path: Path) -> None:
    if path.exists():
        raise InputError(f"{path}: exists; leave out --new-key to sign with it")
    write_bytes(path, signatures.new_key(), private=True)


def beside(file: Path) -> Path:
    """Return where the signature of a file is."""
    return file.with_name(file.name + ".sig")


def is_signed_by(predictor: Path, data: bytes, coordinator: str) -> bool:
    """Whether the signature beside the predictor is the coordinator's, of these bytes."""
    path = beside(predictor)
    with prefix_errors(path):
        return signatures.is_sealed(
            data, signatures.decode_json(read_bytes(path), signatures.Seal, "a signature"), coordinator
        )


def check_options(signed: Path | None, calibration: str | None, *, private: bool, noisy: bool) -> None:
    """Refuse options of calibrate that do not go together."""
    if signed is not None and private:
        raise InputError("--signed does not go with --privacy, which withholds what was signed")
    if signed is not None and calibration is None:
        raise InputError("--signed needs --calibration ID, or old summaries pass again; calibrate --new-id makes one")
    if calibration is not None and noisy:
        raise InputError("--calibration does not go with --privacy local, whose files name no calibration")


def check_calibration(summaries: Sequence[Summary], paths: Sequence[Path], wanted: str) -> None:
    """Refuse summaries that were made for another calibration, or for any."""
    for summary, path in zip(summaries, paths, strict=True):
        if summary.provenance.calibration != wanted:
            stated = summary.provenance.calibration
            made = "names no calibration" if stated is None else f"was made for the calibration {stated}"
            raise InputError(f"{path}: {made}, not for {wanted}; ask the site to summarise with --calibration {wanted}")


def signature_of(file: Path) -> SignatureRecord:
    """Read the signature of a site, which is beside its file."""
    path = beside(file)
    if not path.exists():
        raise InputError(f"{path}: is not there; the site makes it with fedconformal sign")
    with prefix_errors(path):
        return signatures.decode_json(read_bytes(path), SignatureRecord, "a signature")


def with_signatures(result: Any, summaries: Sequence[Path], trusted: Path) -> Any:
    """Check the signatures beside the summaries, and put them into the certificate."""
    records = [signature_of(path) for path in summaries]
    return replace(result, certificate=signatures.signed(result.certificate, records, signatures.read_trusted(trusted)))
