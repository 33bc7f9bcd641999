"""Calibration: from summaries and a guarantee to a predictor with its certificate."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

from fedconformal._base.arrays import as_alpha
from fedconformal._base.spec import build
from fedconformal.calibration.predictor import Predictor
from fedconformal.calibration.public_grid import published
from fedconformal.calibration.risk import calibrate_risk
from fedconformal.calibration.strata import Found, find, strata_of
from fedconformal.certificates import text
from fedconformal.certificates.certificate import Certificate, SummaryRecord, made_certificate
from fedconformal.certificates.remarks import warn_of_sites
from fedconformal.certificates.uninformative import explain_uninformative
from fedconformal.errors import InfeasibleWarning, InputError
from fedconformal.guarantees import Guarantee
from fedconformal.scores import RegressionScore
from fedconformal.summaries.batch import SummaryBatch, check_together
from fedconformal.summaries.provenance import Provenance, combine_provenances
from fedconformal.summaries.summary import Summary

ALPHA = 0.1
"""The shortfall is stated for this many strata at most."""


def calibrate(
    summaries: Sequence[Summary],
    *,
    alpha: Any = ALPHA,
    guarantee: Guarantee | str = "mixture",
    risk: Any = None,
    safe: str | None = None,
    exact: bool = False,
) -> Predictor:
    """Find the smallest thresholds that promise coverage 1 - alpha, or an expected loss of at most `risk`.

    Parameters
    ----------
    summaries
        The summaries of the sites, of scores or of losses.
    alpha
        The miss rate.
    guarantee
        A guarantee, or its spec string such as "pac:failure=0.05".
    risk
        For losses, the limit on their mean. If no threshold of the grid keeps it, the threshold is +inf.
    safe
        The action at +inf, which never loses more than `risk`, nor than the last threshold.
    exact
        Keep thresholds as they are found. By default they are rounded up to a public grid and the promise curve has
        few alphas (`public_grid`), so that a published predictor holds no calibration score.

    Returns
    -------
    Predictor
        With `threshold`, `certificate`, `predict_set` or `predict_interval`, `evaluate` and `save`.

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
        raise InputError("safe is what to do where losses are too large; give risk as well", param="safe")
    found = _calibrated(summaries, alpha, guarantee, risk=risk, safe=safe)
    predictor = published(found, exact=exact)
    warn_of_sites(predictor.certificate)
    return predictor


def calibrate_again(
    summaries: Sequence[Summary],
    *,
    alpha: Any = ALPHA,
    guarantee: Guarantee | str = "mixture",
    risk: Any = None,
    safe: str | None = None,
    exact: bool = False,
) -> Predictor:
    """Calibrate as before for verification, also from summaries that have expired since."""
    return published(_calibrated(summaries, alpha, guarantee, risk=risk, safe=safe, expired=True), exact=exact)


def _calibrated(
    summaries: Sequence[Summary],
    alpha: Any,
    guarantee: Guarantee | str,
    *,
    risk: Any,
    safe: str | None,
    expired: bool = False,
) -> Predictor:
    level = as_alpha(alpha)
    batch = usable(summaries, None if risk is not None else level, expired=expired)
    guarantee = build(guarantee, Guarantee)
    score = batch.provenances[0].score
    if isinstance(score, RegressionScore) and (guarantee.by_class or guarantee.by_group):
        of = "sets of labels" if guarantee.by_group else "classes"
        raise InputError(
            f"{guarantee.name} is for {of}, and {score.name} scores numbers; use another guarantee", param="guarantee"
        )
    sure = batch.certified and not any(provenance.estimated for provenance in batch.provenances)
    if risk is None:
        predictor = _by_stratum(batch, level, guarantee, sure=sure)
    else:
        curve, found = calibrate_risk(batch, risk, guarantee, safe, sure=sure)
        certificate = _certificate(batch, guarantee, sure=sure, **found)
        predictor = Predictor(certificate=certificate, make_curves=lambda: [curve])
    if not predictor.certificate.provenance.trained:
        return predictor
    return replace(predictor, certificate=predictor.certificate.without_promise())


def _by_stratum(batch: SummaryBatch, alpha: Fraction, guarantee: Guarantee, *, sure: bool) -> Predictor:
    """Search for the threshold of every stratum, and state what all of them promise together."""
    found = find(strata_of(batch, alpha, guarantee), sure=sure)
    whole = [one for one in found if (one.promise.site, one.promise.group, one.promise.class_index) == (None,) * 3]
    over_classes = guarantee.by_class and guarantee.inner is guarantee
    if whole:  # a row that is missed is missed at an end
        least, most, target = (
            max(Fraction(0), sum(parts) - len(whole) + 1)
            for parts in zip(*((one.least, one.most, one.target) for one in whole), strict=True)
        )
    else:
        least, most, target = min(one.least for one in found), max(one.most for one in found), 1 - alpha
    certificate = _certificate(
        batch,
        guarantee,
        sure=sure,
        alpha=float(alpha),
        class_scores=found[0].stratum.sizes_of() if over_classes else None,
        promises=[one.promise for one in found],
        target=str(1 - alpha if over_classes else target),
        coverage_at_least=float(least),
        coverage_at_most=float(most),
    )
    infinite = [one for one in found if math.isinf(one.promise.limit) and one.promise.site is None]
    if infinite:
        words = explain_uninformative(certificate) if whole else _lacking(infinite, alpha, batch)
        warnings.warn(words or text.SETS.uninformative, InfeasibleWarning, stacklevel=4)
    return Predictor(certificate=certificate, make_curves=lambda: [one.curve() for one in found])


def _lacking(infinite: Sequence[Found], alpha: Fraction, batch: SummaryBatch) -> str:
    """Name the classes or groups without a finite threshold, and what they are missing."""
    names = combine_provenances(batch.provenances).classes
    strata = {(one.promise.group, one.promise.class_index): one.stratum for one in infinite}
    called = {text.stratum_called(*key, names): one.sizes_of for key, one in strata.items()}
    noun = "class" if infinite[0].promise.group is None else "group"
    needed = text.strata_shortfalls(infinite[0].stratum.bound, alpha, called, batch.names, noun)
    return f"{text.not_promised_to(alpha, list(strata), names)}; {needed}"


def _certificate(batch: SummaryBatch, guarantee: Guarantee, *, sure: bool, **found: Any) -> Certificate:
    columns = zip(batch.sites, batch.sizes, batch.kinds, batch.digests, strict=True)
    return made_certificate(
        guarantee=guarantee,
        provenance=combine_provenances(batch.provenances),
        status="certified" if sure else "estimated",
        summaries=[
            SummaryRecord(sites=sites, sizes=sizes, kind=kind, sha256=digest) for sites, sizes, kind, digest in columns
        ],
        **found,
    )


def usable(summaries: Sequence[Summary], alpha: Fraction | None, *, expired: bool = False) -> SummaryBatch:
    """Check that summaries go together, are for this alpha, and may still be used today unless `expired` is allowed."""
    given = [summaries] if isinstance(summaries, Summary) else summaries
    batch = given if isinstance(given, SummaryBatch) else SummaryBatch(list(given))
    if not len(batch):
        raise InputError("there are no summaries to calibrate from", param="summaries")
    check_together(batch)
    for provenance in batch.provenances:
        provenance.check_use(alpha, partial(_name_of, provenance, batch), expired=expired)
    return batch


def _name_of(provenance: Provenance, batch: SummaryBatch) -> str:
    return str(next(summary for summary in batch if summary.provenance is provenance))
