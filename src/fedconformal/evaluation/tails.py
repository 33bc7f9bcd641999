"""Tail bounds on the number of misses of independent rows, whatever the miss rates of single sites are.

Rows that weigh alike: from t a + 1 on, the tail is no heavier than that of Bin(t, a) (Hoeffding, "On the distribution
of the number of successes in independent trials", 1956); for one site it is exact. Other rows: Chernoff's bound at the
worst miss rates p_k with sum lambda_k p_k <= a, where for every h >= 0 and, by duality, every v >= 0

    ln P(sum lambda_k S_k/t_k >= x) <= v a - h x + sum_k max_p (t_k ln(1 + p (exp(h lambda_k/t_k) - 1)) - v lambda_k p)

so that a search over (h, v) that stops early only makes the bound weaker.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from fedconformal._base.arrays import Booleans, Floats, Integers
from fedconformal.evaluation.intervals import clustered_interval

ROUNDING = 1e-9
"""A share of a tail that is given away for the errors of floats."""

STEPS = 40
LEAST_P = 1e-12
"""Tails of clusters are not followed further than this."""


def binomial_tail(misses: int, rows: int, rate: float, *, alike: bool = False) -> float:
    """Bound the probability of at least this many misses; one where Hoeffding's condition does not hold.

    >>> round(binomial_tail(140, 1000, 0.1159), 5)
    0.01129
    >>> binomial_tail(1, 2, 0.25), round(binomial_tail(1, 2, 0.25, alike=True), 5)
    (1.0, 0.4375)
    """
    from scipy.special import bdtrc

    if not misses or rate >= 1 or (not alike and misses < rows * rate + 1):
        return 1.0
    return min(1.0, float(bdtrc(misses - 1, rows, rate)) * (1 + ROUNDING))


def stratified_tail(found: float, rows: Integers, shares: Floats, rate: float) -> float:
    """Bound the probability that the weighted miss rate is at least `found`.

    `found` is the sum of each site's weight times its share of missed rows; `rate` bounds that of the mixture. `shares`
    add up to less than one where some sites have no row.

    >>> one = stratified_tail(0.15, np.array([400]), np.array([1.0]), 0.1)
    >>> round(one, 6), round(math.exp(-400 * (0.15 * math.log(1.5) + 0.85 * math.log(0.85 / 0.9))), 6)
    (0.007491, 0.007491)
    >>> round(stratified_tail(0.15, np.array([300, 100]), np.array([0.5, 0.5]), 0.1), 6)
    0.0598
    """
    from scipy.optimize import minimize

    if found <= rate or rate >= 1:
        return 1.0
    total = int(rows.sum())
    weigh = shares / rows * total  # what a row weighs, one on average

    def exponent(at: Floats) -> tuple[float, Floats]:
        h, v = at
        grown = np.expm1(h * weigh)
        with np.errstate(divide="ignore"):
            p = np.clip(1 / (v * weigh) - 1 / grown, 0, 1) if v > 0 else np.ones_like(weigh)
        inside = 1 + p * grown
        value = total * (v * rate - h * found) + float(rows @ (np.log(inside) - v * weigh * p))
        slope_h = -total * found + float(rows @ (p * weigh * (grown + 1) / inside))
        slope_v = total * rate - float(rows @ (weigh * p))
        return value / total, np.array([slope_h, slope_v]) / total

    near = min(found, 1 - 1e-9)
    h = math.log(near * (1 - rate) / (rate * (1 - near)))  # right if all rows weigh alike
    start = np.array([h, math.expm1(h) / (1 + rate * math.expm1(h))])
    most = 500 / float(weigh.max())
    best = minimize(
        exponent, np.minimum(start, [most, np.inf]), jac=True, method="L-BFGS-B", bounds=[(1e-12, most), (1e-12, None)]
    )
    return min(1.0, math.exp(min(0.0, total * float(best.fun))) * (1 + ROUNDING))


class Sample(NamedTuple):
    """Rows of a mixture: whether each is covered, its site and cluster where they count, and the weight of each site.

    Sites of the mixture that have no row count as never missed, so a miss rate that is too high is so for certain.
    """

    covered: Booleans
    sites: Integers | None = None
    """Numbered from 0; None if all rows weigh alike."""
    shares: Floats | None = None
    """The weight of every site that has rows; they add up to one, or less if some sites have none."""
    clusters: Integers | None = None
    alike: bool = False
    """Whether all rows are of one site."""

    @property
    def rows(self) -> int:
        """How many."""
        return len(self.covered)

    @property
    def missed(self) -> float:
        """The share of missed rows, each site with its weight."""
        if self.sites is None or self.shares is None:
            return 1 - float(self.covered.mean())
        return float(self.shares @ (np.bincount(self.sites, ~self.covered) / np.bincount(self.sites)))

    @property
    def complete(self) -> bool:
        """Whether every site with weight has rows."""
        return self.shares is None or abs(float(self.shares.sum()) - 1) < 1e-9

    def p_value(self, rate: float) -> float:
        """Bound how likely as many misses are if the mixture is missed at most this often; for clusters about."""
        return self._p(rate, None) if self.clusters is None else self._clustered_p(self.clusters, rate)

    def p_if(self, missed: float, rate: float) -> float:
        """Return the p-value if every site missed this share of its rows; of a cluster, all rows or none."""
        if self.clusters is not None:
            count = len(np.unique(self.clusters)) if self.complete else 0
            return binomial_tail(math.floor(missed * count + 1e-9), count, rate, alike=True)
        return self._p(rate, missed)

    def _p(self, rate: float, missed: float | None) -> float:
        if self.sites is not None and self.shares is not None:
            rows = np.bincount(self.sites)
            if not np.allclose(self.shares * self.rows, rows, rtol=1e-12):
                found = self.missed if missed is None else missed * float(self.shares.sum())
                return stratified_tail(found, rows, self.shares, rate)
        misses = np.count_nonzero(~self.covered) if missed is None else math.floor(missed * self.rows + 1e-9)
        return binomial_tail(int(misses), self.rows, rate, alike=self.alike)

    def _clustered_p(self, clusters: Integers, rate: float) -> float:
        """Find the least level at which the interval of the coverage is below 1 - rate; one if there is none."""
        if not self.complete or self.missed <= rate:
            return 1.0
        low, high = math.log(LEAST_P), math.log(0.5)  # the interval leaves 1 - rate out at the one, not at the other
        for _ in range(STEPS):
            middle = (low + high) / 2
            found = clustered_interval(
                self.covered,
                clusters,
                sites=self.sites,
                weights=self.shares,
                confidence=1 - 2 * math.exp(middle),
            )
            if found is None:
                return 1.0
            low, high = (low, middle) if found[1] < 1 - rate else (middle, high)
        return math.exp(high)
