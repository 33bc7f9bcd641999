"""From summaries and a guarantee to a threshold and a certificate."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

from fedconformal._base.arrays import as_alpha
from fedconformal._base.spec import build
from fedconformal.calibration.by_class import by_class, over_classes
from fedconformal.calibration.by_group import by_group
from fedconformal.calibration.certificate import Certificate, SiteRecord, warn_of_sites
from fedconformal.calibration.choose import predictor_of
from fedconformal.calibration.curve import PromiseCurve
from fedconformal.calibration.public_grid import published
from fedconformal.calibration.replaced import without_promise
from fedconformal.calibration.result import Calibration, are_sure, band_of, certificate_of
from fedconformal.calibration.risk import by_risk, check_curves
from fedconformal.calibration.search import Search
from fedconformal.calibration.two_ends import two_ends
from fedconformal.certificates import text
from fedconformal.errors import InfeasibleWarning, InputError
from fedconformal.evaluation.full import why_full
from fedconformal.guarantees import ByClass, ByGroup, Guarantee, OneSite
from fedconformal.scores import RegressionScore
from fedconformal.summaries.batch import SummaryBatch, check_together
from fedconformal.summaries.provenance import Provenance
from fedconformal.summaries.summary import Summary

ALPHA = 0.1

__all__ = ["calibrate", "calibrate_again", "usable"]


def calibrate(
    summaries: Sequence[Summary],
    *,
    alpha: Any = ALPHA,
    guarantee: Guarantee | str = "mixture",
    risk: Any = None,
    safe: str | None = None,
    exact: bool = False,
) -> Any:
    """Find the smallest threshold that promises coverage 1 - alpha, or the smallest for each class.

    Of loss curves, the smallest of the grid whose expected loss is at most `risk`. If there is
    none, the threshold is +inf: the answer is a safe action, which never loses more than `risk`, nor than the last
    threshold; `safe` says which.

    Thresholds are rounded up to a public grid, and the promise curve has few alphas (`public_grid`), so that a
    predictor that is shown holds no calibration score. `exact` leaves both as they are found: keep that to yourself.

    >>> from fedconformal import Summary
    >>> sites = [Summary.of_scores([i / 20 for i in range(20)], site="a"), Summary.of_scores([0.5, 0.7, 0.9], site="b")]
    >>> result = calibrate(sites, alpha=0.2)  # ceil(0.8 * 23) + 1 = 20
    >>> result.threshold, result.certificate.rank, round(result.certificate.coverage_at_most, 4)
    (0.875, 20, 0.8696)
    >>> calibrate(sites, alpha=0.2, exact=True).threshold
    0.85
    """
    if risk is not None and alpha != ALPHA:
        raise InputError("alpha is for coverage and risk for losses; give one of them")
    if risk is None and safe is not None:
        raise InputError("safe is what to do where losses are too large; give risk as well")
    result = published(_calibrated(summaries, alpha, guarantee, risk=risk, safe=safe), exact=exact)
    warn_of_sites(result.certificate)
    return predictor_of(result)


def calibrate_again(
    summaries: Sequence[Summary],
    *,
    alpha: Any = ALPHA,
    guarantee: Guarantee | str = "mixture",
    risk: Any = None,
    safe: str | None = None,
    exact: bool = False,
) -> Any:
    """Calibrate from summaries that go together, also if they have expired meanwhile: what `verify` recomputes."""
    result = _calibrated(summaries, alpha, guarantee, risk=risk, safe=safe, expired=True)
    return predictor_of(published(result, exact=exact))


def _calibrated(
    summaries: Sequence[Summary],
    alpha: Any,
    guarantee: Guarantee | str,
    *,
    risk: Any,
    safe: str | None,
    expired: bool = False,
) -> Calibration:
    wanted = as_alpha(alpha)
    stack = usable(summaries, None if risk is not None else wanted, expired=expired)
    guarantee = build(guarantee, Guarantee)
    score = stack.origins[0].score
    if isinstance(score, RegressionScore) and (guarantee.by_class or guarantee.by_group):
        of = "sets of labels" if guarantee.by_group else "classes"
        raise InputError(f"{guarantee.name} is for {of}, and {score.name} scores numbers; use another guarantee")
    if risk is not None:
        check_curves(stack, guarantee)
    result = _found(stack, wanted, guarantee, risk=risk, safe=safe)
    trained = result.certificate.trained is not None
    return replace(result, certificate=without_promise(result.certificate)) if trained else result


def _found(stack: SummaryBatch, wanted: Fraction, guarantee: Guarantee, *, risk: Any, safe: str | None) -> Calibration:
    """Find the threshold, or one for each class, group or end, by what the guarantee is."""
    score = stack.origins[0].score
    if guarantee.by_class and guarantee.inner is guarantee:
        return over_classes(stack, wanted, guarantee)
    names, sizes = stack.names, [n for some in stack.sizes for n in some]
    bound = guarantee.inner.bind(names, sizes)
    if bound.sites_apart and len(stack) != len(sizes):
        pooled = next(summary for summary in stack if len(summary.sizes) > 1)
        raise InputError(
            f"{pooled} came pooled, and {guarantee.inner.name} needs every site's own summary; "
            "use one that weighs all scores alike (mixture with weights by rows, fcp, pac), "
            "or send the sites apart"
        )
    if risk is not None:
        return by_risk(stack, risk, guarantee, bound, safe)
    if isinstance(guarantee, ByGroup):
        return by_group(stack, wanted, guarantee, guarantee.bind(names, sizes), names)
    if isinstance(guarantee, ByClass):
        return by_class(stack, wanted, guarantee, guarantee.bind(names, sizes), names)
    search = one_end if score is None or score.lower_share is None else partial(two_ends, share=score.lower_share)
    found, curve = search(stack, wanted, bound)
    each = [search([summary], wanted, OneSite(site=0)) for summary in stack] if guarantee.by_site else []
    curves = dict(zip(names, (own for _, own in each), strict=False))
    records = [
        SiteRecord(site=name, scores=n, **{key: value for key, value in own.items() if key != "target"})
        for name, n, (own, _) in zip(names, sizes, each, strict=False)
    ]
    certificate = certificate_of(stack, wanted, guarantee, by_site=records or None, **found)
    _warn_of_ends(certificate)
    return Calibration(certificate, curve, (lambda: {name: own() for name, own in curves.items()}) if each else None)


def one_end(
    summaries: Sequence[Summary], alpha: Fraction, bound: Guarantee
) -> tuple[dict[str, Any], Callable[[], PromiseCurve]]:
    """Search for one threshold, for the certificate and for the promise curve."""
    stack = SummaryBatch.of(summaries)
    sizes = [n for some in stack.sizes for n in some]
    search = Search(stack, bound, sizes)
    band = band_of(bound, alpha, search.smallest(alpha), sizes, stack.gaps, sure=are_sure(stack))
    return {"target": str(bound.band(alpha, sizes).least), **band}, partial(search.curve, alpha)


def _warn_of_ends(certificate: Certificate) -> None:
    """Warn if no finite threshold promises enough: of sets that hold every label, of intervals without an end."""
    lower = certificate.lower
    if certificate.threshold == "inf" or (lower is not None and lower.threshold == "-inf"):
        warnings.warn(why_full(certificate) or text.SETS.uninformative, InfeasibleWarning, stacklevel=5)


def usable(summaries: Sequence[Summary], alpha: Fraction | None, *, expired: bool = False) -> SummaryBatch:
    """Check that summaries go together, are for this alpha, and may still be used today unless `expired` is allowed."""
    given = [summaries] if isinstance(summaries, Summary) else summaries
    stack = given if isinstance(given, SummaryBatch) else SummaryBatch(list(given))
    if not len(stack):
        raise InputError("there are no summaries to calibrate from")
    check_together(stack)
    for origin in stack.origins:
        origin.check_use(alpha, partial(_label_of, origin, stack), expired=expired)
    return stack


def _label_of(origin: Provenance, stack: SummaryBatch) -> str:
    return str(next(summary for summary in stack if summary.origin is origin))
