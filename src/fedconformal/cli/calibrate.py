"""fedconformal calibrate and plan: at the coordinator, from summaries to a predictor and its certificate."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from fedconformal._base.names import abbreviate, as_name, join_names, name_key, plural
from fedconformal._base.registry import Spec, parse
from fedconformal.calibration.calibrate import calibrate as calibrate_summaries
from fedconformal.calibration.calibrate import check_sites, kept_terms, successor
from fedconformal.calibration.plan import plan as make_plan
from fedconformal.calibration.predictor import Predictor
from fedconformal.certificates.certificate import RenewalRows, Replacement, site_names
from fedconformal.certificates.text import describe_band, explain_uninformative, privacy_claim, why_estimated
from fedconformal.cli.console import logger, print_json, print_result, say, table
from fedconformal.cli.options import (
    GUARANTEES,
    SPEC,
    Alpha,
    CalibrationId,
    Json,
    Ledger,
    Trusted,
    check_output,
    expand_options,
    expand_wildcards,
    load_predictor,
    read_noisy,
    read_summaries,
    refuse,
)
from fedconformal.cli.verify import check_calibration, with_signatures
from fedconformal.errors import InfeasibleWarning, InputError, prefix_errors
from fedconformal.guarantees import Guarantee, Mixture
from fedconformal.privacy.calibrate import calibrate_privately
from fedconformal.privacy.dp import as_epsilon
from fedconformal.privacy.ledger import rows_of, spending
from fedconformal.summaries.summary import Summary

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class PromiseOptions:
    """Options of the promise."""

    alpha: Annotated[str | None, typer.Option(help="How often the truth may be missed.", show_default="0.1")] = None
    guarantee: Annotated[str | None, typer.Option(metavar=SPEC, help=GUARANTEES)] = None
    risk: Annotated[str | None, typer.Option(metavar="LIMIT", help="For losses: the largest expected loss.")] = None
    safe: Annotated[
        str | None, typer.Option(metavar="TEXT", help="With --risk: the action if no threshold is good enough.")
    ] = None
    exact: Annotated[bool, typer.Option("--exact", help="Do not round thresholds up; the file then shows scores.")] = (
        False
    )

    def kept_from(self, old: Predictor, path: Path | None) -> PromiseOptions:
        """Take the terms of the predictor that is replaced where no option gives another."""
        with prefix_errors(path):
            terms = kept_terms(old, alpha=self.alpha, risk=self.risk, safe=self.safe)
        return replace(self, alpha=terms.get("alpha"), risk=terms.get("risk"), safe=terms.get("safe"))

    def guarantee_for(self, sites: Sequence[str], old: Predictor | None) -> Guarantee:
        """Build the guarantee, by default that of the predictor that is replaced."""
        if old is not None and self.guarantee is None:
            check_sites(old.certificate, sites)
            return old.certificate.terms()[0]
        return place_weights(parse(self.guarantee or Mixture.name, Guarantee), sites).build()


@dataclass(frozen=True, kw_only=True)
class TrustOptions:
    """Options of signatures and of differential privacy."""

    epsilon: Annotated[
        str | None, typer.Option(help="Release the threshold with differential privacy (docs/which-privacy.md).")
    ] = None
    ledger: Ledger = None
    signed: Trusted = None
    calibration: CalibrationId = None

    def check(self, terms: PromiseOptions, *, noisy: bool) -> None:
        """Refuse options that do not go together."""
        if terms.risk is None:
            refuse("goes with --risk", safe=terms.safe)
        if self.epsilon is None:
            refuse("goes with --epsilon", ledger=self.ledger)
        if noisy:
            refuse("does not go with noisy counts", epsilon=self.epsilon, calibration=self.calibration)
        if noisy or self.epsilon is not None:
            refuse("does not go with privacy, which hides scores", signed=self.signed, exact=terms.exact)
        if self.signed is not None and self.calibration is None:
            raise InputError("--signed needs --calibration ID, or old summaries are accepted again; choose a new id")

    def calibrate(self, received: Sequence[Summary], terms: PromiseOptions, guarantee: Guarantee) -> Predictor:
        """Calibrate; noise that is added here is entered in the ledger before anything is written."""
        if self.epsilon is None:
            level = {"risk": terms.risk, "safe": terms.safe} if terms.risk else {"alpha": terms.alpha or "0.1"}
            return calibrate_summaries(received, **level, guarantee=guarantee, exact=terms.exact)
        if self.ledger is not None and not all(summary.sites for summary in received):
            raise InputError("--ledger needs summaries with site names; give them with --site")
        with spending(self.ledger, rows_of(received), float(as_epsilon(self.epsilon)), "threshold"):
            alpha = terms.alpha or "0.1"
            return calibrate_privately(received, mode="dp", epsilon=self.epsilon, alpha=alpha, guarantee=guarantee)


@dataclass(frozen=True, kw_only=True)
class RenewalOptions:
    """Options of a calibration that replaces a predictor."""

    replaces: Annotated[
        Path | None, typer.Option(metavar="OLD.json", help="The predictor that is replaced; its terms are kept.")
    ] = None
    why: Annotated[str | None, typer.Option(help="With --replaces: the reason, recorded.")] = None
    rows: Annotated[
        RenewalRows | None, typer.Option(metavar="KIND", help="With --replaces: new, or watched (nothing is promised).")
    ] = None


@expand_options
def calibrate(
    summaries: Annotated[list[Path], typer.Argument(help="One .fcs file a site, or .fcn.", callback=expand_wildcards)],
    output: Annotated[Path, typer.Option("-o", "--output", help="Where to write the predictor (.json).")],
    *,
    terms: PromiseOptions,
    trust: TrustOptions,
    renewal: RenewalOptions,
    json: Json = False,
) -> None:
    """Find the threshold that promises coverage, or an expected loss."""
    old, replaced = None, None
    check_output(output, *summaries, renewal.replaces, trust.ledger, trust.signed, ending=".json")
    if terms.risk is not None and (terms.alpha is not None or trust.epsilon is not None):
        raise InputError("--risk is for losses; leave out --alpha and --epsilon")
    if renewal.replaces is None:
        refuse("goes with --replaces", why=renewal.why, rows=renewal.rows)
    else:
        old = load_predictor(renewal.replaces)
        replaced = Replacement.of(old.digest(), renewal.why, renewal.rows)
        terms = terms.kept_from(old, renewal.replaces)
    noisy = read_noisy(summaries)
    trust.check(terms, noisy=noisy is not None)
    with warnings.catch_warnings():
        if terms.risk is None:
            warnings.simplefilter("ignore", InfeasibleWarning)  # logged below, with more reasons
        if noisy is not None:
            guarantee = terms.guarantee_for([one.site for one in noisy], old)
            predictor = calibrate_privately(noisy, mode="local", alpha=terms.alpha or "0.1", guarantee=guarantee)
        else:
            received = read_summaries(summaries)
            _warn_of_unnamed_classes(received, summaries)
            if trust.calibration is not None:
                check_calibration(received, summaries, as_name(trust.calibration, "calibration id"))
            predictor = trust.calibrate(received, terms, terms.guarantee_for(site_names(received), old))
    history: list[str] = []
    if trust.signed is not None:
        predictor = with_signatures(predictor, summaries, trust.signed)
        signed = f"Every summary is signed by its site for the calibration {trust.calibration}"
        history.append(f"{signed}, with a key in {trust.signed}.")
    if old is not None and replaced is not None:
        predictor = successor(old, predictor, replaced)
        history.append(f"It replaces {renewal.replaces}, sha256 {replaced.sha256} ({replaced.why}).")
    predictor.save(output)
    about = predictor.certificate
    if why := explain_uninformative(about):
        logger.warning("%s", why)
    lines = [predictor.sentence(), f"Assumption: {about.statement.assumption}.", _describe(predictor)]
    if about.privacy is not None:
        lines.append(privacy_claim(about.privacy))
    print_result({"predictor": output, "certificate": about}, *lines, *history, f"wrote {output}", json=json)


def _describe(predictor: Predictor) -> str:
    about = predictor.certificate
    what = "scores" if about.risk is None else "rows"
    found = f"threshold {about.limit_text}, {about.status} from {about.scores} {what} of {plural(about.sites, 'site')}"
    if about.risk is not None:
        return found
    if about.status != "certified":
        return f"{found}; nothing is promised: {why_estimated(about)}"
    return f"{found}; {describe_band(about)} (summaries cost at most {about.slack:.4f})"


def place_weights(spec: Spec[T], sites: Sequence[str]) -> Spec[T]:
    """Put weights that are given by site name into the order of the sites; others are in it already."""
    values = {key: place_weights(one, sites) if isinstance(one, Spec) else one for key, one in spec.values.items()}
    weights = values.get("weights")
    if not isinstance(weights, tuple) or not any(isinstance(one, tuple) for one in weights):
        return Spec(spec.cls, values)
    named = {name_key(str(one[0])): one[1] for one in weights if isinstance(one, tuple)}
    known = list(map(name_key, sites))
    if len(named) < len(weights) or set(named) != set(known):
        raise InputError(f"weights: give each of {join_names(known)} one weight, by its name", param="guarantee")
    return Spec(spec.cls, {**values, "weights": [named[name] for name in known]})


def _warn_of_unnamed_classes(summaries: Sequence[Summary], paths: Sequence[Path]) -> None:
    """Warn of sites that state only the number of classes, which cannot be compared with names."""
    stated = [summary.provenance.classes for summary in summaries]
    named = next((classes for classes in stated if isinstance(classes, tuple)), None)
    silent = [str(path) for path, classes in zip(paths, stated, strict=False) if not isinstance(classes, tuple)]
    if named is not None and silent:
        they = "gives its" if len(silent) == 1 else "give their"
        taken = f"they are taken as {join_names(named)}, in this order"
        logger.warning("%s: %s %d classes no names; %s", join_names(silent), they, len(named), taken)


def plan(
    sizes: Annotated[str, typer.Option(help="Calibration rows of each site, such as 200,50,20.")],
    alpha: Alpha = "0.1",
    guarantees: Annotated[list[str] | None, typer.Option("--guarantee", metavar=SPEC, help=GUARANTEES)] = None,
    json: Json = False,
) -> None:
    """Show which guarantees are feasible for these sizes."""
    try:
        rows = [int(part) for part in sizes.split(",")]
    except ValueError:
        raise InputError(f"--sizes is {abbreviate(repr(sizes))}, expected whole numbers such as 200,50,20") from None
    found = make_plan(alpha=alpha, sizes=rows, guarantees=guarantees or ())
    if json:
        print_json(found)
        return
    table(
        ["guarantee", "feasible", "coverage", "smallest alpha"],
        [
            (
                one.guarantee,
                "yes" if one.feasible else "no",
                f"{one.coverage_at_least:.4f} to {one.coverage_at_most:.4f}" if one.feasible else "-",
                f"{one.smallest_alpha:.4f}",
            )
            for one in found.options
        ],
    )
    say("", *(f"{one.guarantee}: {one.missing}" for one in found.options if not one.feasible))
    say(
        "If a guarantee is not feasible, every set holds every label, or every interval is the whole line.",
        f"Coverage by class or by group takes {found.rows_of_a_stratum} rows of each class or group, over all sites.",
    )
