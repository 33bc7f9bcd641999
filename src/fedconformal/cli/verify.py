"""fedconformal sign and verify: signatures of files, and recomputation of a predictor from its summaries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from fedconformal._base.files import read_bytes, write_bytes
from fedconformal._base.names import join_names
from fedconformal.calibration.predictor import Predictor
from fedconformal.certificates.certificate import SignatureRecord
from fedconformal.certificates.text import warn_of_sites
from fedconformal.cli.console import print_result
from fedconformal.cli.options import (
    Json,
    PredictorFile,
    Trusted,
    check_output,
    expand_wildcards,
    load_predictor,
    read_noisy,
    read_predictor,
    read_summaries,
    warn_of_expiry,
)
from fedconformal.errors import AlteredError, InputError, prefix_errors
from fedconformal.monitoring.messages import Period, read_periods
from fedconformal.privacy import signatures
from fedconformal.summaries.summary import Summary
from fedconformal.verification import verify as verify_predictor


def sign(
    file: Annotated[
        Path | None,
        typer.Argument(help="A site's own summary (.fcs) or periods (.fcw), or the coordinator's predictor (.json)."),
    ] = None,
    *,
    key: Annotated[Path, typer.Option(help="The private key; never send it.")],
    new_key: Annotated[bool, typer.Option("--new-key", help="Create the key first.")] = False,
    json: Json = False,
) -> None:
    """Sign a file in FILE.sig; without FILE, show the public key."""
    signer = None
    if file is not None:
        check_output(_signature_path(file), file, key)
        with prefix_errors(file):
            signer = _signer(file, read_bytes(file))
    if new_key:
        if key.exists():
            raise InputError(f"{key}: exists; leave out --new-key to sign with it")
        write_bytes(key, signatures.new_key(), private=True)
    if not key.exists():
        raise InputError(f"{key}: does not exist; --new-key creates it")
    with prefix_errors(key):
        private = read_bytes(key)
        public = signatures.public_key(private)
    if file is None or signer is None:
        print_result({"public_key": public}, f"public key of {key}: {public}", json=json)
        return
    with prefix_errors(file):
        record = signer(private)
    output, site = _signature_path(file), record.site if isinstance(record, SignatureRecord) else None
    write_bytes(output, msgspec.json.encode(record) + b"\n")
    lines = [f"wrote {output}: send it along with {file}", f"public key of {site or 'coordinator'!r}: {public}"]
    print_result({"public_key": public, "signature": output, "site": site}, *lines, json=json)


def verify(
    predictor: PredictorFile,
    summaries: Annotated[
        list[Path] | None,
        typer.Argument(help="The .fcs or .fcn files it was made from, in any order.", callback=expand_wildcards),
    ] = None,
    signed: Trusted = None,
    coordinator: Annotated[
        str | None,
        typer.Option(metavar="KEY", help="The coordinator's public key; its signature is read from PREDICTOR.sig."),
    ] = None,
    replaces: Annotated[
        Path | None, typer.Option(metavar="OLD.json", help="The predictor that it replaces, to compare the digest.")
    ] = None,
    json: Json = False,
) -> None:
    """Recompute a certificate; exit code 1 if it is not confirmed."""
    if coordinator is not None and (len(coordinator) != 64 or coordinator.strip("0123456789abcdef")):
        raise InputError("--coordinator: expected a public key of 64 hexadecimal digits, as sign shows it")
    data, given = read_predictor(predictor), summaries or []
    sealed = coordinator is not None and _is_signed_by(predictor, data, coordinator)
    trusted = None if signed is None else signatures.read_trusted(signed)
    older = None if replaces is None else load_predictor(replaces)
    received = read_noisy(given) or read_summaries(given)
    try:
        found = Predictor.from_bytes(data)
    except AlteredError as error:
        problems = [str(error)]
    except InputError as error:
        raise InputError(f"{predictor}: {error}") from None
    else:
        if not given and found.certificate.privacy is None:
            raise InputError(f"{predictor}: give the summaries that it was made from as well")
        problems = verify_predictor(found, received, trusted=trusted, sealed=sealed, older=older)
        if not problems and found.to_bytes() != data:
            problems = ["the file was reformatted: same content, other bytes"]
        if not problems:
            warn_of_expiry(found)
            warn_of_sites(found.certificate)
    if coordinator is not None and not sealed:
        problems.append(f"{_signature_path(predictor)} is not the signature of this coordinator for this predictor")
    lines = problems or [f"confirmed from {len(given)} summar{'y' if len(given) == 1 else 'ies'}"]
    record = {"predictor": predictor, "confirmed": not problems, "problems": problems}
    print_result(record, *(f"{predictor}: {line}" for line in lines), json=json)
    if problems:
        raise typer.Exit(1)


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
            "names no calibration, so a signature would be valid for any later one; "
            "summarise again with --calibration ID, which the coordinator chooses"
        )
    return partial(signatures.sign, summary)


def one_site(periods: Sequence[Period]) -> str:
    """Return the site whose messages these are."""
    sites = sorted({period.site for period in periods})
    if len(sites) != 1:
        raise InputError(f"holds messages of {join_names(sites)}; only those of one site can be signed")
    return sites[0]


def _signature_path(file: Path) -> Path:
    return file.with_name(file.name + ".sig")


def _is_signed_by(predictor: Path, data: bytes, coordinator: str) -> bool:
    """Whether the file next to the predictor is the coordinator's signature of these bytes."""
    path = _signature_path(predictor)
    with prefix_errors(path):
        found = signatures.decode_json(read_bytes(path), signatures.Seal, "a signature")
        return signatures.is_sealed(data, found, coordinator)


def check_calibration(summaries: Sequence[Summary], paths: Sequence[Path], wanted: str) -> None:
    """Refuse summaries for another calibration, or for none in particular."""
    for summary, path in zip(summaries, paths, strict=True):
        stated = summary.provenance.calibration
        if stated != wanted:
            made = "names no calibration" if stated is None else f"was made for the calibration {stated}"
            raise InputError(f"{path}: {made}, not for {wanted}; ask the site to summarise with --calibration {wanted}")


def signature_of(file: Path) -> SignatureRecord:
    """Read the signature of a site, from the file next to its summary."""
    path = _signature_path(file)
    if not path.exists():
        raise InputError(f"{path}: does not exist; the site creates it with fedconformal sign")
    with prefix_errors(path):
        return signatures.decode_json(read_bytes(path), SignatureRecord, "a signature")


def with_signatures(predictor: Predictor, summaries: Sequence[Path], trusted: Path) -> Predictor:
    """Check the signatures beside the summaries, and put them into the certificate."""
    records = [signature_of(path) for path in summaries]
    known = signatures.read_trusted(trusted)
    return replace(predictor, certificate=signatures.signed(predictor.certificate, records, known))
