"""fedconformal calibrate: at the coordinator, from summaries to a predictor and its certificate."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from fedconformal._base.names import as_name, plural
from fedconformal._base.spec import parse
from fedconformal.calibration.calibrate import calibrate as calibrate_summaries
from fedconformal.calibration.predictor import Predictor, load
from fedconformal.calibration.recalibrate import check_sites, kept_terms, successor
from fedconformal.certificates.replacement import Replacement, Rows
from fedconformal.certificates.uninformative import explain_uninformative
from fedconformal.cli.console import logger, print_json, say
from fedconformal.cli.differential import (
    BudgetFile,
    Epsilon,
    Privacy,
    PrivacyMode,
    describe_privacy,
    read_noisy,
    release,
    release_locally,
)
from fedconformal.cli.inputs import Json, read_summaries
from fedconformal.cli.options import GUARANTEES, SPEC, ScoreOption, expand_options
from fedconformal.cli.outputs import Force, check_output
from fedconformal.cli.risk import Risk, Safe, check_risk, risk_words
from fedconformal.cli.sign import CalibrationId, Trusted, check_calibration, check_options, with_signatures
from fedconformal.cli.sites import in_order, place_weights, unnamed_classes
from fedconformal.cli.watches import Watches, check_watches, close_watches
from fedconformal.errors import InfeasibleWarning, InputError, prefix_errors
from fedconformal.guarantees import Guarantee, Mixture
from fedconformal.privacy import signatures
from fedconformal.summaries.summary import Summary

GuaranteeFor = Callable[[Sequence[str], Sequence[int]], Guarantee]
"""Builds a guarantee from the names of the sites and the order of the files."""


def _show_new_id(wanted: bool) -> None:
    if wanted:
        typer.echo(signatures.new_id())
        raise typer.Exit


class CalibrateResult(NamedTuple):
    """A calibration, its guarantee and its summaries."""

    result: Any
    guarantee: Guarantee
    received: list[Summary]


@dataclass(frozen=True, kw_only=True)
class CalibrateOptions:
    """Options of the calibration itself."""

    privacy: Privacy = None
    epsilon: Epsilon = None
    ledger: BudgetFile = None
    signed: Trusted = None
    calibration: CalibrationId = None
    risk: Risk = None
    safe: Safe = None
    exact: Annotated[
        bool,
        typer.Option(
            "--exact",
            help="Do not round thresholds up: the file then shows calibration scores, so keep it to yourself.",
        ),
    ] = False
    force: Force = False

    def check(self, alpha: str | None) -> None:
        """Refuse options that do not go together, before files are read."""
        check_risk(self.risk, self.safe, plain=alpha is None and self.privacy is None)
        check_options(
            self.signed,
            self.calibration,
            private=self.privacy is not None,
            noisy=self.privacy is PrivacyMode.local,
        )

    def calibrate(self, summaries: list[Path], alpha: str, guarantee_for: GuaranteeFor) -> CalibrateResult:
        """Calibrate from files."""
        received = [] if self.privacy is PrivacyMode.local else read_summaries(summaries)
        noisy = read_noisy(summaries) if self.privacy is PrivacyMode.local else []
        names: list[Sequence[str]] = [summary.sites for summary in received]
        names += [(one.site,) for one in noisy]
        order = in_order(summaries, names)
        summaries = [summaries[k] for k in order]
        received, noisy = [received[k] for k in order if received], [noisy[k] for k in order if noisy]
        guarantee = guarantee_for([name for k in order for name in names[k]], order)
        for line in unnamed_classes(received, summaries):
            logger.warning("%s", line)
        if self.calibration is not None:
            check_calibration(received, summaries, as_name(self.calibration, "calibration id"))
        if self.privacy is None and (self.epsilon is not None or self.ledger is not None):
            raise InputError(f"{'--epsilon' if self.epsilon is not None else '--ledger'} goes with --privacy dp")
        if self.privacy is not None and self.exact:
            raise InputError("--exact shows calibration scores, and --privacy hides them; leave one out")
        if self.privacy is PrivacyMode.local:
            result = release_locally(noisy, alpha, guarantee, self.epsilon, self.ledger)
        elif self.privacy is PrivacyMode.dp:
            result = release(received, alpha, guarantee, self.epsilon, self.ledger)
        else:
            result = _plainly(received, guarantee, alpha=alpha, risk=self.risk, safe=self.safe, exact=self.exact)
        if self.signed is not None:
            result = with_signatures(result, summaries, self.signed)
        return CalibrateResult(result, guarantee, received)

    def tell(self, predictor: Predictor, made: CalibrateResult, *more: str) -> None:
        """Say what was found, and `more`."""
        certificate = predictor.certificate
        say(certificate.sentence())
        say(f"Assumption: {certificate.statement.assumption}.")
        say(_found(predictor))
        if certificate.privacy is not None:
            say(describe_privacy(certificate.privacy))
        if self.signed is not None:
            keys = f"with the key in {self.signed}"
            say(f"Every summary is signed by its site for the calibration {self.calibration}, {keys}.")
        say(*more)


@dataclass(frozen=True, kw_only=True)
class RenewalOptions:
    """Options of a calibration that replaces a predictor."""

    replaces: Annotated[
        Path | None,
        typer.Option(
            metavar="OLD.json", help="The predictor that is replaced: its promise is kept, unless one is given."
        ),
    ] = None
    why: Annotated[
        str | None,
        typer.Option(help="With --replaces: why, in your words; recorded.", show_default="a planned renewal"),
    ] = None
    rows: Annotated[
        Rows | None,
        typer.Option(
            help="With --replaces: new rows, that no watch counted; or watched ones, from which nothing is promised."
        ),
    ] = None
    score: ScoreOption = None
    watch: Watches = None

    def replaced(self, old: Predictor | None) -> Replacement | None:
        """Check the options, and return the record of the predictor that is replaced."""
        if old is None:
            given = {"--why": self.why, "--rows": self.rows, "--score": self.score, "--watch": self.watch}
            if wrong := next((option for option, value in given.items() if value), None):
                raise InputError(f"{wrong} goes with --replaces")
            return None
        replaced = Replacement.of(old.digest(), why=self.why, rows=self.rows)
        check_watches(self.watch or [], replaced.sha256)
        return replaced


@expand_options
def calibrate(
    summaries: Annotated[list[Path], typer.Argument(help="One .fcs file a site.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Where to write the predictor (.json).")],
    alpha: Annotated[str | None, typer.Option(help="How often the truth may be missed.", show_default="0.1")] = None,
    guarantee: Annotated[
        str | None, typer.Option(metavar=SPEC, help=f"What is promised: {GUARANTEES}", show_default=Mixture.name)
    ] = None,
    *,
    options: CalibrateOptions,
    renewal: RenewalOptions,
    new_id: Annotated[  # noqa: ARG001
        bool,
        typer.Option(
            "--new-id", callback=_show_new_id, is_eager=True, help="Print the id of a new calibration, for all sites."
        ),
    ] = False,
    json: Json = False,
) -> None:
    """Find the threshold that promises coverage 1 - alpha, or an expected loss of at most --risk."""
    watches, path = renewal.watch or [], renewal.replaces
    inputs = (*summaries, *watches, path, options.ledger, options.signed)
    check_output(output, *inputs, ending=".json", force=options.force)
    old: Any = None if path is None else load(path)
    replaced, level = renewal.replaced(old), alpha or "0.1"
    if old is not None:
        with prefix_errors(path or ""):
            terms = kept_terms(old, alpha=alpha, risk=options.risk, safe=options.safe)
        level = level if terms.alpha is None else str(terms.alpha)
        options = replace(options, risk=None if terms.risk is None else str(terms.risk), safe=terms.safe)
    keeps = old is not None and guarantee is None
    guarantee_for = _same_guarantee(old) if keeps else read_guarantee(guarantee or Mixture.name)
    options.check(alpha)
    made = options.calibrate(summaries, level, guarantee_for)
    predictor = made.result if replaced is None else successor(old, made.result, replaced, renewal.score)
    predictor.save(output)
    close_watches(watches)
    warn_of_full(predictor)
    facts, lines = {"predictor": str(output), "certificate": predictor.certificate.to_dict()}, list[str]()
    if replaced is not None:
        lines = [f"It replaces {path}, sha256 {replaced.sha256} ({replaced.why})."]
        lines += [f"closed {one}: it counts no more, and still answers" for one in watches]
    if json:
        print_json(facts)
    else:
        options.tell(predictor, made, *lines, f"wrote {output}")


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


def warn_of_full(predictor: Predictor) -> None:
    """Warn of sets that hold every label, also where the threshold is finite."""
    if why := explain_uninformative(predictor.certificate):
        logger.warning("%s", why)


def _plainly(
    received: Sequence[Summary], guarantee: Guarantee, *, alpha: str, risk: str | None, safe: str | None, exact: bool
) -> Any:
    """Calibrate without noise."""
    if risk is not None:
        return calibrate_summaries(received, risk=risk, safe=safe, guarantee=guarantee, exact=exact)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InfeasibleWarning)  # said later, with more reasons
        return calibrate_summaries(received, alpha=alpha, guarantee=guarantee, exact=exact)


def _found(predictor: Predictor) -> str:
    """Say which threshold was found, from what, and what it promises."""
    if predictor.certificate.risk is not None:
        return risk_words(predictor)
    certificate = predictor.certificate
    none = f"nothing is promised: {certificate.why_estimated}"
    band = (
        f"coverage between {certificate.coverage_at_least:.4f} and {certificate.coverage_at_most:.4f}"
        f"{certificate.before_rounding} (summaries cost at most {certificate.slack:.4f})"
    )
    return (
        f"threshold {certificate.limit_text}, {certificate.status} from {certificate.scores} scores of "
        f"{plural(certificate.sites, 'site')}; {band if certificate.status == 'certified' else none}"
    )
