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

from fedconformal._base.arrays import ALPHA_UNIT, as_alpha, shares_of
from fedconformal.calibration.curve import USUAL_ALPHAS, AnyCurve, PromiseCurve, RiskCurve, in_units
from fedconformal.calibration.predictor import Predictor
from fedconformal.calibration.risk import as_limit
from fedconformal.certificates.certificate import Certificate, Promise, RiskRecord, threshold_json
from fedconformal.errors import InputError
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


def published(predictor: Predictor, *, exact: bool = False) -> Predictor:
    """Round the thresholds of a predictor, and keep few alphas of its promise curves; or mark it as exact."""
    about = predictor.certificate
    if exact:
        return replace(predictor, certificate=msgspec.structs.replace(about, exact=True))
    if about.risk is not None:
        (curve,), (promise,) = predictor.curves, about.promises
        if not isinstance(curve, RiskCurve):
            raise InputError("a promise on losses needs the curve of a risk")
        risks = _few_risks(curve, about, about.risk)
        limit = threshold_json(risks.threshold(as_limit(about.risk.limit, about.risk.bound)))
        rounded = [msgspec.structs.replace(promise, threshold=limit)]
        certificate = msgspec.structs.replace(about, promises=rounded)
        return replace(predictor, certificate=certificate, make_curves=lambda: [risks])
    score, rows = None if about.score is None else predictor.score, _rows(about)
    promises = [
        msgspec.structs.replace(one, threshold=_rounded(one, n, score))
        for one, n in zip(about.promises, rows, strict=True)
    ]
    few = partial(_few_alphas, about=about, score=score)
    return replace(
        predictor,
        certificate=msgspec.structs.replace(about, promises=promises),
        make_curves=lambda: list(map(few, predictor.curves, promises, rows)),
    )


def _rows(about: Certificate) -> list[int]:
    """Return the number of rows by which the threshold of each promise is rounded: of its group in equal parts.

    The threshold of a row without a site is rounded as coarsely as that of the smallest site: it is never below one.
    """
    groups = {key: part for key, part in about.parts.items() if part[0].group and len(part) > 1}
    share = {key: sum(one.scores for one in part) // len(part) for key, part in groups.items()}
    least = min((one.scores for one in about.promises if one.site is not None), default=about.scores)
    return [
        share.get(one.group or "", min(one.scores, least) if one.site is None else one.scores) for one in about.promises
    ]


def _rounded(promise: Promise, rows: int, score: AnyScore | None) -> Any:
    """Round a threshold up, and that of a lower end down."""
    if promise.end == "lower":
        return threshold_json(0.0 - round_up(-promise.limit, rows, score))
    return threshold_json(round_up(promise.limit, rows, score))


def _few_alphas(
    curve: AnyCurve | None, promise: Promise, rows: int, *, about: Certificate, score: AnyScore | None
) -> PromiseCurve | None:
    """Return the curve at few alphas."""
    if not isinstance(curve, PromiseCurve):
        return None
    alphas = [as_alpha(about.alpha), *ALPHAS]
    if promise.end is None or score is None or score.lower_share is None:
        return _few(curve, alphas, rows, score=score)
    lower, upper = zip(*(shares_of(alpha, score.lower_share) for alpha in alphas), strict=True)
    if promise.end == "lower":
        return _few(curve, lower, rows, score=score, ends=2)
    levels = (*ALPHAS, *(1 - alpha for alpha in ALPHAS))  # of the predictive distribution
    return _few(curve, upper + levels, rows, score=score, ends=2)


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
