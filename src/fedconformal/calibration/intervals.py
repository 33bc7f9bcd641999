"""Ends of prediction intervals, and levels of predictive distributions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from fedconformal._base.arrays import Floats, as_alpha, as_array
from fedconformal._base.names import abbreviate
from fedconformal.calibration.curve import USUAL_ALPHAS, PromiseCurve
from fedconformal.certificates.certificate import Certificate
from fedconformal.errors import InputError
from fedconformal.scores import RegressionScore

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
EXACT_LEVELS = sorted({level for alpha in USUAL_ALPHAS for level in (alpha, 1 - alpha)})
"""The curve of the upper end is exact at these."""


def ends(
    score: RegressionScore, predictions: ArrayLike, upper: float, lower: float | None, precision: str | None
) -> Floats:
    """Return the ends for predictions as they were scored at calibration, in float32 if `precision` says so.

    Predictions with fewer digits may be rounded from others, at most one step away. The ends go that much further out,
    so that no coverage is lost to the rounding.
    """
    given, scored = as_array(predictions, "predictions"), np.dtype(precision or np.float64)
    with np.errstate(over="ignore"):  # a number too large for float32 is refused as not finite
        found = score.interval(given.astype(np.float32) if scored == np.float32 else given, upper, lower)
    if given.dtype.kind == "f" and given.dtype.itemsize < scored.itemsize:
        steps = np.spacing(np.abs(given)).astype(np.float64).reshape(len(found), -1).sum(axis=1)
        for end, (threshold, sign) in enumerate([(upper if lower is None else lower, -1.0), (upper, 1.0)]):
            found[:, end] += sign * steps * max(1.0, abs(threshold))
    return found


def distribution_band(certificate: Certificate, upper: PromiseCurve, levels: Sequence[float] | Floats) -> Floats:
    """Return (L, 2) bounds on the probability that y is at most, or below, the number of each level."""
    if certificate.status != "certified":
        return np.tile([0.0, 1.0], (len(levels), 1))
    guarantee, names, sizes = certificate.terms()
    bound, slack = guarantee.bind(names, sizes).bind((), sizes, "end"), certificate.whole[0].slack
    found = []
    for level in as_levels(levels):
        finite = math.isfinite(upper.threshold(1 - level))
        exact = next((one for one in EXACT_LEVELS if one >= level and certificate.exact), None)
        most = 1.0 if exact is None else float(bound.band(1 - exact, sizes).most) + slack
        least = float(bound.band(1 - level, sizes).least) if finite else 1.0
        found.append((least, min(1.0, most) if finite else 1.0))
    return np.array(found)


def as_levels(levels: Sequence[float] | Floats) -> list[Fraction]:
    """Check levels of a distribution, as the decimals that were typed, rounded up to 15 places.

    >>> as_levels([0.25, 0.5])
    [Fraction(1, 4), Fraction(1, 2)]
    """
    try:
        found = [1 - as_alpha(1 - Fraction(repr(float(level)))) for level in levels]
    except (ValueError, TypeError, OverflowError):
        found = []
    if not found:
        raise InputError(f"levels are {abbreviate(levels)}, expected numbers between 0 and 1", param="levels")
    return found
