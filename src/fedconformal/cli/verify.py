"""fedconformal verify: does the predictor follow from these summaries, to the last byte?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from fedconformal._base.files import read_bytes
from fedconformal.calibration.predictor import Predictor
from fedconformal.certificates import text
from fedconformal.certificates.certificate import Certificate
from fedconformal.cli.chain import REFORMATTED, follow, split
from fedconformal.cli.console import logger, print_result
from fedconformal.cli.differential import read_noisy
from fedconformal.cli.inputs import Json, read_summaries
from fedconformal.cli.sign import Trusted, beside, is_signed_by
from fedconformal.errors import AlteredError, InputError, prefix_errors
from fedconformal.privacy.local_dp import NoisyHistogram
from fedconformal.privacy.signatures import read_trusted
from fedconformal.summaries.format import NOISY
from fedconformal.summaries.provenance import has_expired
from fedconformal.summaries.summary import Summary
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
    chain: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="OLD.json ...",
            help="The predictors that it replaces, back to the first, in any order; each is recomputed if its "
            "summaries are given too.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Recompute the certificate from the summaries; exit code 1 if anything differs or cannot be confirmed."""
    data = read_bytes(predictor)
    older, given = split(chain, summaries or [])
    sealed = coordinator is not None and is_signed_by(predictor, data, coordinator)
    trusted = None if signed is None else read_trusted(signed)
    facts: dict[str, Any] = {"predictor": str(predictor)}
    try:
        with prefix_errors(predictor):
            found: Any = Predictor.from_bytes(data)
    except AlteredError as error:
        _read(given if not older else [])
        problems, words = [str(error)], list[str]()
    else:
        if not given and found.certificate.privacy is None:
            raise InputError(f"{predictor}: give the summaries that it was made from as well")
        if chain is None:
            problems = [f"{predictor}: {one}" for one in _problems(found, data, given, trusted, sealed=sealed)]
            words = [f"{predictor}: confirmed from {len(given)} summaries"]
        else:
            followed = follow(predictor, found, older, given, trusted=trusted, coordinator=coordinator)
            problems, words, facts["chain"] = followed.problems, followed.lines, followed.links
        if not problems:
            _warn(found.certificate)
    if coordinator is not None and not sealed:
        problems.append(f"{predictor}: {beside(predictor)} is not the signature of this coordinator for this predictor")
    plain = [one.removeprefix(f"{predictor}: ") for one in problems]
    facts = {**facts, "confirmed": not problems, "problems": plain}
    print_result(facts, *problems, *(words if chain is not None or not problems else []), json=json)
    if problems:
        raise typer.Exit(1)


def _read(summaries: list[Path]) -> list[Summary] | list[NoisyHistogram]:
    noisy = bool(summaries) and read_bytes(summaries[0])[: len(NOISY)] == NOISY
    return read_noisy(summaries) if noisy else read_summaries(summaries)


def _problems(
    found: Any, data: bytes, summaries: list[Path], trusted: dict[str, str] | None, *, sealed: bool
) -> list[str]:
    problems = verify_predictor(found, _read(summaries), trusted=trusted, sealed=sealed)
    if not problems and found.to_bytes() != data:
        problems.append(REFORMATTED)
    return problems


def _warn(certificate: Certificate) -> None:
    """Say what is to be known of a certificate that is right, also where one of the first format does not say it."""
    if has_expired(certificate.provenance.expires):
        logger.warning(
            "the certificate expired on %s; it is right, and no longer to be used", certificate.provenance.expires
        )
    for heavy in certificate.heavy_sites:
        logger.warning("%s", text.heavy_site(heavy.site, heavy.share))
