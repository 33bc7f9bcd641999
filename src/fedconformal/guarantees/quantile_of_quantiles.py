"""Coverage for sites that are alike, some of which may lie: a quantile of the sites' quantiles (docs/proofs.md).

Every site names its l-th smallest score; the threshold is the k-th smallest of these. With m alike sites of n scores
its coverage B has P(B <= t) = I_{p(t)}(k, m - k + 1), p(t) = I_t(l, n - l + 1). If f of K sites may lie, l and k are
for m = K - f, and the (k + f)-th smallest name is taken. The pairs (l, k) form a chain, k the median and l rising,
then l = n and k rising, so that a larger promise never has a smaller threshold and sizes that liars claim can only
raise it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Self

import numpy as np

from fedconformal._base.arrays import ALPHA_UNIT, Floats, Integers
from fedconformal.errors import InputError
from fedconformal.guarantees.every_site import EverySite
from fedconformal.guarantees.guarantee import (
    Audience,
    Band,
    Counts,
    Shortfall,
    SiteCounts,
    Stratum,
    check_whole,
    feasible,
    least_enough,
    whole_type,
)
from fedconformal.guarantees.robust import check_liars

PANELS = 512
"""The coverage is integrated on this many pieces, with two points in each; on a quarter if there are many sizes."""

NEGLIGIBLE = 1e-18
MARGIN = 1e-9
"""A share of the miss rate that is given away for the errors of floats."""

Ranks = tuple[tuple[int, int], ...]
"""For every size that an honest site may have, the rank of the score that it names, and the size."""


@dataclass(frozen=True, kw_only=True)
class QuantileOfQuantiles(SiteCounts):
    """Coverage for a test row like those of the honest sites, which are alike; at most `liars` sites are not honest.

    A site with fewer than `least_scores` scores counts as one whose scores are all huge; one with more takes the rank
    with the same share of n_k + 1.

    Parameters
    ----------
    liars
        The largest number of sites that may send anything.
    least_scores
        The fewest scores that a site should have, fixed before calibration. It is required if there may be liars: else
        the sizes that they claim would choose the ranks. By default the size of the smallest site.

    Examples
    --------
    >>> round(float(QuantileOfQuantiles(liars=0).promised(counts=[19] * 5 + [0] * 5, sizes=[20] * 10)), 5)
    0.90791

    References
    ----------
    Humbert, Le Bars, Bellet and Arlot, "One-shot federated conformal prediction", 2023.
    """

    name = "quantile-of-quantiles"
    why_not_fractional = "a site's own rank is a count of whole rows"
    assumption = (
        "at most the stated number of sites lie; all calibration rows of the others and the test row are independent "
        "draws of one law, so these sites are alike; least_scores, where it is stated, was fixed beforehand"
    )
    caveat = (
        "If the honest sites are not alike, this promises nothing (the guarantee robust does not need it). "
        "The ranks are as fine as least_scores allows, or else the smallest site; a site with fewer scores counts as "
        "one whose scores are all huge."
    )
    why_no_bound = "nobody knows which rows are of an honest site"

    liars: int
    least_scores: int | None = None

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        return cls(liars=0), cls(liars=1, least_scores=4)

    def __post_init__(self) -> None:
        check_whole(self.liars, "liars", least=0)
        if self.least_scores is not None:
            check_whole(self.least_scores, "least_scores")

    def bind(self, sites: Sequence[str], sizes: Counts, stratum: Stratum | None = None) -> Self:
        self._least(sizes)
        check_liars(self, self.liars, len(sizes))
        return self

    def promised_many(self, counts: Integers, sizes: Counts, unit: int = 1) -> list[Fraction]:
        """Return what the largest pair promises that each column of counts reaches."""
        least, middle = self._least(sizes), (len(sizes) - self.liars + 1) // 2
        kind = whole_type(max(sizes) * (least + 1))
        # The largest l with ceil(l (n_k + 1)/(n + 1)) <= m_k, site by site; none where n_k is below n.
        levels = counts.astype(kind) * (least + 1) // (np.array(sizes, dtype=kind)[:, None] + 1)
        levels[[k for k, n in enumerate(sizes) if n < least]] = 0
        levels = np.sort(levels, axis=0)
        reached = levels[len(sizes) - middle - self.liars].tolist()
        full = np.count_nonzero(levels == least, axis=0).tolist()
        return [
            self._worth(level, max(middle, among - self.liars if level == least else 0), sizes)
            for level, among in zip(reached, full, strict=True)
        ]

    def _least(self, sizes: Counts) -> int:
        if self.least_scores is not None:
            return self.least_scores
        if self.liars:
            raise InputError(
                f"{self.name}: liars would choose the ranks by the sizes that they claim, which loses coverage; "
                "give least_scores, how many scores a site should have at least, fixed before calibration"
            )
        return min(sizes)

    def _worth(self, level: int, among: int, sizes: Counts) -> Fraction:
        least = self._least(sizes)
        ranks = tuple((-(-level * (n + 1) // (least + 1)), n) for n in sorted(set(sizes)) if n >= least)
        if not level or not ranks:
            return Fraction(0)
        honest = len(sizes) - self.liars
        return Fraction(_units(ranks, min(among, honest), honest), ALPHA_UNIT)

    def band(self, alpha: Fraction, sizes: Counts, gaps: Counts | None = None) -> Band:
        return EverySite().band(alpha, sizes, gaps)

    def missing(self, alpha: Fraction, sizes: Counts) -> Shortfall:
        """Bring the sites with too few scores up to `least_scores`, if that is enough; else raise `least_scores`."""
        stated = self.least_scores

        def enough(least: int) -> bool:
            return feasible(replace(self, least_scores=least), alpha, [max(n, least) for n in sizes])

        if stated is None or feasible(self, alpha, sizes) or enough(stated):
            return super().missing(alpha, sizes)
        return Shortfall(parameter=("least_scores", stated, least_enough(enough)))

    def audience(self, sites: Sequence[str], stratum: Stratum | None = None) -> Audience:
        sent = f"whatever at most {self.liars} of the sites sent"
        return Audience(
            population=f"like those of the honest sites, if these are alike, whichever they are and {sent}",
            lay_population=f"new cases like those of the honest sites, if these are all alike, {sent}",
        )


@lru_cache(maxsize=2**14)
def _units(ranks: Ranks, among: int, honest: int) -> int:
    """Return the mean coverage of a pair, rounded down, in units of 1e-15."""
    return ALPHA_UNIT - min(ALPHA_UNIT, math.ceil(Fraction(mean_miss(ranks, among, honest)) * ALPHA_UNIT))


def mean_miss(ranks: Ranks, among: int, honest: int) -> float:
    """Bound from above the mean of 1 - B, whichever of these ranks and sizes the honest sites have."""
    from scipy.special import betainc, betaincinv

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
