"""Calibrate from loss curves: the smallest threshold of the grid whose expected loss is at most a limit.

Where a guarantee promises a share of rows, it promises the same of rows that count in part, m_k(t) = sum_i (1 -
L_i(t)/B), so the mean loss is at most B (1 - what is promised). In proportion to n_k + 1 that is (sum L + K B)/(N + K).
Proof: add a virtual row to every site. The smallest t at which all losses, with these, add up to at most a (N + K) is
symmetric within every site, so the mixture's mean loss there is at most a; taking B for the virtual losses can only
raise it. One virtual row at the site of the test row is not enough (tests/validity/test_risk.py). Where no threshold of
the grid is good enough, the answer is one more, beyond its end: a safe action, which never loses more than the limit,
nor than the last threshold does on the same row. An action that loses the limit always is not safe (.54 at .5).
Angelopoulos, Bates, Fisch, Lei and Schuster, "Conformal risk control", 2022, for one site.
"""

from __future__ import annotations

import hashlib
import math
import warnings
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedconformal._base.arrays import ALPHA_UNIT, Integers
from fedconformal._base.names import abbreviate, as_line
from fedconformal.calibration.curve import RiskCurve
from fedconformal.calibration.strata import bound_for
from fedconformal.certificates import text
from fedconformal.certificates.certificate import RiskRecord, one_promise
from fedconformal.errors import InfeasibleWarning, InputError
from fedconformal.guarantees import PAC, Guarantee
from fedconformal.guarantees.guarantee import check_unit, feasible, whole_type
from fedconformal.losses.loss import Loss, described_loss
from fedconformal.summaries.batch import SummaryBatch
from fedconformal.summaries.losses import UNIT, LossSummary, grid_of
from fedconformal.summaries.provenance import Provenance, as_bound

MOST_SAFE = 200
CHUNK = 2**12


def _loss_curves(batch: SummaryBatch, guarantee: Guarantee) -> list[LossSummary]:
    """Refuse summaries that are no loss curves, and guarantees that promise nothing on losses."""
    curves: list[LossSummary] = []
    for summary in batch:
        if not isinstance(summary, LossSummary):
            raise InputError(f"{summary} sent scores, not losses; pass alpha=, or summarise there with loss=")
        curves.append(summary)
    check_unit(guarantee)
    if may_rise(curves[0].provenance) and not isinstance(guarantee, PAC):
        raise InputError(
            f"these losses may rise along the grid, and {guarantee.name} needs losses that fall; use learn-then-test"
        )
    return curves


def may_rise(provenance: Provenance) -> bool:
    """Whether a row's loss need not fall along the grid: it is so stated, or known of the loss, whatever rows show."""
    loss = described_loss(provenance.loss)
    return provenance.rising or (loss is not None and not loss.monotone)


def calibrate_risk(
    batch: SummaryBatch, risk: Any, guarantee: Guarantee, safe: str | None, *, sure: bool
) -> tuple[RiskCurve, dict[str, Any]]:
    """Return the curve of expected losses, and the fields of the certificate at the limit `risk`."""
    curves = _loss_curves(batch, guarantee)
    bound, sizes = bound_for(batch, guarantee), [n for some in batch.sizes for n in some]
    provenance, most = curves[0].provenance, Fraction(curves[0].bound)
    limit = as_limit(risk, curves[0].bound)
    safe = safe_action(provenance, limit, safe)
    group, promise = bound.grouped(sizes, UNIT)
    promised = promise(_kept(curves, group, sizes))
    risks = fixed_sequence([math.ceil(most * (1 - share) * ALPHA_UNIT) for share in promised], bound.walks)
    curve, alpha = RiskCurve(curves[0].grid, tuple(risks)), limit / most
    threshold = curve.threshold(limit)
    if threshold == math.inf:
        best = f"the best one promises {min(risks) / ALPHA_UNIT:.6g}"
        warn_of_no_threshold(bound, alpha, sizes, batch.names, limit, safe, best, stacklevel=5)
    return curve, {
        **one_promise(
            threshold,
            sum(sizes),
            least=float(1 - alpha) if sure and threshold < math.inf else 0.0,
            slack=float(bound.band(alpha, sizes, [curve.gap for curve in curves]).slack / UNIT),
        ),
        "alpha": float(alpha),
        "target": str(limit),
        "answers": text.LOSSES,
        "risk": risk_record(provenance, limit, safe),
    }


