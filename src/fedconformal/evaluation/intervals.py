"""Confidence intervals of the coverage on test rows, and tail bounds on the number of misses.

Intervals: Clopper and Pearson (1934) for independent rows. For clusters, Korn and Graubard, "Confidence intervals for
proportions with small expected number of positive counts estimated from survey data", 1998: with the smaller of two
effective sample sizes, as the linearised variance is too small if the few clusters that were missed happen to be small
ones. The other is from the intraclass correlation.

Tails hold whatever the miss rates of single sites are. Rows that weigh alike: from t a + 1 on, the tail is no heavier
than that of Bin(t, a) (Hoeffding, "On the distribution of the number of successes in independent trials", 1956); for
one site it is exact. Other rows: Chernoff's bound at the worst miss rates p_k with sum lambda_k p_k <= a, where for
every h >= 0 and, by duality, every v >= 0

    ln P(sum lambda_k S_k/t_k >= x) <= v a - h x + sum_k max_p (t_k ln(1 + p (exp(h lambda_k/t_k) - 1)) - v lambda_k p)

so that a search over (h, v) that stops early only makes the bound weaker.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedconformal._base.arrays import Booleans, Floats, Integers

CONFIDENCE = 0.95
ROUNDING = 1e-9
"""A share of a tail that is given away for the errors of floats."""
STEPS = 40
LEAST_P = 1e-12
"""Tails of clusters are not followed further than this."""


def clopper_pearson(
    hits: Integers | Floats, trials: Integers | Floats, *, confidence: float = CONFIDENCE
) -> tuple[Floats, Floats]:
    """Return the interval of success rates that these counts, whole or not, do not rule out.

    >>> low, high = clopper_pearson(np.array([9, 10]), np.array([10, 10]))
    >>> low.round(4), high.round(4)
    (array([0.555 , 0.6915]), array([0.9975, 1.    ]))
    """
    from scipy.special import betaincinv

    tail = (1 - confidence) / 2
    misses = trials - hits
    low = np.where(hits > 0, betaincinv(np.where(hits > 0, hits, 1), misses + 1, tail), 0.0)
    high = np.where(misses > 0, betaincinv(hits + 1, np.where(misses > 0, misses, 1), 1 - tail), 1.0)
    return low, high


def clustered_interval(
    covered: Booleans,
    clusters: Integers,
    *,
    sites: Integers | None = None,
    weights: Floats | None = None,
    confidence: float = CONFIDENCE,
) -> tuple[float, float] | None:
    """Return the interval of the coverage if clusters are independent; None if fewer than two of them count.

    With `weights`, which add up to one, it is that of the weighted mean over `sites`, numbered from 0, not of the mean
    over the rows. A cluster may have rows at several sites.

    >>> covered = np.repeat([True, True, True, True, False], 10)  # five patients, ten images each
    >>> [round(end, 3) for end in clustered_interval(covered, np.repeat(np.arange(5), 10))]
    [0.084, 1.0]
    >>> [round(end, 3) for end in clustered_interval(covered, np.arange(50))]
    [0.661, 0.901]
    """
    from scipy.special import stdtrit

    if not len(covered):
        return None
    if sites is None or weights is None:
        sites, weights = np.zeros(len(covered), dtype=np.int64), np.ones(1)
    cells = _Cells.of(covered, clusters, sites)
    rows, share = cells.rows, cells.hits / cells.rows
    alike = cells.alike()
    worth = rows / (1 + alike * (np.bincount(cells.site, cells.sizes**2) / rows - 1))
    near = (worth * share + 1) / (worth + 2)  # one hit and one miss more: at 0 and at 1 a share still varies
    spread, part = np.sqrt(near * (1 - near)), weights / rows
    # The variance of the mean if rows of a cluster are that much alike, wherever they are.
    pull = np.bincount(cells.cluster, (part * spread)[cells.site] * cells.sizes)
    if np.count_nonzero(pull) < 2:
        return None
    modelled = (1 - alike) * float(part**2 @ (rows * spread**2)) + alike * float(pull @ pull)
    centre = float(weights @ near)
    trials = centre * (1 - centre) / modelled
    # The linearised one: how far each cluster is from the mean of its sites.
    few = np.sqrt(cells.clusters / np.maximum(1, cells.clusters - 1))
    off = np.bincount(cells.cluster, (few * part)[cells.site] * (cells.covered - cells.sizes * share[cells.site]))
    mean = min(1.0, float(weights @ share))
    if seen := float(off @ off):
        trials = min(trials, mean * (1 - mean) / seen)
    freedom = float(pull.sum() ** 2 / (pull @ pull)) - 1
    tail = (1 + confidence) / 2
    trials *= float(stdtrit(len(covered) - 1, tail) / stdtrit(freedom, tail)) ** 2
    if not trials > 0:  # one cluster outweighs all others: nothing is known
        return 0.0, 1.0
    low, high = clopper_pearson(np.array(mean * trials), np.array(trials), confidence=confidence)
    return float(low), float(high)


class _Cells(NamedTuple):
    """Rows counted by site and cluster."""

    site: Integers
    cluster: Integers
    sizes: Floats
    covered: Floats
    rows: Floats
    hits: Floats
    clusters: NDArray[np.intp]

    @classmethod
    def of(cls, covered: Booleans, clusters: Integers, sites: Integers) -> _Cells:
        names, number = np.unique(clusters, return_inverse=True)
        count = len(names)
        found, index = np.unique(sites * count + number, return_inverse=True)
        site = found // count
        return cls(
            site=site,
            cluster=found % count,
            sizes=np.bincount(index).astype(np.float64),
            covered=np.bincount(index, covered).astype(np.float64),
            rows=np.bincount(sites).astype(np.float64),
            hits=np.bincount(sites, covered).astype(np.float64),
            clusters=np.bincount(site),
        )

    def alike(self) -> float:
        """Return how alike rows of one cluster are: 0 as any rows, 1 all the same.

        How often two rows of a cluster differ is compared with how often two rows of its site do. Sites with one
        cluster say nothing of that.
        """
        several = self.clusters > 1
        cells = several[self.site]
        differ = float((self.covered * (self.sizes - self.covered))[cells].sum())
        pairs = float((self.sizes * (self.sizes - 1))[cells].sum())
        spare = self.clusters[several] / (self.clusters[several] - 1)
        varies = float((spare * self.hits[several] * (1 - self.hits[several] / self.rows[several])).sum())
        if not pairs or not varies:
            return 1.0
        return min(1.0, max(0.0, 1 - differ / pairs * float(self.rows[several].sum()) / varies))


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
        """Number of rows."""
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
