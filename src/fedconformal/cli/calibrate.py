"""fedconformal calibrate: at the coordinator, from summaries to a predictor and its certificate."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

from fedconformal._base import registry
from fedconformal._base.names import as_name
from fedconformal.calibration.calibrate import calibrate as calibrate_summaries
from fedconformal.calibration.certificate import Certificate, threshold_text
from fedconformal.calibration.predictor import Predictor
from fedconformal.cli.console import logger, print_json, say
from fedconformal.cli.differential import (
    BudgetFile,
    Epsilon,
    Privacy,
    PrivacyMode,
    describe_privacy,
    release,
    release_locally,
)
from fedconformal.cli.inputs import Alpha, Json, check_ending, check_output, read_summaries
from fedconformal.cli.mixtures import Box, Contamination, Failure, TotalVariation, as_box, as_numbers
from fedconformal.cli.robust import LeastScores, MostScores, Robust, SitesAlike, describe_robustness, robust_guarantee
from fedconformal.cli.sign import CalibrationId, Trusted, check_calibration, check_options, with_signatures
from fedconformal.errors import InfeasibleWarning, InputError
from fedconformal.evaluation import why_full
from fedconformal.guarantees import ByClass, Guarantee
from fedconformal.privacy import signatures
from fedconformal.summaries.origin import number_of


def _show_new_id(wanted: bool) -> None:
    if wanted:
        typer.echo(signatures.new_id())
        raise typer.Exit


NO_BAND = "nothing is promised: a summary without bounds, such as tdigest, can be off either way"


def calibrate(
    summaries: Annotated[list[Path], typer.Argument(help="One .fcs file a site.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Where to write the predictor (.json).")],
    alpha: Alpha = "0.1",
    guarantee: Annotated[
        str,
        typer.Option(help="mixture, exchangeable, one-client, every-client, worst-case, new-client or pac."),
    ] = "mixture",
    by_class: Annotated[
        bool, typer.Option("--by-class", help="Promise it to each class by itself; needs summaries --by-class.")
    ] = False,
    weights: Annotated[
        str | None, typer.Option(help="mixture: proportional, uniform, or numbers in the order of the files.")
    ] = None,
    client: Annotated[str | None, typer.Option(help="one-client: the site's name.")] = None,
    contamination: Contamination = None,
    total_variation: TotalVariation = None,
    box: Box = None,
    failure: Failure = None,
    robust: Robust = None,
    sites_alike: SitesAlike = False,
    least_scores: LeastScores = None,
    most_scores: MostScores = None,
    privacy: Privacy = None,
    epsilon: Epsilon = None,
    ledger: BudgetFile = None,
    signed: Trusted = None,
    calibration: CalibrationId = None,
    new_id: Annotated[  # noqa: ARG001
        bool,
        typer.Option(
            "--new-id", callback=_show_new_id, is_eager=True, help="Print the id of a new calibration, for all sites."
        ),
    ] = False,
    json: Json = False,
) -> None:
    """Find the threshold that promises coverage 1 - alpha, and write the predictor."""
    options = {
        "weights": weights,
        "client": client,
        "contamination": contamination,
        "total_variation": total_variation,
        "box": box,
        "failure": failure,
        "most_scores": most_scores,
    }
    check_ending(output, ".json")
    check_output(output, *summaries, ledger, signed)
    hostile = robust_guarantee(robust, guarantee, options, sites_alike=sites_alike, least_scores=least_scores)
    promise = _guarantee(guarantee, options) if hostile is None else hostile
    wanted = ByClass(promise) if by_class else promise
    check_options(signed, calibration, private=privacy is not None, noisy=privacy is PrivacyMode.local)
    received = [] if privacy is PrivacyMode.local else read_summaries(summaries)
    if calibration is not None:
        check_calibration(received, summaries, as_name(calibration, "calibration id"))
    if privacy is PrivacyMode.local:
        result = release_locally(summaries, alpha, wanted, epsilon, ledger)
    elif privacy is PrivacyMode.dp:
        result = release(received, alpha, wanted, epsilon, ledger)
    elif epsilon is not None or ledger is not None:
        raise InputError(f"{'--epsilon' if epsilon is not None else '--ledger'} goes with --privacy dp")
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InfeasibleWarning)  # said below, with more reasons
            result = calibrate_summaries(received, alpha=alpha, guarantee=wanted)
    if signed is not None:
        result = with_signatures(result, summaries, signed)
    predictor = Predictor.of(result)
    predictor.save(output)
    certificate = predictor.certificate
    _warn_of_full_sets(certificate)
    if json:
        print_json({"predictor": str(output), "certificate": certificate.to_dict()})
        return
    say(certificate.sentence())
    say(f"Assumption: {certificate.assumption}.")
    band = (
        f"coverage between {certificate.coverage_at_least:.4f} and {certificate.coverage_at_most:.4f} "
        f"(summaries cost at most {certificate.slack:.4f})"
    )
    say(
        f"threshold {threshold_text(certificate.limit)}, {certificate.status} from {certificate.scores} scores of "
        f"{certificate.clients} sites; {band if certificate.status == 'certified' else NO_BAND}"
    )
    if certificate.privacy is not None:
        say(describe_privacy(certificate.privacy))
    if signed is not None:
        say(f"Every summary is signed by its site for the calibration {calibration}, with the key in {signed}.")
    if hostile is not None:
        describe_robustness(hostile, received, alpha)
    say(f"wrote {output}")


def _warn_of_full_sets(certificate: Certificate) -> None:
    """Say that every label will be in every set, also where the threshold is finite."""
    classes = None if certificate.labels is None else number_of(certificate.labels)
    if why := why_full(certificate, classes=classes):
        logger.warning("%s", why)


def _guarantee(name: str, options: dict[str, Any]) -> Guarantee:
    cls = registry.find(name, Guarantee)
    parameters = {option: value for option, value in options.items() if value is not None}
    for option in parameters:
        if option not in cls.__dataclass_fields__:
            raise InputError(f"--{option.replace('_', '-')} does not go with --guarantee {name}")
    if "client" in cls.__dataclass_fields__ and "client" not in parameters:
        raise InputError(f"--guarantee {name} needs --client NAME")
    if "liars" in cls.__dataclass_fields__:
        raise InputError(f"--guarantee {name}: say --robust F, with --sites-alike if the sites are")
    if parameters.get("weights") not in (None, "proportional", "uniform"):
        parameters["weights"] = as_numbers(parameters["weights"], "--weights", "proportional, uniform or numbers")
    if "box" in parameters:
        parameters["box"] = as_box(parameters["box"])
    return cls(**parameters)
