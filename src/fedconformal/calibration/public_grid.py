"""Thresholds of a public grid, and few of them: a published predictor holds no calibration score.

A calibration score in a file tells who was in the calibration: with the model, a candidate's score is computed for
every label and looked up. So thresholds are rounded up, which only adds labels, and the promise curve keeps the
certified alpha and one more for every 64 rows. What it states of a threshold is the target, not a count. The grid
depends on the score and on the number of rows, n, alone: its steps are 1 to 4 parts in sqrt(n) of a threshold.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np

from fedconformal._base import registry
from fedconformal._base.arrays import ALPHA_UNIT, as_alpha, shares_of
from fedconformal.calibration.certificate import Certificate, LowerEnd, RiskRecord, threshold_json
from fedconformal.calibration.curve import (
    USUAL_ALPHAS,
    AnyCurve,
    ClassCurves,
    EndCurves,
    GroupCurves,
    PromiseCurve,
    in_units,
)
from fedconformal.calibration.result import Calibration
from fedconformal.calibration.risk import as_limit
from fedconformal.calibration.risk_curve import RiskCurve
from fedconformal.scores import AnyScore, RegressionScore, Score

ROWS_AN_ALPHA = 64
"""The promise curve has one more alpha for each of this many rows."""

FIRST = [Fraction(i, 100) for i in (10, 5, 20, 1, 50, 2, 30, 25, 15, 40)]
ALPHAS = [*FIRST, *(alpha for alpha in USUAL_ALPHAS if alpha not in FIRST)]
"""The alphas of a promise curve; with few rows it has the first of them."""


def round_up(q: float, rows: int, score: AnyScore | None = None) -> float:
    """Return the next number of the grid for this many rows; infinite stays infinite, and finite stays finite.

    Scores of labels crowd at 0, at 1, and above it where one rank more adds to them. So it is the distance to the
    nearest of these that is rounded. Scores of numbers have any unit: their own first binary digits are kept.

    >>> round_up(0.3, rows=150), round_up(0.97, rows=5000), round_up(9.0, rows=150)
    (0.3125, 0.97021484375, 9.0)
    >>> from fedconformal.scores import RAPS, Residual
    >>> round_up(1.2, 150, RAPS(penalty=0.25)), round_up(8.9, 150, Residual())
    (1.203125, 9.0)
    """
    digits = max(1, (rows.bit_length() - 1) // 2)
    if isinstance(score, RegressionScore):
        return _first_digits(q, digits + 1)
    if not 0.5 < q < 2.0**40:
        return _first_digits(q, digits)
    if q <= 1:
        return 1.0 + _first_digits(q - 1.0, digits)  # exact in this range
    price = score.rank_price if isinstance(score, Score) else 1.0
    ranks, part = divmod((q - 1.0) / price, 1.0)
    part = _first_digits(part, digits) if part <= 0.5 else 1.0 + _first_digits(part - 1.0, digits)
    return max(q, 1.0 + (ranks + part) * price)


def _first_digits(q: float, digits: int) -> float:
    """Round up to this number of binary digits.

    >>> [_first_digits(q, 2) for q in (0.3, 0.5, -0.3, 0.0)]
    [0.375, 0.5, -0.25, 0.0]
    """
    if not math.isfinite(q):
        return q
    fraction, exponent = math.frexp(q)
    try:
        return math.ldexp(math.ceil(math.ldexp(fraction, digits)), exponent - digits) + 0.0
    except OverflowError:
        return float(np.finfo(np.float64).max)


def published(result: Calibration, *, exact: bool = False) -> Calibration:
    """Round the thresholds of a calibration, and keep few alphas of its promise curve; or say that all is exact."""
    about = result.certificate
    if exact:
        return replace(result, certificate=msgspec.structs.replace(about, exact=True))
    if about.risk is not None:
        risks = _few_risks(result.curve, about, about.risk)
        threshold = threshold_json(risks.threshold(as_limit(about.risk.limit, about.risk.bound)))
        certificate = msgspec.structs.replace(about, threshold=threshold)
        return replace(result, certificate=certificate, make_curve=lambda: risks)
    score = _score_of(about)
    classes, groups = _rounded_records(about.classes, score), _rounded_records(about.groups, score)
    by_site = _rounded_records(about.by_site, score)
    parts = [one.threshold for one in classes or groups or ()]
    certificate = msgspec.structs.replace(
        about,
        threshold=parts or _rounded(about.threshold, about.scores, score),
        classes=classes,
        groups=groups,
        by_site=by_site
        and [msgspec.structs.replace(one, lower=_rounded_lower(one.lower, one.scores, score)) for one in by_site],
        lower=_rounded_lower(about.lower, about.scores, score),
    )
    return replace(
        result,
        certificate=certificate,
        make_curve=lambda: _few_alphas(result.curve, about, about.scores),
        make_site_curves=result.make_site_curves and partial(_few_by_site, result, about),
    )


def _few_by_site(result: Calibration, about: Certificate) -> dict[str, Any]:
    rows = {one.site: one.scores for one in about.by_site or ()}
    return {site: _few_alphas(curve, about, rows[site]) for site, curve in (result.site_curves or {}).items()}


def _rounded_lower(lower: LowerEnd | None, rows: int, score: AnyScore | None) -> LowerEnd | None:
    """Round the lower end down."""
    if lower is None:
        return None
    end = round_up(-float(lower.threshold), rows, score)
    return msgspec.structs.replace(lower, threshold="-inf" if end == math.inf else 0.0 - end)


def _score_of(about: Certificate) -> AnyScore | None:
    return None if about.score is None else registry.build(about.score, AnyScore)


def _rounded_records(records: list[Any] | None, score: AnyScore | None) -> list[Any] | None:
    """Round what was found for each class or group, by its own number of rows."""
    return records and [
        msgspec.structs.replace(one, threshold=_rounded(one.threshold, one.scores, score)) for one in records
    ]


def _rounded(threshold: Any, rows: int, score: AnyScore | None) -> Any:
    """Round a threshold as it is in a certificate; of several classes each has its part of the rows."""
    if isinstance(threshold, list):
        return [_rounded(one, rows // len(threshold), score) for one in threshold]
    return threshold_json(round_up(float(threshold), rows, score))


def _few_alphas(curve: AnyCurve, about: Certificate, rows: int) -> AnyCurve:
    """Return the curve, or that of each class, group or end, at few alphas."""
    alphas, few = [as_alpha(about.alpha), *ALPHAS], partial(_few, score=_score_of(about))

    def of_part(one: PromiseCurve | ClassCurves, rows: int) -> PromiseCurve | ClassCurves:
        if isinstance(one, PromiseCurve):
            return few(one, alphas, rows)
        return ClassCurves([each and few(each, alphas, rows // len(one.of_class)) for each in one.of_class])

    if isinstance(curve, EndCurves):
        lower, upper = zip(*(shares_of(alpha, curve.share) for alpha in alphas), strict=True)
        upper += (*ALPHAS, *(1 - alpha for alpha in ALPHAS))  # of the predictive distribution
        return EndCurves(
            lower=few(curve.lower, lower, rows, ends=2),
            upper=few(curve.upper, upper, rows, ends=2),
            share=curve.share,
        )
    if isinstance(curve, GroupCurves):
        held = {one.group: one.scores for one in about.groups or ()}
        return GroupCurves({name: of_part(one, held[name]) for name, one in curve.of_group.items()})
    if isinstance(curve, ClassCurves):
        each = [one.scores for one in about.classes or ()]
        return ClassCurves([one and few(one, alphas, n) for one, n in zip(curve.of_class, each, strict=True)])
    return few(curve, alphas, rows)


def _few(
    curve: PromiseCurve, alphas: Iterable[Fraction], rows: int, *, score: AnyScore | None, ends: int = 1
) -> PromiseCurve:
    """Return the rounded thresholds at the first alphas, as many as the rows allow at each end."""
    kept = list(dict.fromkeys(alphas))[: 1 + rows // ends // ROWS_AN_ALPHA]
    found = {round_up(curve.threshold(alpha), rows, score): in_units(1 - alpha) for alpha in sorted(kept, reverse=True)}
    found.pop(math.inf, None)
    if not found:  # nothing is promised at any finite threshold
        found = {float(np.finfo(np.float64).max): 0}
    return PromiseCurve(np.array(list(found)), np.array(list(found.values()), dtype=np.int64))


def _few_risks(curve: RiskCurve, about: Certificate, risk: RiskRecord) -> RiskCurve:
    """Round the expected losses up to the certified limit, to a few others, or to the bound.

    Losses that fall do so at the last threshold of the grid and at every k-th before it, 4 sqrt(n) of them at most; at
    those between, the loss is that of the one before.
    """
    falling = all(one >= after for one, after in pairwise(curve.risks))
    step = 1 + (len(curve.risks) - 1) // (4 * math.isqrt(about.scores)) if falling else 1
    bound, first = Fraction(risk.bound), (len(curve.risks) - 1) % step
    limits = [as_limit(risk.limit, risk.bound), *(alpha * bound for alpha in ALPHAS)]
    kept = sorted(math.floor(limit * ALPHA_UNIT) for limit in limits[: 1 + about.scores // ROWS_AN_ALPHA])
    levels = [*kept, math.ceil(bound * ALPHA_UNIT)]
    stated, found = levels[-1], list[int]()
    for place, value in enumerate(curve.risks):
        stated = value if place % step == first else stated
        found.append(levels[min(bisect_left(levels, stated), len(kept))])
    return RiskCurve(curve.thresholds, tuple(found))
