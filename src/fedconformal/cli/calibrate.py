"""fedconformal calibrate: at the coordinator, from summaries to a predictor and its certificate."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from fedconformal._base.names import as_name, plural
from fedconformal._base.spec import parse
from fedconformal.calibration.calibrate import calibrate as calibrate_summaries
from fedconformal.calibration.predictor import Predictor, load
from fedconformal.calibration.recalibrate import check_sites, kept_terms, successor
from fedconformal.certificates.replacement import Replacement, Rows
from fedconformal.certificates.uninformative import describe_band, explain_uninformative
from fedconformal.cli.console import logger, print_result
from fedconformal.cli.losses import describe_risk
from fedconformal.cli.monitor_rows import check_watches, close_watches
from fedconformal.cli.options import (
    GUARANTEES,
    SPEC,
    Json,
    Risk,
    expand_options,
    expand_wildcards,
    read_summaries,
    refuse,
)
from fedconformal.cli.outputs import Force, check_output
from fedconformal.cli.privacy import LedgerFile, Noise, Privacy, describe_privacy, read_noisy
from fedconformal.cli.sign import CalibrationId, Trusted, check_calibration, with_signatures
from fedconformal.cli.sites import in_order, place_weights, unnamed_classes
from fedconformal.errors import InfeasibleWarning, InputError, prefix_errors
from fedconformal.guarantees import Guarantee, Mixture

GuaranteeFor = Callable[[Sequence[str], Sequence[int]], Guarantee]
"""Builds a guarantee from the names of the sites and the order of the files."""


@dataclass(frozen=True, kw_only=True)
class RenewalOptions:
    """Options of a calibration that replaces a predictor."""

    replaces: Annotated[
        Path | None,
        typer.Option(metavar="OLD.json", help="The predictor that is replaced; its terms are kept."),
    ] = None
    why: Annotated[
        str | None,
        typer.Option(help="With --replaces: the reason, recorded."),
    ] = None
    rows: Annotated[
        Rows | None,
        typer.Option(metavar="KIND", help="With --replaces: new, or watched (nothing is promised)."),
    ] = None
    watch: Annotated[
        list[Path] | None,
        typer.Option("--watch", metavar="WATCH", help="With --replaces: a watch to close (.db)."),
    ] = None

    def replacement(self, old: Predictor | None) -> Replacement | None:
        """Check the options, and return the record of the predictor that is replaced."""
        if old is None:
            given = {"--why": self.why, "--rows": self.rows, "--watch": self.watch}
            refuse(given, "goes with --replaces")
            return None
        found = Replacement.of(old.digest(), why=self.why, rows=self.rows)
        check_watches(self.watch or [], found.sha256)
        return found


@expand_options
def calibrate(
    summaries: Annotated[list[Path], typer.Argument(help="One .fcs file a site.", callback=expand_wildcards)],
    output: Annotated[Path, typer.Option("-o", "--output", help="Where to write the predictor (.json).")],
    alpha: Annotated[str | None, typer.Option(help="How often the truth may be missed.", show_default="0.1")] = None,
    guarantee: Annotated[str | None, typer.Option(metavar=SPEC, help=GUARANTEES, show_default=False)] = None,
    privacy: Privacy = None,
    ledger: LedgerFile = None,
    signed: Trusted = None,
    calibration: CalibrationId = None,
    risk: Risk = None,
    safe: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            help="With --risk: what to do if no threshold is good enough.",
        ),
    ] = None,
    exact: Annotated[
        bool,
        typer.Option(
            "--exact",
            help="Do not round thresholds up; the file then shows scores.",
        ),
    ] = False,
    *,
    renewal: RenewalOptions,
    force: Force = False,
    json: Json = False,
) -> None:
    """Find the threshold that promises coverage 1 - alpha, or an expected loss of at most --risk."""
    watches, replaces = renewal.watch or [], renewal.replaces
    check_output(output, *summaries, *watches, replaces, ledger, signed, ending=".json", force=force)
    noise = Noise.parse(privacy, "dp", "local")
    old = None if replaces is None else load(replaces)
    replaced, given = renewal.replacement(old), alpha
    if old is not None:
        with prefix_errors(replaces or ""):
            terms = kept_terms(old, alpha=alpha, risk=risk, safe=safe)
        level, risk, safe = terms.get("alpha"), terms.get("risk"), terms.get("safe")
        alpha = None if level is None else str(level)
    _check(noise, given, ledger=ledger, signed=signed, calibration=calibration, risk=risk, safe=safe, exact=exact)
    guarantee_for = _same_guarantee(old) if old and guarantee is None else read_guarantee(guarantee or Mixture.name)
    local = noise is not None and noise.mode == "local"
    received: list[Any] = list(read_noisy(summaries) if local else read_summaries(summaries))
    names: list[Sequence[str]] = [(one.site,) if local else one.sites for one in received]
    order = in_order(summaries, names)
    summaries, received = [summaries[k] for k in order], [received[k] for k in order]
    promise = guarantee_for([name for k in order for name in names[k]], order)
    for line in [] if local else unnamed_classes(received, summaries):
        logger.warning("%s", line)
    if calibration is not None:
        check_calibration(received, summaries, as_name(calibration, "calibration id"))
    if noise is not None:
        predictor = noise.calibrate(received, alpha=alpha or "0.1", guarantee=promise, ledger=ledger)
    elif risk is not None:
        predictor = calibrate_summaries(received, risk=risk, safe=safe, guarantee=promise, exact=exact)
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InfeasibleWarning)  # said later, with more reasons
            predictor = calibrate_summaries(received, alpha=alpha or "0.1", guarantee=promise, exact=exact)
    if signed is not None:
        predictor = with_signatures(predictor, summaries, signed)
    if old is not None and replaced is not None:
        predictor = successor(old, predictor, replaced)
    predictor.save(output)
    close_watches(watches)
    if why := explain_uninformative(predictor.certificate):
        logger.warning("%s", why)
    about = predictor.certificate
    facts = {"predictor": str(output), "certificate": about.to_dict()}
    lines = [about.sentence(), f"Assumption: {about.statement.assumption}.", _describe(predictor)]
    if about.privacy is not None:
        lines += describe_privacy(about.privacy, finite=False)
    if signed is not None:
        lines.append(f"Every summary is signed by its site for the calibration {calibration}, with a key in {signed}.")
    if replaced is not None:
        lines.append(f"It replaces {replaces}, sha256 {replaced.sha256} ({replaced.why}).")
        lines += [f"closed {one}: it counts no more, and still answers" for one in watches]
    print_result(facts, *lines, f"wrote {output}", json=json)


def _check(
    noise: Noise | None,
    alpha: str | None,
    *,
    ledger: Path | None,
    signed: Path | None,
    calibration: str | None,
    risk: str | None,
    safe: str | None,
    exact: bool,
) -> None:
    """Refuse options that do not go together, before files are read."""
    if risk is None:
        refuse({"--safe": safe}, "goes with --risk")
    elif alpha is not None or noise is not None:
        raise InputError("--risk is for losses; leave out --alpha and --privacy")
    if noise is None:
        refuse({"--ledger": ledger}, "goes with --privacy dp")
    else:
        refuse({"--signed": signed}, "does not go with --privacy, which withholds what was signed")
        refuse({"--exact": exact}, "shows calibration scores, and --privacy hides them; leave one out")
        if noise.mode == "local":
            refuse({"--calibration": calibration}, "does not go with --privacy local, whose files name no calibration")
    if signed is not None and calibration is None:
        raise InputError("--signed needs --calibration ID, or old summaries pass again; choose a new id every time")


def _same_guarantee(old: Predictor) -> GuaranteeFor:
    def guarantee_for(sites: Sequence[str], _: Sequence[int]) -> Guarantee:
        check_sites(old.certificate, sites or [f"#{k + 1}" for k in range(old.certificate.sites)])
        return old.certificate.terms()[0]

    return guarantee_for


def read_guarantee(text: str) -> GuaranteeFor:
    """Check a spec string, and return what builds the guarantee once the sites and the order of files are known."""
    spec = parse(text, Guarantee)
    place_weights(spec).build()
    return lambda sites, order: place_weights(spec, sites, order).build()


def _describe(predictor: Predictor) -> str:
    """Say which threshold was found, from what, and what it promises."""
    if predictor.certificate.risk is not None:
        return describe_risk(predictor)
    about = predictor.certificate
    found = f"threshold {about.limit_text}, {about.status} from {about.scores} scores of {plural(about.sites, 'site')}"
    if about.status != "certified":
        return f"{found}; nothing is promised: {about.why_estimated}"
    return f"{found}; {describe_band(about)} (summaries cost at most {about.slack:.4f})"
