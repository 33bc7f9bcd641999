"""Test rows that show how often a mixture of the sites is missed, and how far that is from chance."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from fedconformal._base.arrays import Booleans, Floats, Integers
from fedconformal.evaluation.intervals import clustered_interval
from fedconformal.evaluation.tails import binomial_tail, stratified_tail

STEPS = 40
LEAST_P = 1e-12
"""Tails of clusters are not followed further than this."""


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
        if self.clusters is not None:
            return self._clustered_p(rate)
        return self._p(rate, None)

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

    def _clustered_p(self, rate: float) -> float:
        """Find the least level at which the interval of the coverage is below 1 - rate; one if there is none."""
        if self.clusters is None or not self.complete or self.missed <= rate:
            return 1.0
        low, high = math.log(LEAST_P), math.log(0.5)  # the interval leaves 1 - rate out at the one, not at the other
        for _ in range(STEPS):
            middle = (low + high) / 2
            found = clustered_interval(
                self.covered,
                self.clusters,
                sites=self.sites,
                weights=self.shares,
                confidence=1 - 2 * math.exp(middle),
            )
            if found is None:
                return 1.0
            low, high = (low, middle) if found.high < 1 - rate else (middle, high)
        return math.exp(high)
