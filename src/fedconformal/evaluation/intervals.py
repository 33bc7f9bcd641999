"""Confidence intervals of the coverage on test rows, and tail bounds on the number of misses.

Intervals: Clopper and Pearson (1934) for independent rows. Rows of a cluster, such as a patient, are treated as
perfectly correlated: clusters of m_1, m_2, ... rows have an effective sample size of n^2 / sum m_c^2 (Kish, "Survey
sampling", 1965), the smallest possible.

Tail bounds hold for all miss rates of the single sites. Rows with equal weights: from t a + 1 on, the tail is at most
that of Bin(t, a) (Hoeffding, "On the distribution of the number of successes in independent trials", 1956), with
equality for one site. Other rows: Chernoff's bound at the worst miss rates p_k with sum lambda_k p_k <= a, where for
every h >= 0 and, by duality, every v >= 0

    ln P(sum lambda_k S_k/t_k >= x) <= v a - h x + sum_k max_p (t_k ln(1 + p (exp(h lambda_k/t_k) - 1)) - v lambda_k p)

A search that stops early therefore only weakens the bound.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from fedconformal._base.arrays import Booleans, Floats, Integers

CONFIDENCE = 0.95
ROUNDING = 1e-9
"""Share of a tail reserved for floating-point errors."""
STEPS = 20
LEAST = 1e-9
"""Lower ends below this value become zero."""


def clopper_pearson(
    hits: Integers | Floats, trials: Integers | Floats, *, confidence: float = CONFIDENCE
) -> tuple[Floats, Floats]:
    """Return the Clopper-Pearson interval of the success rate, also for fractional counts.

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


def independent_rows(clusters: Integers, weights: Floats | None = None) -> float:
    """Return the effective sample size of clustered rows, if rows of a cluster are perfectly correlated.

    >>> independent_rows(np.arange(50)), independent_rows(np.repeat(np.arange(5), 10))
    (50.0, 5.0)
    """
    sums = np.bincount(np.unique(clusters, return_inverse=True)[1], weights).astype(np.float64)
    return float(sums.sum() ** 2 / (sums @ sums))


def binomial_tail(misses: float, rows: float, rate: float, *, alike: bool = False) -> float:
    """Bound the probability of at least this many misses; 1 if Hoeffding's condition does not hold.

    >>> round(binomial_tail(140, 1000, 0.1159), 5)
    0.01129
    >>> binomial_tail(1, 2, 0.25), round(binomial_tail(1, 2, 0.25, alike=True), 5)
    (1.0, 0.4375)
    """
    from scipy.special import betainc

    if misses <= 0 or rate >= 1 or (not alike and misses < rows * rate + 1):
        return 1.0
    return min(1.0, float(betainc(misses, rows - misses + 1, rate)) * (1 + ROUNDING))


def stratified_tail(found: float, rows: Integers | Floats, shares: Floats, rate: float) -> float:
    """Bound the probability that the weighted miss rate is at least `found`.

    `found` is the sum over sites of weight times share of missed rows; `rate` bounds the miss rate of the mixture.
    `shares` sum to less than one if some sites have no rows.

    >>> tail = stratified_tail(0.15, np.array([400]), np.array([1.0]), 0.1)
    >>> round(tail, 6), round(math.exp(-400 * (0.15 * math.log(1.5) + 0.85 * math.log(0.85 / 0.9))), 6)
    (0.007491, 0.007491)
    >>> unlike = [(0.15, np.array([300, 100]), np.array([0.5, 0.5])), (0.5, np.array([5, 20]), np.array([0.8, 0.2]))]
    >>> [round(stratified_tail(*sites, 0.1), 6) for sites in unlike]
    [0.0598, 0.032039]
    """
    from scipy.optimize import brentq

    if found <= rate or rate >= 1:
        return 1.0
    total = float(rows.sum())
    weigh = shares / rows * total  # weight of a row, 1 on average

    def exponent(h: float) -> tuple[float, float]:
        """Return the exponent at h and the best v, and its slope in h; the best 1/v is where p spends `rate`."""
        grown = np.expm1(h * weigh)
        first = weigh / grown
        knots, turns = np.append(first, first + weigh), np.append(rows, -rows)
        order = knots.argsort()
        spent = np.cumsum(np.cumsum(turns[order])[:-1] * np.diff(knots[order]))
        v = 1 / np.interp(total * rate, np.append(0.0, spent), knots[order])
        p = np.clip(1 / (v * weigh) - 1 / grown, 0, 1)
        value = total * (v * rate - h * found) + float(rows @ (np.log1p(p * grown) - v * weigh * p))
        return value, float(rows @ (p * weigh * (grown + 1) / (1 + p * grown))) - total * found

    h = most = 500 / float(weigh.max())
    if exponent(most)[1] > 0:
        h = brentq(lambda h: exponent(h)[1] if h else rate - found, 0.0, most, rtol=1e-9)
    return min(1.0, math.exp(min(0.0, exponent(h)[0])) * (1 + ROUNDING))


