"""Promise curves: step functions from thresholds to the coverage, or the expected loss, that they promise.

A calibration score in a published file tells who was in the calibration: with the model, a candidate's score is
computed for every label and looked up. So thresholds are rounded up to a public grid, which only adds labels, and the
curve keeps the certified alpha and one more for every 64 rows. It states the target of a threshold, not a count. The
grid depends on the score and on the number of rows, n, alone: its steps are 1 to 4 parts in sqrt(n) of a threshold.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Annotated, Any

import msgspec
import numpy as np

from fedconformal._base.arrays import ALPHA_UNIT, Floats, Integers, rising
from fedconformal._base.names import abbreviate
from fedconformal.errors import InputError
from fedconformal.losses.loss import Loss
from fedconformal.scores import AnyScore, RegressionScore, Score
from fedconformal.summaries.provenance import MAX_GRID

MAX_POINTS = 1024
USUAL_ALPHAS = (*(Fraction(i, 100) for i in range(1, 51)), *(Fraction(i, 1000) for i in (1, 2, 5, 25)))
"""An exact promise curve is exact at these."""
ROWS_AN_ALPHA = 64
"""A published curve has one more alpha for each of this many rows."""
FIRST = [Fraction(i, 100) for i in (10, 5, 20, 1, 50, 2, 30, 25, 15, 40)]
ALPHAS = [*FIRST, *(alpha for alpha in USUAL_ALPHAS if alpha not in FIRST)]
"""The alphas of a published curve; with few rows it has the first of them."""


class CurveFields(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A curve in a file: thresholds and levels, in whole multiples of 1e-15."""

    thresholds: list[float]
    promised: list[Annotated[int, msgspec.Meta(ge=0)]]

    def built(self, *, losses: bool) -> AnyCurve:
        """Check it and return the curve."""
        thresholds = np.array(self.thresholds, dtype=np.float64)
        if losses:
            return RiskCurve(thresholds, tuple(self.promised))
        if max(self.promised, default=0) >= ALPHA_UNIT:
            raise InputError("the predictor is malformed: the promised coverage is not below 1")
        return PromiseCurve(thresholds, np.array(self.promised, dtype=np.int64))


def _check_thresholds(thresholds: Floats, levels: Sequence[int] | Integers, most: int) -> None:
    if not 1 <= len(thresholds) == len(levels) <= most:
        raise InputError(f"the promise curve needs 1 to {most} points, equally many in both columns")
    if not np.isfinite(thresholds).all() or not rising(thresholds):
        raise InputError("the promise curve's thresholds are not finite and rising")


