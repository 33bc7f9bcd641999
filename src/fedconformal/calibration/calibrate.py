"""Calibration and recalibration: predictors with certificates from summaries and a guarantee."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

import msgspec
import numpy as np

from fedconformal._base.arrays import as_alpha, shares_of
from fedconformal._base.names import join_names, name_key
from fedconformal._base.registry import build
from fedconformal.calibration.predictor import AnyCurve, Predictor
from fedconformal.calibration.risk import RiskCurve, as_limit, calibrate_risk
from fedconformal.calibration.search import ALPHAS, PromiseCurve, find_threshold, round_up, strata_of
from fedconformal.certificates import text
from fedconformal.certificates.certificate import (
    Certificate,
    Promise,
    RenewalRows,
    Replacement,
    made_certificate,
    records_of,
    site_names,
    threshold_json,
)
from fedconformal.errors import InfeasibleWarning, InputError, SuspiciousInputWarning
from fedconformal.guarantees import Guarantee
from fedconformal.scores import AnyScore, RegressionScore
from fedconformal.summaries.batch import SummaryBatch, check_together
from fedconformal.summaries.provenance import Provenance, combine_provenances
from fedconformal.summaries.summary import Summary

ALPHA = 0.1
MOST_SITES = 1_000
"""Maximum number of sites that are compared with each other."""
LEAST_VALUES = 10
"""Minimum number of distinct scores for a warning that two sites have equal scores."""
Curves = Callable[[], Sequence[AnyCurve | None]]


def calibrate(
    summaries: Summary | Sequence[Summary],
    *,
    alpha: Any = ALPHA,
    guarantee: Guarantee | str = "mixture",
    risk: Any = None,
    safe: str | None = None,
    exact: bool = False,
) -> Predictor:
    """Compute the smallest thresholds that promise coverage 1 - alpha, or an expected loss of at most `risk`.

    Parameters
    ----------
    summaries
        The summaries of the sites, of scores or of losses.
    alpha
        Miscoverage level.
    guarantee
        A guarantee, or its spec string such as "pac:failure=0.05".
    risk
        For losses, the limit on their mean. If no threshold of the grid satisfies it, the threshold is +inf.
    safe
        The action at +inf, whose loss never exceeds `risk`, nor the loss at the last threshold.
    exact
        Whether to keep exact thresholds. By default they are rounded up to a public grid and the promise curve has few
        alphas (`search.py`), so that a published predictor contains no calibration score.

    Returns
    -------
    Predictor
        Thresholds with their certificate.

    Examples
    --------
    >>> from fedconformal import Summary
    >>> sites = [Summary.of_scores([i / 20 for i in range(20)], site="a"), Summary.of_scores([0.5, 0.7, 0.9], site="b")]
    >>> predictor = calibrate(sites, alpha=0.2)  # ceil(0.8 * 23) + 1 = 20
    >>> promise = predictor.certificate.promises[0]
    >>> predictor.threshold, promise.rank, round(promise.coverage_at_most, 4)
    (0.875, 20, 0.8696)
    >>> calibrate(sites, alpha=0.2, exact=True).threshold
    0.85
    """
    if risk is not None and alpha != ALPHA:
        raise InputError("alpha is for coverage and risk for losses; give one of them", param="risk")
    if risk is None and safe is not None:
        raise InputError("safe is the action if no threshold keeps a risk; give risk as well", param="safe")
    level = as_alpha(alpha)
    batch = usable(summaries, None if risk is not None else level)
    if risk is None:
        if level > Fraction(1, 2):
            meant = f"did you mean {float(1 - level):g}?"
            _warn(f"alpha is {float(level):g}, the share of rows whose sets may miss the truth; {meant}")
        _warn_of_equal_sites(batch)
    predictor = _calibrate(batch, level, build(guarantee, Guarantee), risk, safe, exact=exact)
    text.warn_of_sites(predictor.certificate)
    return predictor


def calibrate_again(summaries: Sequence[Summary], certificate: Certificate) -> Predictor:
    """Calibrate under the terms of a certificate, also from expired summaries."""
    alpha, risk = as_alpha(certificate.alpha), certificate.risk
    batch = usable(summaries, None if risk else alpha, expired=True)
    limit, safe = (risk.limit, risk.safe) if risk else (None, None)
    return _calibrate(batch, alpha, certificate.terms()[0], limit, safe, exact=certificate.exact)


def recalibrate(
    predictor: Predictor,
    summaries: Sequence[Summary],
    *,
    why: str | None = None,
    rows: Any = None,
    exact: bool = False,
    **terms: Any,
) -> Predictor:
    """Calibrate a successor of a predictor; the certificate names the replaced predictor.

    Parameters
    ----------
    predictor
        The predictor to replace, whose guarantee and level are the defaults.
    summaries
        The summaries of the calibration rows.
    why
        Reason for the replacement, by default a planned renewal.
    rows
        "new" for rows not counted by a monitor. "watched" rows promise nothing: the status is "estimated".
    exact, alpha, guarantee, risk, safe
        As in `calibrate`.

    Returns
    -------
    Predictor

    Examples
    --------
    >>> from fedconformal import LAC, Summary
    >>> old = calibrate([Summary.of_scores([i / 20 for i in range(20)], site="a", score=LAC())], alpha=0.2)
    >>> fresh = [Summary.of_scores([i / 30 for i in range(30)], site="a", score=LAC())]
    >>> recalibrate(old, fresh, why="alarm at site a", rows="new")
    Predictor(LAC(), alpha=0.2, threshold=0.8125, certified: mixture of 1 site)
    >>> recalibrate(old, fresh, why="alarm at site a", rows="watched").certificate.status
    'estimated'
    """
    replaced = Replacement.of(predictor.digest(), why, rows)
    batch = SummaryBatch.of(summaries)
    if terms.get("guarantee") is None:
        check_sites(predictor.certificate, batch.names)
    return successor(predictor, calibrate(batch, exact=exact, **kept_terms(predictor, **terms)), replaced)


def kept_terms(old: Predictor, *, guarantee: Any = None, alpha: Any = None, risk: Any = None, safe: Any = None) -> Any:
    """Return keywords of `calibrate`, by default the terms of a predictor."""
    about = old.certificate
    wanted = about.terms()[0] if guarantee is None else build(guarantee, Guarantee)
    if about.risk is None:
        if risk is not None or safe is not None:
            raise InputError(
                "the predictor that is replaced promises coverage, not a limit on losses; leave out risk", param="risk"
            )
        return {"guarantee": wanted, "alpha": about.alpha if alpha is None else alpha}
    if alpha is not None:
        raise InputError("the predictor that is replaced limits losses; give risk, not alpha", param="risk")
    limit = about.risk.limit if risk is None else risk
    return {"guarantee": wanted, "risk": limit, "safe": about.risk.safe if safe is None else safe}


def check_sites(old: Certificate, sites: Sequence[str]) -> None:
    """Refuse to reuse a guarantee with parameters by position of the sites, such as weights, for other sites."""
    before, over_sites = list(map(name_key, site_names(old.summaries))), not old.terms()[0].over_classes
    if before != list(map(name_key, sites)) and over_sites and _by_position(old.guarantee):
        raise InputError(
            f"the guarantee {old.guarantee['name']} has values for sites in their order, and these are other sites, or "
            "in another order; restate the guarantee",
            param="guarantee",
        )


def _by_position(value: Any) -> bool:
    """Whether the parameters of a guarantee contain a list, or the position of a site."""
    if isinstance(value, dict):
        rest = [item for key, item in value.items() if key != "box"]
        bounds = value.get("box") or ()  # each a number, or a list by site
        return isinstance(value.get("site"), int) or any(map(_by_position, [*rest, *bounds]))
    return isinstance(value, list | tuple)


def successor(old: Predictor, new: Predictor, replaced: Replacement) -> Predictor:
    """Return the new predictor with the old one named in its certificate."""
    if replaced.rows == RenewalRows.new and (again := used_again(new.certificate, old.certificate)):
        raise InputError(
            f"the summary of site {again!r} calibrated the predictor that is replaced, so its rows are not new; "
            "summarise new rows there"
        )
    return replace(new, certificate=new.certificate.replacing(replaced))


def used_again(newer: Certificate, older: Certificate) -> str | None:
    """Return the name of a site whose summary calibrated both predictors; None if there is none."""
    before = {record.sha256 for record in older.summaries}
    record = next((record for record in newer.summaries if record.sha256 in before), None)
    return None if record is None else ", ".join(record.sites) or record.sha256


def _calibrate(
    batch: SummaryBatch, alpha: Fraction, guarantee: Guarantee, risk: Any, safe: str | None, *, exact: bool
) -> Predictor:
    score = batch.provenances[0].score
    if isinstance(score, RegressionScore) and (guarantee.by_class or guarantee.by_group):
        of = "sets of labels" if guarantee.by_group else "classes"
        raise InputError(
            f"{guarantee.name} is for {of}, and {score.name} scores numbers; use another guarantee", param="guarantee"
        )
    sure = batch.certified and not any(provenance.estimated for provenance in batch.provenances)
    if risk is None:
        certificate, curves = _by_stratum(batch, alpha, guarantee, sure=sure)
    else:
        certificate, curves = calibrate_risk(batch, risk, guarantee, safe, sure=sure)
    if certificate.provenance.trained:
        certificate = certificate.without_promise()
    if exact:
        certificate = msgspec.structs.replace(certificate, exact=True)
    else:
        certificate, curves = _published(certificate, curves, score)
    return Predictor(certificate=certificate, make_curves=curves)


def _by_stratum(
    batch: SummaryBatch, alpha: Fraction, guarantee: Guarantee, *, sure: bool
) -> tuple[Certificate, Curves]:
    """Search for the threshold of every stratum, and combine their promises."""
    results = [find_threshold(stratum, sure=sure) for stratum in strata_of(batch, alpha, guarantee)]
    whole = [result for result in results if result.promise.stratum[:3] == (None, None, None)]
    if whole:  # a missed row is missed at one end: union bound
        least, most, target = (
            max(Fraction(0), sum(parts) - len(whole) + 1)
            for parts in zip(*((result.least, result.most, result.target) for result in whole), strict=True)
        )
    else:
        least, most, target = min(result.least for result in results), max(result.most for result in results), 1 - alpha
    certificate = made_certificate(
        guarantee=guarantee,
        provenance=combine_provenances(batch.provenances),
        summaries=records_of(batch),
        status="certified" if sure else "estimated",
        alpha=float(alpha),
        statement=text.statement(guarantee, batch.names, text.answers_to(batch.provenances[0].score)),
        class_scores=results[0].stratum.sizes_of() if guarantee.over_classes else None,
        promises=[result.promise for result in results],
        target=1 - alpha if guarantee.over_classes else target,
        band=(float(least), float(most)),
    )
    if any(math.isinf(result.promise.limit) for result in results if result.promise.site is None):
        words = text.explain_uninformative(certificate) or text.SETS.uninformative
        warnings.warn(words, InfeasibleWarning, stacklevel=4)
    return certificate, lambda: [result.curve() for result in results]


def _published(about: Certificate, curves: Curves, score: AnyScore | None) -> tuple[Certificate, Curves]:
    """Round the thresholds, and reduce the promise curves to few alphas."""
    if about.risk is not None:
        limit, bound = as_limit(about.risk.limit, about.risk.bound), Fraction(about.risk.bound)
        few = [curve.few(limit, bound, about.scores) for curve in curves() if isinstance(curve, RiskCurve)]
        promises = [
            msgspec.structs.replace(one, threshold=threshold_json(curve.threshold(limit)))
            for one, curve in zip(about.promises, few, strict=True)
        ]
        return msgspec.structs.replace(about, promises=promises), lambda: few
    rows = _rows(about)
    promises = [
        msgspec.structs.replace(one, threshold=_rounded(one, n, score))
        for one, n in zip(about.promises, rows, strict=True)
    ]
    at_few = partial(_few_alphas, alpha=as_alpha(about.alpha), score=score)
    return msgspec.structs.replace(about, promises=promises), lambda: list(map(at_few, curves(), promises, rows))


def _rows(about: Certificate) -> list[int]:
    """Return the number of rows that determines the rounding of each promise; the rows of a group are split evenly."""
    groups = {key: part for key, part in about.parts.items() if part[0].group and len(part) > 1}
    share = {key: sum(one.scores for one in part) // len(part) for key, part in groups.items()}
    # The threshold for rows without a site must not be below that of any site, so it is rounded as coarsely.
    sites = [one.scores for one in about.promises if one.site is not None]
    return [
        share.get(one.group or "", min([one.scores, *sites]) if one.site is None else one.scores)
        for one in about.promises
    ]


def _rounded(promise: Promise, rows: int, score: AnyScore | None) -> Any:
    """Round a threshold outward: up, or down for a lower end."""
    if promise.end == "lower":
        return threshold_json(0.0 - round_up(-promise.limit, rows, score))
    return threshold_json(round_up(promise.limit, rows, score))


def _few_alphas(
    curve: AnyCurve | None, promise: Promise, rows: int, *, alpha: Fraction, score: AnyScore | None
) -> PromiseCurve | None:
    if not isinstance(curve, PromiseCurve):
        return None
    if promise.end is None or score is None or score.lower_share is None:
        return curve.few([alpha, *ALPHAS], rows, score)
    ends = [shares_of(one, score.lower_share)[promise.end == "upper"] for one in (alpha, *ALPHAS)]
    return curve.few(ends, rows, score, ends=2)


def usable(summaries: Summary | Sequence[Summary], alpha: Fraction | None, *, expired: bool = False) -> SummaryBatch:
    """Check that summaries can be combined, are for this alpha and, unless `expired`, have not expired."""
    batch = SummaryBatch.of(summaries)
    if not len(batch):
        raise InputError("there are no summaries to calibrate from", param="summaries")
    check_together(batch)
    for provenance in batch.provenances:
        provenance.check_use(alpha, partial(_name_of, provenance, batch), expired=expired)
    return batch


def _name_of(provenance: Provenance, batch: SummaryBatch) -> str:
    return str(next(summary for summary in batch if summary.provenance is provenance))


def _warn_of_equal_sites(batch: SummaryBatch) -> None:
    if len(batch) > MOST_SITES:
        return
    values, rises = batch.points()
    ends = np.cumsum(batch.lengths())[:-1]
    seen: dict[bytes, str] = {}
    for i, (points, counts) in enumerate(zip(np.split(values, ends), np.split(rises, ends), strict=True)):
        name = join_names(batch.sites[i]) or f"number {i + 1}"
        first = seen.setdefault(points.tobytes() + counts.tobytes(), name)
        if first is not name and len(np.unique(points)) >= LEAST_VALUES:
            _warn(f"the sites {first} and {name} have the same scores; are they the same rows under two names?")


def _warn(message: str) -> None:
    warnings.warn(message, SuspiciousInputWarning, stacklevel=4)
