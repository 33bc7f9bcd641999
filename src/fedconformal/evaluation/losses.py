"""Mean losses of test rows, overall and by site, with confidence intervals for bounded losses of independent rows.

A promise to a mixture of the sites concerns sum_k lambda_k mean_k. `stratified_interval` is valid for it, as
E exp(h L) <= 1 + E L (exp(h) - 1) for a loss in [0, 1]. The mean loss of a site without rows is from 0 to the bound.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from fedconformal._base.arrays import Floats, as_array
from fedconformal._base.groups import as_sites
from fedconformal._base.names import join_names, name_key
from fedconformal.errors import InputError
from fedconformal.evaluation.claims import SITES_UNKNOWN
from fedconformal.evaluation.intervals import CONFIDENCE, stratified_interval
from fedconformal.guarantees.binomial import mean_between


class LossGroup(msgspec.Struct, frozen=True, kw_only=True):
    """A group of rows: size, mean loss, and confidence interval of the mean."""

    name: str
    rows: int
    mean_loss: float
    low: float
    high: float

    @property
    def mean(self) -> float:
        """The mean loss."""
        return self.mean_loss

    @property
    def cells(self) -> tuple[str, ...]:
        """Cells of a table row."""
        return self.name, str(self.rows), f"{self.mean_loss:.4f}", f"{self.low:.4f}", f"{self.high:.4f}"


class LossEvaluation(msgspec.Struct, frozen=True, kw_only=True):
    """Mean loss overall, by site, and of the promised mixture of the sites."""

    overall: LossGroup
    by_site: list[LossGroup]
    mixture: LossGroup | None = None
    """The promised mixture of the sites, if there is one and the site of each row is known."""
    note: str = ""
    """Limits of the weighting to the promised mixture."""

    columns = ("rows", "mean loss", "low", "high")

    @property
    def judged(self) -> LossGroup:
        """Mean loss that is compared with the promise: of the promised mixture, or of all rows."""
        return self.overall if self.mixture is None else self.mixture

    def to_dict(self) -> Any:
        """Return plain lists, dicts and numbers for JSON."""
        return msgspec.to_builtins(self)


def evaluate_losses(
    losses: ArrayLike,
    *,
    bound: float = 1,
    sites: ArrayLike | None = None,
    shares: Mapping[str, float] | None = None,
) -> LossEvaluation:
    """Return the mean of losses, one per row, with a 95% interval; `shares` are the weights of a promised mixture.

    >>> result = evaluate_losses([0.5] * 50 + [0.0] * 50, sites=["a", "b"] * 50)
    >>> result.overall.cells, len(result.by_site)
    (('all', '100', '0.2500', '0.1550', '0.3660'), 2)
    >>> result = evaluate_losses([0.5] * 75 + [0.0] * 25, sites=["a"] * 75 + ["b"] * 25, shares={"a": 0.1, "b": 0.9})
    >>> result.judged.cells
    ('promised mixture', '100', '0.0500', '0.0014', '0.2364')
    """
    values = as_array(losses, "losses").astype(np.float64)
    if values.ndim != 1 or not len(values):
        raise InputError(f"have shape {values.shape}, expected one loss per row", where="losses")
    good = (values >= 0) & (values <= bound)
    if not good.all():
        row = int(np.argmin(good))
        raise InputError(f"is {values[row]:g}, expected a loss from 0 to the bound {bound:g}", where="losses", row=row)
    overall = _group("all", values, bound)
    if sites is None:
        note = "" if shares is None or len(shares) == 1 else SITES_UNKNOWN
        return LossEvaluation(overall=overall, by_site=[], note=note)
    ids = as_sites(sites, rows=len(values))
    groups = [_group(str(site), values[ids == site], bound) for site in np.unique(ids)]
    if shares is None:
        return LossEvaluation(overall=overall, by_site=groups)
    of_site = {name_key(group.name): group for group in groups}
    here = {site: share for site, share in shares.items() if site in of_site}
    lacking, others = [site for site in shares if site not in here], [site for site in of_site if site not in here]
    note = f"The promised mixture has no rows of {join_names(lacking)}, which may lose anything." if lacking else ""
    note += f" The rows of {join_names(others)} do not count: the promise is not about them." if others else ""
    mixture = _mixture([of_site[site] for site in here], np.array(list(here.values())), overall, bound)
    return LossEvaluation(overall=overall, by_site=groups, mixture=mixture, note=note.strip())


def _mixture(groups: list[LossGroup], shares: Floats, overall: LossGroup, bound: float) -> LossGroup:
    rows, means = np.array([group.rows for group in groups]), np.array([group.mean_loss / bound for group in groups])
    low, high, mean, total = 0.0, 1.0, 0.0, int(rows.sum())
    if total and np.allclose(shares * overall.rows, rows, rtol=1e-12):  # in the promised shares already
        low, high, mean = overall.low / bound, overall.high / bound, overall.mean_loss / bound
    elif total:
        low, high = stratified_interval(means, rows, shares)
        mean = float(shares @ means / shares.sum())
    return LossGroup(name="promised mixture", rows=total, mean_loss=mean * bound, low=low * bound, high=high * bound)


def _group(name: str, losses: Floats, bound: float) -> LossGroup:
    total = Fraction(math.fsum(losses.tolist())) / Fraction(bound)
    total = min(total, Fraction(len(losses)))
    low, high = mean_between(len(losses), total, 1 - CONFIDENCE)
    mean = float(total / len(losses)) * bound
    return LossGroup(name=name, rows=len(losses), mean_loss=mean, low=float(low) * bound, high=float(high) * bound)