@dataclass(frozen=True, eq=False)
class PromiseCurve:
    """The coverage promised at each threshold, in whole multiples of 1e-15, rounded down; at most 1,024 steps.

    >>> curve = PromiseCurve(np.array([0.2, 0.7]), np.array([5 * 10**14, 9 * 10**14]))
    >>> curve.threshold(Fraction(1, 10)), curve.threshold(Fraction(1, 20))
    (0.7, inf)
    >>> curve.p_values(np.array([0.1, 0.2, 0.5, 0.8]))
    array([1. , 1. , 0.5, 0.1])
    """

    thresholds: Floats
    promised: Integers

    def __post_init__(self) -> None:
        _check_thresholds(self.thresholds, self.promised, MAX_POINTS)
        if self.promised[0] < 0 or self.promised[-1] >= ALPHA_UNIT or not rising(self.promised):
            raise InputError("the promise curve's coverage is not rising between 0 and 1")

    def fields(self) -> CurveFields:
        """Return the fields for a file."""
        return CurveFields(self.thresholds.tolist(), self.promised.tolist())

    def threshold(self, alpha: Fraction) -> float:
        """Return the smallest threshold that promises 1 - alpha, or +inf."""
        level = math.ceil((1 - alpha) * ALPHA_UNIT)
        index = int(np.searchsorted(self.promised, level, side="left"))
        return float(self.thresholds[index]) if index < len(self.thresholds) else math.inf

    def coverage(self, threshold: float) -> Fraction:
        """Return the coverage promised by a threshold."""
        index = int(np.searchsorted(self.thresholds, threshold, side="right"))
        return Fraction(int(self.promised[index - 1]), ALPHA_UNIT) if index else Fraction(0)

    def p_values(self, scores: Floats) -> Floats:
        """Return one minus the coverage promised just below each score.

        Then {p > alpha} is {score <= threshold(alpha)}, exactly.
        """
        below = np.append(0, self.promised)[np.searchsorted(self.thresholds, scores, side="left")]
        return (ALPHA_UNIT - below) / ALPHA_UNIT

    def few(
        self, alphas: Sequence[Fraction], rows: int, score: AnyScore | None = None, *, ends: int = 1
    ) -> PromiseCurve:
        """Return the rounded thresholds at the first alphas, as many as the rows allow at each end."""
        kept = list(dict.fromkeys(alphas))[: 1 + rows // ends // ROWS_AN_ALPHA]
        found = {round_up(self.threshold(one), rows, score): in_units(1 - one) for one in sorted(kept, reverse=True)}
        found.pop(math.inf, None)
        if not found:  # nothing is promised at any finite threshold
            found = {float(np.finfo(np.float64).max): 0}
        return PromiseCurve(np.array(list(found)), np.array(list(found.values()), dtype=np.int64))


@dataclass(frozen=True, eq=False)
class RiskCurve:
    """The expected loss promised at each threshold of a grid, in whole multiples of 1e-15, rounded up.

    >>> curve = RiskCurve(np.array([0.2, 0.7]), (5 * 10**14, 10**14))
    >>> curve.threshold(Fraction(1, 10)), curve.threshold(Fraction(1, 20))
    (0.7, inf)
    """

    thresholds: Floats
    risks: tuple[int, ...]

    def __post_init__(self) -> None:
        _check_thresholds(self.thresholds, self.risks, MAX_GRID)
        if min(self.risks) < 0:
            raise InputError("the risk curve's losses are negative")

    def fields(self) -> CurveFields:
        """Return the fields for a file."""
        return CurveFields(self.thresholds.tolist(), list(self.risks))

    def threshold(self, limit: Fraction) -> float:
        """Return the smallest threshold whose expected loss is at most the limit, or +inf."""
        most = math.floor(limit * ALPHA_UNIT)
        return next((float(t) for t, risk in zip(self.thresholds, self.risks, strict=True) if risk <= most), math.inf)

    @property
    def least(self) -> Fraction:
        """The least expected loss that any threshold promises."""
        return Fraction(min(self.risks), ALPHA_UNIT)

    def few(self, limit: Fraction, bound: Fraction, rows: int) -> RiskCurve:
        """Round the expected losses up to the certified limit, to a few others, or to the bound.

        Losses that fall do so at the last threshold of the grid and at every k-th before it, 4 sqrt(n) of them at most;
        at those between, the loss is that of the one before.
        """
        falling = all(one >= after for one, after in pairwise(self.risks))
        step = 1 + (len(self.risks) - 1) // (4 * math.isqrt(rows)) if falling else 1
        first = (len(self.risks) - 1) % step
        limits = [limit, *(alpha * bound for alpha in ALPHAS)]
        kept = sorted(math.floor(one * ALPHA_UNIT) for one in limits[: 1 + rows // ROWS_AN_ALPHA])
        levels = [*kept, math.ceil(bound * ALPHA_UNIT)]
        stated, found = levels[-1], list[int]()
        for place, value in enumerate(self.risks):
            stated = value if place % step == first else stated
            found.append(levels[min(bisect_left(levels, stated), len(kept))])
        return RiskCurve(self.thresholds, tuple(found))


AnyCurve = PromiseCurve | RiskCurve


def in_units(coverage: Fraction) -> int:
    """Round promised coverage down to a whole multiple of 1e-15."""
    return coverage.numerator * ALPHA_UNIT // coverage.denominator


def as_limit(risk: Any, bound: float, loss: Loss | None = None) -> Fraction:
    """Read a limit on the expected loss as the decimal that was typed, rounded down to 15 places.

    A limit that the loss is not made for is refused.

    >>> as_limit("0.1", bound=1)
    Fraction(1, 10)
    """
    try:
        exact = risk if isinstance(risk, Fraction) else Fraction(repr(float(str(risk))))
        exact = Fraction(math.floor(exact * ALPHA_UNIT), ALPHA_UNIT)
    except (ValueError, OverflowError):
        exact = Fraction(0)
    if not 0 < exact < Fraction(bound):
        raise InputError(f"risk is {abbreviate(risk)}, expected a number above 0 and below the bound {bound:g}")
    if loss is not None and loss.only_limit is not None and as_limit(loss.only_limit, 1) != exact:
        only = f"the losses were made for {loss.only_limit:g} by {loss}; calibrate at that"
        raise InputError(f"risk is {float(exact):g}, and {only}", param="risk")
    return exact


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
    """Round up to this number of binary digits."""
    if not math.isfinite(q):
        return q
    fraction, exponent = math.frexp(q)
    try:
        return math.ldexp(math.ceil(math.ldexp(fraction, digits)), exponent - digits) + 0.0
    except OverflowError:
        return float(np.finfo(np.float64).max)
