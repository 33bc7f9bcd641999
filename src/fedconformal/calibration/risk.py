"""Calibration from loss curves: the smallest threshold of the grid whose expected loss is at most a limit.

A guarantee on a share of rows extends to fractional counts m_k(t) = sum_i (1 - L_i(t)/B): the mean loss is at most
B (1 - the promised share) (docs/proofs.md). Beyond the grid is a safe action, whose loss never exceeds the limit, nor
the loss of the same row at the last threshold. Angelopoulos et al., "Conformal risk control", 2022, for one site.
"""

from __future__ import annotations

import hashlib
import math
import warnings
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedconformal._base.arrays import ALPHA_UNIT, Floats, Integers, rounded_down
from fedconformal._base.names import abbreviate, as_line
from fedconformal.calibration.search import ALPHAS, ROWS_AN_ALPHA, bound_for, check_thresholds
from fedconformal.certificates import text
from fedconformal.certificates.certificate import Certificate, Promise, RiskRecord, made_certificate, records_of
from fedconformal.errors import InfeasibleWarning, InputError
from fedconformal.guarantees import PAC, Guarantee
from fedconformal.guarantees.guarantee import check_unit, feasible, whole_type
from fedconformal.losses.loss import Loss, described_loss
from fedconformal.summaries.batch import SummaryBatch
from fedconformal.summaries.losses import UNIT, LossSummary
from fedconformal.summaries.provenance import MAX_GRID, combine_provenances


