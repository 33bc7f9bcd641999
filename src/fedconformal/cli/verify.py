"""fedconformal verify: does the predictor follow from these summaries, to the last byte?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedconformal._base.files import read_bytes
from fedconformal.calibration.predictor import Predictor, load
from fedconformal.certificates import text
from fedconformal.certificates.certificate import Certificate
from fedconformal.cli.console import logger, print_result
from fedconformal.cli.options import Json, expand_wildcards, read_summaries
from fedconformal.cli.privacy import read_noisy
from fedconformal.cli.sign import Trusted, is_signed_by, signature_path
from fedconformal.errors import AlteredError, InputError, prefix_errors
from fedconformal.privacy.local_dp import NoisyHistogram
from fedconformal.privacy.signatures import read_trusted
from fedconformal.summaries.format import NOISY
from fedconformal.summaries.provenance import has_expired
from fedconformal.summaries.summary import Summary
from fedconformal.verification import verify as verify_predictor

REFORMATTED = "the file was reformatted: it says the same, but not in the same bytes"


def verify(
    predictor: Annotated[Path, typer.Argument(help="The predictor (.json).")],
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
    """Recompute the certificate from the summaries; exit code 1 if anything differs or cannot be confirmed."""
    data, given = read_bytes(predictor), summaries or []
    sealed = coordinator is not None and is_signed_by(predictor, data, coordinator)
    trusted = None if signed is None else read_trusted(signed)
    older = None if replaces is None else load(replaces)
    try:
        with prefix_errors(predictor):
            found = Predictor.from_bytes(data)
    except AlteredError as error:
        _read(given)
        problems = [str(error)]
    else:
        if not given and found.certificate.privacy is None:
            raise InputError(f"{predictor}: give the summaries that it was made from as well")
        problems = verify_predictor(found, _read(given), trusted=trusted, sealed=sealed, older=older)
        if not problems and found.to_bytes() != data:
            problems = [REFORMATTED]
        problems = [f"{predictor}: {one}" for one in problems]
        if not problems:
            _warn(found.certificate)
    if coordinator is not None and not sealed:
        signature = signature_path(predictor)
        problems.append(f"{predictor}: {signature} is not the signature of this coordinator for this predictor")
    plain = [one.removeprefix(f"{predictor}: ") for one in problems]
    facts = {"predictor": str(predictor), "confirmed": not problems, "problems": plain}
    print_result(facts, *(problems or [f"{predictor}: confirmed from {len(given)} summaries"]), json=json)
    if problems:
        raise typer.Exit(1)


def _read(summaries: list[Path]) -> list[Summary] | list[NoisyHistogram]:
    noisy = bool(summaries) and read_bytes(summaries[0])[: len(NOISY)] == NOISY
    return read_noisy(summaries) if noisy else read_summaries(summaries)


def _warn(certificate: Certificate) -> None:
    """Warn of an expired certificate and of sites that outweigh the others."""
    if has_expired(certificate.provenance.expires):
        logger.warning(
            "the certificate expired on %s; it is right, and no longer to be used", certificate.provenance.expires
        )
    for site, share in certificate.heavy_sites.items():
        logger.warning("%s", text.heavy_site(site, share))
