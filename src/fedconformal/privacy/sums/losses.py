"""Loss curves through sums: the same search, over the thresholds of a public grid in place of cells of scores.

The kept part of all rows, sum_i (1 - L_i(t)/B) in units of a row, rises along the grid as losses fall; its increments
are a histogram of rows that count in part. Losses that may rise have no such search.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from fedconformal._base.arrays import ALPHA_UNIT, Integers
from fedconformal._base.float_bits import Keys
from fedconformal.calibration.risk import RiskCurve, as_limit, may_rise
from fedconformal.errors import InputError
from fedconformal.guarantees import Guarantee
from fedconformal.guarantees.guarantee import Counts, check_unit, whole_type
from fedconformal.guarantees.pac import LearnThenTest
from fedconformal.privacy.sums.messages import Losses
from fedconformal.privacy.sums.radix import Rounds, summable
from fedconformal.summaries import Provenance
from fedconformal.summaries.losses import UNIT, LossSummary, grid_of


class LossRounds(Rounds):
    """Rounds of a search over a grid of thresholds; a row weighs as many units as make one.

    >>> from fedconformal.privacy.sums.radix import Search
    >>> LossRounds(np.arange(4.0), target=UNIT, rows=2).histogram(Search(), np.array([5, 0, 2, 7], dtype=np.uint64))
    array([5, 0, 2, 7], dtype=uint32)
    """

    unit = UNIT

    def weights(self, keys: Keys) -> tuple[Integers, Keys]:
        """Return the places of the thresholds, and what the rows of a site keep more at each."""
        return np.arange(len(keys)), keys


def terms_of(sites: Sequence[Any], risk: Any) -> Losses:
    """Return the terms of a session for these loss curves; that the others have the same is for the sites to check."""
    if not sites or not isinstance(sites[0], LossSummary):
        raise InputError("risk is for loss curves; summarise with loss=", param="risk")
    bound = sites[0].bound
    return Losses(float(as_limit(risk, bound)), bound, sites[0].provenance.grid or b"")


def limit_of(terms: Losses) -> Fraction:
    """Return the limit of an invitation, which may be hostile."""
    Provenance(bound=terms.bound, grid=terms.grid)
    return as_limit(terms.limit, terms.bound)


def loss_rounds(terms: Losses, guarantee: Guarantee, sizes: Counts) -> LossRounds:
    """Return the rounds of a session for loss curves."""
    target = kept_needed(guarantee, sizes, limit_of(terms) / Fraction(terms.bound))
    return LossRounds(np.frombuffer(terms.grid, dtype="<f8"), target, sum(sizes))


def kept_needed(guarantee: Guarantee, sizes: Counts, share: Fraction) -> int:
    """Return how many units of all rows have to be kept so that at most this share is promised to be lost.

    One more than there are if even all are not enough.

    >>> from fedconformal import Mixture
    >>> kept_needed(Mixture(), [10, 20], Fraction(1, 2)) / UNIT  # half of 30 rows and two that lose all
    16.0
    """
    check_losses(guarantee)
    _, promise = guarantee.grouped(sizes, UNIT)
    low, high = -1, sum(sizes) * UNIT + 1
    while high - low > 1:
        middle = (low + high) // 2
        (promised,) = promise(np.array([[middle]], dtype=whole_type(high)))
        low, high = (low, middle) if 1 - promised <= share else (middle, high)
    return high


def check_losses(guarantee: Guarantee) -> None:
    """Refuse guarantees that one sum of losses does not serve."""
    summable(guarantee)
    if isinstance(guarantee, LearnThenTest):
        raise InputError("learn-then-test needs the losses at every threshold, and sums show a few; use pac")
    check_unit(guarantee)


def check_terms(provenance: Provenance, terms: Losses | None, label: str) -> None:
    """Refuse scores where losses are asked for, losses where scores are, and losses of another kind."""
    if (terms is None) != (provenance.grid is None):
        has, asked = ("scores", "losses") if terms is not None else ("losses", "scores")
        raise InputError(f"{label} has {has}, and the session is for {asked}")
    if terms is None:
        return
    expected = Provenance(loss=provenance.loss, bound=terms.bound, grid=terms.grid)
    mine = Provenance(loss=provenance.loss, bound=provenance.bound, grid=provenance.grid)
    if difference := expected.difference(mine):
        raise InputError(f"the session and {label} do not go together: {difference}")
    if may_rise(provenance):
        raise InputError(f"{label} has losses that may rise along the grid, and a search needs losses that fall")


def kept_more(summary: LossSummary) -> Any:
    """Return what a site's rows keep more at each threshold than at the one before, in units."""
    if may_rise(summary.provenance):
        raise InputError(f"{summary} has losses that may rise along the grid, and a search needs some that fall")
    return np.diff(summary.n * UNIT - summary.units, prepend=0).astype("<u8")


def risk_curve(provenance: Provenance, threshold: float, limit: Fraction) -> RiskCurve:
    """Return the curve that promises the limit from the threshold on, and nothing below it."""
    grid, bound = grid_of(provenance), Fraction(provenance.bound or 0)
    return RiskCurve(grid, tuple(math.ceil((limit if t >= threshold else bound) * ALPHA_UNIT) for t in grid.tolist()))
