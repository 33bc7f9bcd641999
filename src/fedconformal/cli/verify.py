"""fedconformal verify: does the predictor follow from these summaries, to the last byte?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from fedconformal._base.files import naming, read_bytes
from fedconformal.calibration.certificate import Certificate, heavy_sites, heavy_warning, site_names
from fedconformal.calibration.document import read_document
from fedconformal.cli.console import logger, print_result
from fedconformal.cli.differential import read_noisy
from fedconformal.cli.inputs import Json, read_summaries
from fedconformal.cli.sign import Trusted, beside, is_signed_by
from fedconformal.errors import AlteredError, InputError
from fedconformal.privacy.signatures import read_trusted
from fedconformal.summaries.origin import has_expired
from fedconformal.summaries.wire import NOISY
from fedconformal.verification import verify as verify_predictor


def verify(
    predictor: Annotated[Path, typer.Argument(help="The predictor (.json).")],
    summaries: Annotated[
        list[Path] | None, typer.Argument(help="The .fcs or .fcn files it was made from, in any order.")
    ] = None,
    signed: Trusted = None,
    coordinator: Annotated[
        str | None,
        typer.Option(metavar="KEY", help="The coordinator's public key; its signature is read from PREDICTOR.sig."),
    ] = None,
    json: Json = False,
) -> None:
    """Recompute the certificate from the summaries; exit code 1 if anything differs or cannot be confirmed."""
    data = read_bytes(predictor)
    summaries = summaries or []
    sealed = coordinator is not None and is_signed_by(predictor, data, coordinator)
    problems = _problems(predictor, data, summaries, None if signed is None else read_trusted(signed), sealed=sealed)
    if coordinator is not None and not sealed:
        problems.append(f"{beside(predictor)} is not the signature of this coordinator for this predictor")
    facts = {"predictor": str(predictor), "confirmed": not problems, "problems": problems}
    words = problems or [f"confirmed from {len(summaries)} summaries"]
    print_result(facts, *(f"{predictor}: {one}" for one in words), json=json)
    if problems:
        raise typer.Exit(1)


def _problems(
    path: Path, data: bytes, summaries: list[Path], trusted: dict[str, str] | None, *, sealed: bool
) -> list[str]:
    noisy = bool(summaries) and read_bytes(summaries[0])[: len(NOISY)] == NOISY
    given = read_noisy(summaries) if noisy else read_summaries(summaries)
    try:
        with naming(path):
            found: Any = read_document(data)
    except AlteredError as error:
        return [str(error).removeprefix(f"{path}: ")]
    if not summaries and found.certificate.privacy is None:
        raise InputError(f"{path}: give the summaries that it was made from as well")
    problems = verify_predictor(found, given, trusted=trusted, sealed=sealed)
    if not problems and found.to_bytes() != data:
        problems.append("the file was reformatted: it says the same, but not in the same bytes")
    if not problems:
        _warn(found.certificate)
    return problems


def _warn(certificate: Certificate) -> None:
    """Say what is to be known of a certificate that is right, also where one of the first format does not say it."""
    if has_expired(certificate.expires):
        logger.warning("the certificate expired on %s; it is right, and no longer to be used", certificate.expires)
    guarantee, _, sizes = certificate.terms()
    for heavy in heavy_sites(guarantee, site_names(certificate.summaries), sizes):
        logger.warning("%s", heavy_warning(heavy))