def fixed_sequence(risks: Sequence[int], walks: int = 1) -> list[int]:
    """Return the risk that is promised at each threshold of a grid: the largest from the end of its walk on.

    The last threshold of a walk is the safest; the first one from there whose risk is too large ends the tests.

    >>> fixed_sequence([3, 1, 2]), fixed_sequence([3, 1, 2, 4, 9, 5], walks=2)
    ([3, 2, 2], [3, 2, 2, 9, 9, 5])
    """
    found = list(risks)
    ends = {math.ceil(len(found) * (walk + 1) / walks) - 1 for walk in range(walks)}
    for place in range(len(found) - 2, -1, -1):
        if place not in ends:
            found[place] = max(found[place], found[place + 1])
    return found


def as_limit(risk: Any, bound: float) -> Fraction:
    """Read a limit on the expected loss as the decimal that was typed, rounded down to 15 places.

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
    return exact


def safe_action(provenance: Provenance, limit: Fraction, safe: str | None) -> str | None:
    """Check the limit against the loss, and return what to do where no threshold is good enough."""
    if loss := described_loss(provenance.loss):
        check_limit(loss, limit)
        safe = safe or loss.safe
    return as_safe(safe)


def check_limit(loss: Loss, limit: Fraction) -> None:
    """Refuse a limit that the loss was not made for."""
    if loss.only_limit is not None and as_limit(loss.only_limit, 1) != limit:
        raise InputError(
            f"risk is {float(limit):g}, and the losses were made for {loss.only_limit:g} by {loss}; calibrate at that"
        )


def as_safe(safe: Any) -> str | None:
    """Check what a safe action is called."""
    return None if safe is None else as_line(safe, "safe", MOST_SAFE)


def _kept(curves: Sequence[LossSummary], group: Integers | None, sizes: Sequence[int]) -> NDArray[Any]:
    """Add up what is kept of the rows, group by group, a few thousand sites at a time."""
    kind = whole_type(sum(sizes) * UNIT)
    place = np.zeros(len(curves), dtype=np.int64) if group is None else group
    sums = np.zeros((int(place.max()) + 1, len(curves[0].units)), dtype=kind)
    for start in range(0, len(curves), CHUNK):
        inside = slice(start, start + CHUNK)
        rows = np.array([sum(curve.sizes) for curve in curves[inside]], dtype=np.int64)[:, None]
        lost = np.concatenate([curve.units for curve in curves[inside]]).reshape(len(rows), -1)
        some = (rows * UNIT - lost).astype(kind, copy=False)
        order = np.argsort(place[inside], kind="stable")
        groups, firsts = np.unique(place[inside][order], return_index=True)
        sums[groups] += np.add.reduceat(some[order], firsts, axis=0)
    return sums


def risk_record(provenance: Provenance, limit: Fraction, safe: str | None) -> RiskRecord:
    """Say what a promise on these losses is about."""
    grid = grid_of(provenance)
    return RiskRecord(
        limit=float(limit),
        bound=as_bound(provenance.bound),
        points=len(grid),
        first=float(grid[0]),
        last=float(grid[-1]),
        grid_sha256=hashlib.sha256(provenance.grid or b"").hexdigest(),
        loss=provenance.loss,
        rising=provenance.rising,
        safe=safe,
    )


def warn_of_no_threshold(
    bound: Guarantee,
    alpha: Fraction,
    sizes: Sequence[int],
    names: Sequence[str],
    limit: Fraction,
    safe: str | None,
    best: str,
    *,
    stacklevel: int = 4,
) -> None:
    """Warn, and say why: too few rows, so that no loss at all would not be enough, or losses that are too large."""
    if not isinstance(bound, PAC) and not feasible(bound, alpha, sizes):
        best = text.shortfall(bound, alpha, sizes, names, answers=text.LOSSES)
    warnings.warn(text.no_threshold(limit, best, safe), InfeasibleWarning, stacklevel=stacklevel)
