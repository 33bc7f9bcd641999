"""A promise for sites that are alike, which a third of them cannot spoil: a quantile of the sites' quantiles.

Every site names its l-th smallest score; the threshold is the k-th smallest of these. With m alike sites of n scores
its coverage B has P(B <= t) = I_{p(t)}(k, m - k + 1), p(t) = I_t(l, n - l + 1): Humbert, Le Bars, Bellet and Arlot,
"One-shot federated conformal prediction", 2023. If f of K sites may lie, take l and k for m = K - f and then the
(k + f)-th smallest: at most f of the names below it are made up, so it is no less than the k-th smallest honest one.

The pairs (l, k) used here form a chain, k the median and l rising, then l = n and k rising; so a larger promise never
has a smaller threshold, and the pair follows from alpha alone, never from the scores.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from fedconformal.guarantees.base import Counts, Guarantee
from fedconformal.guarantees.every_client import EveryClient
from fedconformal.guarantees.robust import as_liars, bind_liars
from fedconformal.validation import ALPHA_UNIT, Floats, Integers

PANELS = 512
"""The coverage is integrated on so many pieces, with two points in each; on a quarter if there are many sizes."""

NEGLIGIBLE = 1e-18
MARGIN = 1e-9
"""A share of the miss rate that is given away for the errors of floats."""


@dataclass(frozen=True, kw_only=True)
class QuantileOfQuantiles(Guarantee):
    """Cover a test row like those of the honest sites, which are alike; at most `liars` of the sites are not honest.

    A site with more scores than the smallest one takes the rank with the same share of n_k + 1.

    >>> QuantileOfQuantiles(liars=0).pair(Fraction(1, 10), sizes=[20] * 10)
    (19, 5)
    >>> round(float(QuantileOfQuantiles(liars=0).promised(counts=[19] * 5 + [0] * 5, sizes=[20] * 10)), 5)
    0.90791
    """

    name = "quantile-of-quantiles"
    assumption = (
        "at most the stated number of sites lie; all calibration rows of the others and the test row are independent "
        "draws of one law, so these sites are alike; the model was not fitted to the calibration rows"
    )
    caveat = (
        "If the honest sites are not alike, this promises nothing (the guarantee robust does not need it). "
        "The smallest site sets how fine the ranks are; leaving out very small ones, by size alone, does no harm."
    )

    liars: int

    def __post_init__(self) -> None:
        """Check the number of liars."""
        as_liars(self.liars)

    def bind(self, sites: Sequence[str], sizes: Counts) -> Guarantee:
        """Check that somebody is left to be honest."""
        return bind_liars(self, self.liars, len(sizes))

    def promised(self, counts: Counts, sizes: Counts) -> Fraction:
        """Return what the largest pair (l, k) promises that these counts reach."""
        return self.promised_many(np.array(counts, dtype=np.int64)[:, None], sizes)[0]

    def promised_many(self, counts: Integers, sizes: Counts) -> list[Fraction]:
        """Find the pair that every column reaches."""
        least, middle = min(sizes), self._middle(len(sizes))
        claimed = np.array(sizes, dtype=object)[:, None] + 1
        # The largest l with ceil(l (n_k + 1)/(n + 1)) <= m_k, site by site.
        levels = np.sort((counts.astype(object) * (least + 1) // claimed).astype(np.int64), axis=0)
        reached = levels[len(sizes) - middle - self.liars].tolist()
        full = np.count_nonzero(levels == least, axis=0).tolist()
        return [
            self._worth(level, max(middle, among - self.liars if level == least else 0), sizes)
            for level, among in zip(reached, full, strict=True)
        ]

    def pair(self, alpha: Fraction, sizes: Counts) -> tuple[int, int] | None:
        """Return the first pair (l, k) of the chain that promises 1 - alpha; None if there is none."""
        least, middle, honest = min(sizes), self._middle(len(sizes)), len(sizes) - self.liars
        chain = range(1, least + honest - middle + 1)

        def at(step: int) -> tuple[int, int]:
            return min(step, least), middle + max(0, step - least)

        low, high = 0, len(chain) + 1
        while high - low > 1:
            step = (low + high) // 2
            low, high = (low, step) if self._worth(*at(step), sizes) >= 1 - alpha else (step, high)
        return at(high) if high in chain else None

    def _middle(self, sites: int) -> int:
        return (sites - self.liars + 1) // 2

    def _worth(self, level: int, among: int, sizes: Counts) -> Fraction:
        if not level:
            return Fraction(0)
        honest = len(sizes) - self.liars
        return Fraction(_units(level, min(among, honest), honest, tuple(sorted(set(sizes)))), ALPHA_UNIT)

    def at_most(self, alpha: Fraction, sizes: Counts, gaps: Counts) -> Fraction:
        """Nothing is promised from above: liars may raise the threshold."""
        return Fraction(1)

    def slack(self, gaps: Counts, sizes: Counts) -> Fraction:
        """Return the largest share over the sites."""
        return EveryClient().slack(gaps, sizes)

    def promise(self, sites: Sequence[str]) -> str:
        """Name the condition and the liars."""
        return (
            "for a test row like those of the honest sites, if these are alike, whichever they are and whatever at "
            f"most {self.liars} of the sites sent, on average over calibration draws"
        )


@lru_cache(maxsize=2**14)
def _units(level: int, among: int, honest: int, sizes: tuple[int, ...]) -> int:
    """Return the mean coverage of a pair, rounded down, in units of 1e-15."""
    return ALPHA_UNIT - min(ALPHA_UNIT, math.ceil(Fraction(mean_miss(level, among, honest, sizes)) * ALPHA_UNIT))


def mean_miss(level: int, among: int, honest: int, sizes: Sequence[int]) -> float:
    """Bound from above the mean of 1 - B, whichever of these sizes the honest sites have.

    >>> round(1 - mean_miss(10, 3, 5, [10]), 5)
    0.92563
    """
    from scipy.special import betainc, betaincinv

    least = min(sizes)
    ranks = [(-(-level * (n + 1) // (least + 1)), n) for n in sizes]

    def kept(s: Floats) -> Floats:
        # P(B > 1 - s): m - k + 1 names are above; every site's chance of that is replaced by the least there is.
        above = np.min([betainc(n - rank + 1, rank, s) for rank, n in ranks], axis=0)
        return np.asarray(betainc(honest - among + 1, among, above))

    ends = betaincinv(honest - among + 1, among, [NEGLIGIBLE, 1 - 1e-16])
    low = min(float(betaincinv(n - rank + 1, rank, ends[0])) for rank, n in ranks)
    high = max(float(betaincinv(n - rank + 1, rank, ends[1])) for rank, n in ranks)
    panels = PANELS if len(ranks) == 1 else PANELS // 4
    width = (high - low) / panels
    points = low + width * (np.arange(panels)[:, None] + 0.5 + np.array([-0.5, 0.5]) / math.sqrt(3))
    miss = low + float((1 - kept(points)).sum()) * width / 2
    # P(B > 1 - s) rises, so all pieces together are off by one width at most; for one size it is smooth.
    return (miss + (width if len(ranks) > 1 else 0)) * (1 + MARGIN) + 1e-16 * (1 - high)