@dataclass(frozen=True, eq=False)
class RiskCurve:
    """Promised expected loss at each threshold of a grid, in units of 1e-15, rounded up.

    >>> curve = RiskCurve(np.array([0.2, 0.7]), (5 * 10**14, 10**14))
    >>> curve.threshold(Fraction(1, 10)), curve.threshold(Fraction(1, 20))
    (0.7, inf)
    """

    thresholds: Floats
    promised: tuple[int, ...]

    def __post_init__(self) -> None:
        check_thresholds(self.thresholds, self.promised, MAX_GRID)
        if min(self.promised) < 0:
            raise InputError("the risk curve's losses are negative")

    def threshold(self, limit: Fraction) -> float:
        """Return the smallest threshold whose expected loss is at most the limit, or +inf."""
        most = math.floor(limit * ALPHA_UNIT)
        return next(
            (float(t) for t, risk in zip(self.thresholds, self.promised, strict=True) if risk <= most), math.inf
        )

    @property
    def least(self) -> Fraction:
        """Smallest promised expected loss."""
        return Fraction(min(self.promised), ALPHA_UNIT)

    def few(self, limit: Fraction, bound: Fraction, rows: int) -> RiskCurve:
        """Round the expected losses up to the certified limit, to a few other levels, or to the bound."""
        # Non-increasing losses are stated at the last threshold and at every k-th before it, at most 4 sqrt(n) in all.
        falling = all(loss >= following for loss, following in pairwise(self.promised))
        step = 1 + (len(self.promised) - 1) // (4 * math.isqrt(rows)) if falling else 1
        first = (len(self.promised) - 1) % step
        limits = [limit, *(alpha * bound for alpha in ALPHAS)]
        few = sorted(math.floor(level * ALPHA_UNIT) for level in limits[: 1 + rows // ROWS_AN_ALPHA])
        levels = [*few, math.ceil(bound * ALPHA_UNIT)]
        stated, rounded = levels[-1], list[int]()
        for place, value in enumerate(self.promised):
            stated = value if place % step == first else stated
            rounded.append(levels[min(bisect_left(levels, stated), len(few))])
        return RiskCurve(self.thresholds, tuple(rounded))


def as_limit(risk: Any, bound: float, loss: Loss | None = None) -> Fraction:
    """Convert a limit on the expected loss to the decimal as typed, rounded down to 15 places.

    If the loss depends on the limit, other limits are refused.

    >>> as_limit("0.1", bound=1)
    Fraction(1, 10)
    """
    exact = rounded_down(risk)
    if not 0 < exact < Fraction(bound):
        raise InputError(f"risk is {abbreviate(risk)}, expected a number above 0 and below the bound {bound:g}")
    if loss is not None and loss.only_limit is not None and as_limit(loss.only_limit, 1) != exact:
        only = f"the losses of {loss} are for the limit {loss.only_limit:g}; calibrate at it"
        raise InputError(f"risk is {float(exact):g}, and {only}", param="risk")
    return exact


def _loss_curves(batch: SummaryBatch, guarantee: Guarantee) -> list[LossSummary]:
    """Refuse summaries that are not loss curves, and guarantees without a promise on losses."""
    curves: list[LossSummary] = []
    for summary in batch:
        if not isinstance(summary, LossSummary):
            raise InputError(f"{summary} sent scores, not losses; give alpha instead of risk, or summarise a loss")
        curves.append(summary)
    check_unit(guarantee)
    provenance, loss = curves[0].provenance, described_loss(curves[0].provenance.loss)
    may_rise = provenance.rising or (loss is not None and not loss.monotone)  # whether or not the observed losses rise
    if may_rise and not isinstance(guarantee, PAC):
        raise InputError(
            f"these losses may rise along the grid, and {guarantee.name} needs losses that fall; use learn-then-test"
        )
    return curves


def calibrate_risk(
    batch: SummaryBatch, risk: Any, guarantee: Guarantee, safe: str | None, *, sure: bool
) -> tuple[Certificate, Callable[[], Sequence[RiskCurve]]]:
    """Return the certificate at the limit `risk`, and the curve of expected losses."""
    summaries = _loss_curves(batch, guarantee)
    bound, sizes = bound_for(batch, guarantee), [n for some in batch.sizes for n in some]
    provenance, most, grid = combine_provenances(batch.provenances), summaries[0].bound, summaries[0].grid
    loss = described_loss(provenance.loss)
    limit, safe = as_limit(risk, most, loss), loss.safe if safe is None and loss is not None else safe
    record = RiskRecord(
        limit=float(limit),
        bound=most,
        points=len(grid),
        first=float(grid[0]),
        last=float(grid[-1]),
        grid_sha256=hashlib.sha256(provenance.grid or b"").hexdigest(),
        loss=provenance.loss,
        rising=provenance.rising,
        safe=None if safe is None else as_line(safe, "safe", 200),
    )
    group, promise = bound.grouped(sizes, UNIT)
    promised = promise(_kept(summaries, group, sizes))
    risks = fixed_sequence([math.ceil(Fraction(most) * (1 - share) * ALPHA_UNIT) for share in promised], bound.walks)
    curve, alpha = RiskCurve(grid, tuple(risks)), limit / Fraction(most)
    threshold = curve.threshold(limit)
    if threshold == math.inf:  # too few rows, or too large losses
        few = not isinstance(bound, PAC) and not feasible(bound, alpha, sizes)
        needed = text.shortfall(bound, alpha, sizes, batch.names, answers=text.LOSSES) if few else ""
        why = needed or f"the best one promises {float(curve.least):.6g}"
        warnings.warn(text.no_threshold(limit, why, safe), InfeasibleWarning, stacklevel=4)
    certificate = made_certificate(
        guarantee=guarantee,
        provenance=provenance,
        summaries=records_of(batch),
        status="certified" if sure else "estimated",
        alpha=float(alpha),
        target=limit,
        promises=[
            Promise.of(
                threshold,
                sum(sizes),
                least=float(1 - alpha) if sure and threshold < math.inf else 0.0,
                slack=float(bound.band(alpha, sizes, [one.gap for one in summaries]).slack / UNIT),
            )
        ],
        statement=text.statement(guarantee, batch.names, text.LOSSES),
        risk=record,
    )
    return certificate, lambda: [curve]


def fixed_sequence(risks: Sequence[int], walks: int = 1) -> list[int]:
    """Return the promised risk at each threshold of a grid: the maximum from there to the end of its walk.

    Tests start at the last, safest threshold of a walk, and stop at the first one whose risk is too large.

    >>> fixed_sequence([3, 1, 2]), fixed_sequence([3, 1, 2, 4, 9, 5], walks=2)
    ([3, 2, 2], [3, 2, 2, 9, 9, 5])
    """
    promised = list(risks)
    ends = {math.ceil(len(promised) * (walk + 1) / walks) - 1 for walk in range(walks)}
    for place in range(len(promised) - 2, -1, -1):
        if place not in ends:
            promised[place] = max(promised[place], promised[place + 1])
    return promised


def _kept(curves: Sequence[LossSummary], group: Integers | None, sizes: Sequence[int]) -> NDArray[Any]:
    """Return the fractional counts of the rows, in units, by group and threshold."""
    place = [0] * len(curves) if group is None else group.tolist()
    kind = whole_type(sum(sizes) * UNIT)
    sums = np.zeros((max(place) + 1, len(curves[0].units)), dtype=kind)
    for k, curve in zip(place, curves, strict=True):
        sums[k] += sum(curve.sizes) * UNIT - curve.units.astype(kind)
    return sums
