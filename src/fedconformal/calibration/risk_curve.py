"""Which threshold of the grid promises which expected loss."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from fedconformal._base.arrays import ALPHA_UNIT, Floats, rising
from fedconformal.errors import InputError
from fedconformal.summaries.provenance import MAX_GRID


@dataclass(frozen=True, eq=False)
class RiskCurve:
    """At every threshold of the grid, the expected loss that is promised, in whole multiples of 1e-15, rounded up.

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
        """Write for JSON."""
        return {"thresholds": self.thresholds.tolist(), "risks": list(self.risks)}

    def threshold(self, limit: Fraction) -> float:
        """Return the smallest threshold whose expected loss is at most the limit, or +inf."""
        most = math.floor(limit * ALPHA_UNIT)
        return next((float(t) for t, risk in zip(self.thresholds, self.risks, strict=True) if risk <= most), math.inf)

    def risk(self, threshold: float) -> Fraction | None:
        """Return the expected loss that is promised at a threshold; None below the grid, where nothing is known."""
        place = int(np.searchsorted(self.thresholds, threshold, side="right"))
        return Fraction(self.risks[place - 1], ALPHA_UNIT) if place else None

    @property
    def least(self) -> Fraction:
        """The least that any threshold promises."""
        return Fraction(min(self.risks), ALPHA_UNIT)