def stratified_interval(means: Floats, rows: Integers | Floats, shares: Floats) -> tuple[float, float]:
    """Return the 95% interval of the weighted mean of sites, given their means in [0, 1]."""
    return _low_end(means, rows, shares), 1 - _low_end(1 - means, rows, shares)


def _low_end(means: Floats, rows: Integers | Floats, shares: Floats) -> float:
    """Return the largest mean of the mixture at which the observed mean or more has probability at most .025."""
    found = float(shares @ means)
    low, high = 0.0, found
    for _ in range(STEPS):
        middle = (low + high) / 2
        rare = middle >= LEAST and stratified_tail(found, rows, shares, middle) <= (1 - CONFIDENCE) / 2
        low, high = (middle, high) if rare else (low, middle)
    return low


class Sample(NamedTuple):
    """Rows of a mixture, by site, or pooled if clustered; sites without rows count as never missed, which is valid."""

    rows: int
    rates: Floats
    """Share of missed rows of every site with rows."""
    trials: Floats
    """Effective number of independent rows of each site."""
    shares: Floats
    """Weights of the sites, with a sum of one, or less if some sites have no rows."""
    alike: bool
    """Whether all rows are from one site."""

    @classmethod
    def of(
        cls,
        covered: Booleans,
        *,
        sites: Integers | None = None,
        shares: Floats | None = None,
        clusters: Integers | None = None,
        alike: bool = False,
    ) -> Sample:
        """Count rows; `sites` are numbered from 0. Without sites, all rows have equal weight."""
        if sites is None or shares is None:
            sites, shares = np.zeros(len(covered), dtype=np.int64), np.ones(1)
        rows = np.bincount(sites)
        rates = np.bincount(sites, ~covered) / rows
        if clusters is None:
            return cls(len(covered), rates, rows.astype(np.float64), shares, alike)
        # Clusters may have rows at several sites, so sites are pooled.
        total, independent = shares.sum(keepdims=True), independent_rows(clusters, (shares / rows)[sites])
        return cls(len(covered), shares @ rates / total, np.array([independent]), total, alike)

    @property
    def missed(self) -> float:
        """Weighted share of missed rows."""
        return float(self.shares @ self.rates)

    @property
    def complete(self) -> bool:
        """Whether every site with positive weight has rows."""
        return abs(float(self.shares.sum()) - 1) < 1e-9

    @property
    def weigh_alike(self) -> bool:
        """Whether all rows have the same weight."""
        return np.allclose(self.shares * self.trials.sum(), self.trials, rtol=1e-12)

    def p_value(self, rate: float) -> float:
        """Bound the probability of as many misses if the miss rate is at most `rate`; approximate for clusters."""
        if self.weigh_alike:
            return binomial_tail(float(self.rates @ self.trials), self.trials.sum(), rate, alike=self.alike)
        return stratified_tail(self.missed, self.trials, self.shares, rate)

    def p_if(self, missed: float, rate: float) -> float:
        """Return the p-value if every site missed this share of its rows."""
        if self.weigh_alike:
            total = float(self.trials.sum())
            return binomial_tail(math.floor(missed * total + 1e-9), total, rate, alike=self.alike)
        return stratified_tail(missed * float(self.shares.sum()), self.trials, self.shares, rate)

    def coverage_interval(self) -> tuple[float, float]:
        """Return the 95% interval of the coverage of the mixture."""
        if self.weigh_alike:
            low, high = clopper_pearson((1 - self.rates) @ self.trials, self.trials.sum())
            return float(low), float(high)
        return stratified_interval(1 - self.rates, self.trials, self.shares)
