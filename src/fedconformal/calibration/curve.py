"""Promise curves: step functions from thresholds to the coverage, or the expected loss, that they promise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Annotated, Any

import msgspec
import numpy as np

from fedconformal._base.arrays import ALPHA_UNIT, Floats, Integers, rising
from fedconformal.errors import InputError
from fedconformal.summaries.provenance import MAX_GRID

MAX_POINTS = 1024
USUAL_ALPHAS = (*(Fraction(i, 100) for i in range(1, 51)), *(Fraction(i, 1000) for i in (1, 2, 5, 25)))
"""A promise curve is exact at these."""


class CurveFields(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A curve in a file: thresholds and levels, in whole multiples of 1e-15."""

    thresholds: list[float]
    promised: list[Annotated[int, msgspec.Meta(ge=0)]]

    def built(self, *, losses: bool) -> PromiseCurve | RiskCurve:
        """Check it and return the curve."""
        thresholds = np.array(self.thresholds, dtype=np.float64)
        if losses:
            return RiskCurve(thresholds, tuple(self.promised))
        if max(self.promised, default=0) >= ALPHA_UNIT:
            raise InputError("the predictor is malformed: the promised coverage is not below 1")
        return PromiseCurve(thresholds, np.array(self.promised, dtype=np.int64))


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
        if not 1 <= len(self.thresholds) == len(self.promised) <= MAX_POINTS:
            raise InputError(f"the promise curve needs 1 to {MAX_POINTS} points, equally many in both columns")
        if not np.isfinite(self.thresholds).all() or not rising(self.thresholds):
            raise InputError("the promise curve's thresholds are not finite and rising")
        if self.promised[0] < 0 or self.promised[-1] >= ALPHA_UNIT or not rising(self.promised):
            raise InputError("the promise curve's coverage is not rising between 0 and 1")

    @property
    def most(self) -> Fraction:
        """The largest coverage that any threshold promises."""
        return Fraction(int(self.promised[-1]), ALPHA_UNIT)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields for JSON."""
        return {"thresholds": self.thresholds.tolist(), "promised": self.promised.tolist()}

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
        found: Floats = self._p_values[np.searchsorted(self.thresholds, scores, side="left")]
        return found

    @cached_property
    def _p_values(self) -> Floats:
        """The p-value between each two thresholds; a server asks for them with every row."""
        return (ALPHA_UNIT - np.append(0, self.promised)) / ALPHA_UNIT


@dataclass(frozen=True, eq=False)
class RiskCurve:
    """The expected loss promised at each threshold of a grid, in whole multiples of 1e-15, rounded up.

    >>> curve = RiskCurve(np.array([0.2, 0.7]), (5 * 10**14, 10**14))
    >>> curve.threshold(Fraction(1, 10)), curve.threshold(Fraction(1, 20)), curve.risk(0.5)
    (0.7, inf, Fraction(1, 2))
    """

    thresholds: Floats
    risks: tuple[int, ...]

    def __post_init__(self) -> None:
        if not 1 <= len(self.thresholds) == len(self.risks) <= MAX_GRID:
            raise InputError(f"the risk curve needs 1 to {MAX_GRID} points, equally many in both columns")
        if not np.isfinite(self.thresholds).all() or not rising(self.thresholds):
            raise InputError("the risk curve's thresholds are not finite and rising")
        if min(self.risks) < 0:
            raise InputError("the risk curve's losses are negative")

    def to_dict(self) -> dict[str, Any]:
        """Return the fields for JSON."""
        return {"thresholds": self.thresholds.tolist(), "promised": list(self.risks)}

    def threshold(self, limit: Fraction) -> float:
        """Return the smallest threshold whose expected loss is at most the limit, or +inf."""
        most = math.floor(limit * ALPHA_UNIT)
        return next((float(t) for t, risk in zip(self.thresholds, self.risks, strict=True) if risk <= most), math.inf)

    def risk(self, threshold: float) -> Fraction | None:
        """Return the expected loss promised at a threshold; None below the grid."""
        place = int(np.searchsorted(self.thresholds, threshold, side="right"))
        return Fraction(self.risks[place - 1], ALPHA_UNIT) if place else None

    @property
    def least(self) -> Fraction:
        """The least expected loss that any threshold promises."""
        return Fraction(min(self.risks), ALPHA_UNIT)


AnyCurve = PromiseCurve | RiskCurve


def in_units(coverage: Fraction) -> int:
    """Round promised coverage down to a whole multiple of 1e-15."""
    return coverage.numerator * ALPHA_UNIT // coverage.denominator
