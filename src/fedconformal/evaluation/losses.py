"""Losses of new rows: their mean with an interval that holds for any bounded losses, over all rows and by site.

The interval is that of `guarantees/bounded_mean.py`, at both ends; it takes independent rows, which need not be alike.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from fedconformal._base.arrays import Floats, as_array, as_clients
from fedconformal.errors import InputError
from fedconformal.evaluation.intervals import CONFIDENCE
from fedconformal.guarantees.bounded_mean import mean_between


class LossGroup(msgspec.Struct, frozen=True, kw_only=True):
    """The rows of one group: how many, their mean loss, and where the mean of such rows lies."""

    name: str
    rows: int
    mean_loss: float
    low: float
    high: float

    @property
    def cells(self) -> tuple[str, ...]:
        """Write as a row of a table."""
        return self.name, str(self.rows), f"{self.mean_loss:.4f}", f"{self.low:.4f}", f"{self.high:.4f}"


class LossEvaluation(msgspec.Struct, frozen=True, kw_only=True):
    """The mean loss over all rows, and by site."""

    overall: LossGroup
    by_client: list[LossGroup]

    columns = ("rows", "mean loss", "low", "high")

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists, dicts, numbers and strings, as JSON has them."""
        built: dict[str, Any] = msgspec.to_builtins(self)
        return built


def evaluate_losses(losses: ArrayLike, *, bound: float = 1, clients: ArrayLike | None = None) -> LossEvaluation:
    """Return the mean of losses, one a row, with a 95% interval.

    >>> found = evaluate_losses([0.5] * 50 + [0.0] * 50, clients=["a", "b"] * 50)
    >>> found.overall.cells, len(found.by_client)
    (('all', '100', '0.2500', '0.1550', '0.3660'), 2)
    """
    values = as_array(losses, "losses").astype(np.float64)
    if values.ndim != 1 or not len(values):
        raise InputError(f"losses: have shape {values.shape}, expected one loss a row")
    good = (values >= 0) & (values <= bound)
    if not good.all():
        row = int(np.argmin(good))
        raise InputError(f"losses: row {row} is {values[row]:g}, expected a loss from 0 to the bound {bound:g}")
    groups = []
    if clients is not None:
        ids = as_clients(clients, rows=len(values))
        groups = [_group(str(one), values[ids == one], bound) for one in np.unique(ids)]
    return LossEvaluation(overall=_group("all", values, bound), by_client=groups)


def _group(name: str, losses: Floats, bound: float) -> LossGroup:
    total = Fraction(math.fsum(losses.tolist())) / Fraction(bound)
    total = min(total, Fraction(len(losses)))
    low, high = mean_between(len(losses), total, 1 - CONFIDENCE)
    mean = float(total / len(losses)) * bound
    return LossGroup(name=name, rows=len(losses), mean_loss=mean, low=float(low) * bound, high=float(high) * bound)
