"""Coverage for identically distributed sites, some dishonest: a quantile of the sites' quantiles (docs/proofs.md).

The threshold is the k-th smallest of the sites' l-th smallest scores. For m identically distributed sites with n
scores, its coverage B has P(B <= t) = I_{p(t)}(k, m - k + 1), p(t) = I_t(l, n - l + 1). If f of K sites may be
dishonest, l and k are for m = K - f, and the (k + f)-th smallest of these scores is used. The pairs (l, k) form a
chain, with k the median and l rising, then l = n and k rising: a larger promise never has a smaller threshold, and
dishonest sizes can only raise it.
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
    StratumKind,
    check_whole,
    feasible,
    least_enough,
    whole_type,
)
from fedconformal.guarantees.robust import check_liars

PANELS = 512
"""Number of panels of the two-point quadrature of the coverage; a quarter for several sizes."""
NEGLIGIBLE = 1e-18
MARGIN = 1e-9
"""Share of the miss rate reserved for floating-point errors."""
Ranks = tuple[tuple[int, int], ...]
"""For every possible size of an honest site, the rank of its score, and the size."""


@dataclass(frozen=True, kw_only=True)
class QuantileOfQuantiles(SiteCounts):
    """Coverage for a test row of the honest sites, which have the same distribution; at most `liars` are dishonest.

    A site with fewer than `least_scores` scores counts as if all its scores were infinite; a larger site uses the rank
    with the same share of n_k + 1.

    Parameters
    ----------
    liars
        Maximum number of sites whose summaries may be arbitrary.
    least_scores
        Minimum number of scores of a site, fixed before calibration. Required if `liars` > 0, as dishonest sizes would
        otherwise determine the ranks; by default the size of the smallest site.

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
    why_no_bound = "no limit is known for the quantile of several sites' quantiles"

    liars: int
    least_scores: int | None = None

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        return cls(liars=0), cls(liars=1, least_scores=4)

    def __post_init__(self) -> None:
        check_whole(self.liars, "liars", least=0)
        if self.least_scores is not None:
            check_whole(self.least_scores, "least_scores")

    def bind(self, sites: Sequence[str], sizes: Counts, stratum: StratumKind | None = None) -> Self:
        self._least(sizes)
        check_liars(self, self.liars, len(sizes))
        return self

    def promised_many(self, counts: Integers, sizes: Counts, unit: int = 1) -> list[Fraction]:
        """Return the coverage of the largest pair (l, k) attained by each column of counts."""
        least, middle = self._least(sizes), (len(sizes) - self.liars + 1) // 2
        kind = whole_type(max(sizes) * (least + 1))
        # The largest l with ceil(l (n_k + 1)/(n + 1)) <= m_k, site by site; none where n_k is below n.
        levels = counts.astype(kind) * (least + 1) // (np.array(sizes, dtype=kind)[:, None] + 1)
        levels[[k for k, n in enumerate(sizes) if n < least]] = 0
        levels = np.sort(levels, axis=0)
        reached = levels[len(sizes) - middle - self.liars].tolist()
        full = np.count_nonzero(levels == least, axis=0).tolist()
        return [
            self._coverage(level, max(middle, among - self.liars if level == least else 0), sizes)
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

    def _coverage(self, level: int, among: int, sizes: Counts) -> Fraction:
        least = self._least(sizes)
        ranks = tuple((-(-level * (n + 1) // (least + 1)), n) for n in sorted(set(sizes)) if n >= least)
        if not level or not ranks:
            return Fraction(0)
        honest = len(sizes) - self.liars
        return Fraction(_units(ranks, min(among, honest), honest), ALPHA_UNIT)

    def band(self, alpha: Fraction, sizes: Counts, gaps: Counts | None = None) -> Band:
        return EverySite().band(alpha, sizes, gaps)

    def missing(self, alpha: Fraction, sizes: Counts) -> Shortfall:
        """Return the scores that small sites lack up to `least_scores`; if these do not suffice, a larger parameter."""
        stated = self.least_scores

        def enough(least: int) -> bool:
            return feasible(replace(self, least_scores=least), alpha, [max(n, least) for n in sizes])

        if stated is None or feasible(self, alpha, sizes) or enough(stated):
            return super().missing(alpha, sizes)
        return Shortfall(parameter=("least_scores", stated, least_enough(enough)))

    def audience(self, sites: Sequence[str], stratum: StratumKind | None = None) -> Audience:
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
    """Bound the mean of 1 - B from above, over all assignments of these ranks and sizes to the honest sites."""
    from scipy.special import betainc, betaincinv

    def survival(s: Floats) -> Floats:
        # P(B > 1 - s): m - k + 1 scores are above; the probability at every site is replaced by the smallest.
        above = np.min([betainc(n - rank + 1, rank, s) for rank, n in ranks], axis=0)
        return np.asarray(betainc(honest - among + 1, among, above))

    ends = betaincinv(honest - among + 1, among, [NEGLIGIBLE, 1 - 1e-16])
    low = min(float(betaincinv(n - rank + 1, rank, ends[0])) for rank, n in ranks)
    high = max(float(betaincinv(n - rank + 1, rank, ends[1])) for rank, n in ranks)
    panels = PANELS if len(ranks) == 1 else PANELS // 4
    width = (high - low) / panels
    points = low + width * (np.arange(panels)[:, None] + 0.5 + np.array([-0.5, 0.5]) / math.sqrt(3))
    miss = low + float((1 - survival(points)).sum()) * width / 2
    # P(B > 1 - s) is monotone, so the total error is at most one width; for a single size it is smooth.
    return (miss + (width if len(ranks) > 1 else 0)) * (1 + MARGIN) + 1e-16 * (1 - high)
