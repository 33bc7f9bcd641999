"""A promise to a site that has not been seen yet.

Sites are draws from a population of sites, and the test row comes from a fresh draw.
Lee, Barber and Willett, "Distribution-free inference with hierarchical data", 2023;
Dunn, Wasserman and Ramdas, "Distribution-free prediction sets for two-layer hierarchical models", 2022.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from fedconformal.guarantees.class_share import ClassShare
from fedconformal.guarantees.guarantee import Counts, Guarantee, Terms, WeightedSum, weighed
from fedconformal.guarantees.luck import MissLimit
from fedconformal.guarantees.planning import missing_sites, shortfall, what_is_missing

NO_LIMIT = "the promise is an average over fresh sites, and rows of these sites do not show how the next one differs"


@dataclass(frozen=True, kw_only=True)
class NewSite(WeightedSum):
    """Cover a row of a fresh site with probability 1 - alpha; that takes 1/alpha - 1 sites, of any sizes.

    >>> NewSite().promised(counts=[3, 2, 3], sizes=[3, 3, 3])
    Fraction(2, 3)
    >>> missing_sites(NewSite(), Fraction(1, 10), [50] * 4)
    5
    """

    name = "new-site"
    assumption = (
        "the sites and the next one, with their numbers of rows, are exchangeable draws from one population, and rows "
        "are exchangeable within each; whether a site takes part has nothing to do with its scores; "
        "one model, not trained on any of these sites, made all scores"
    )
    caveat = (
        "This is an average over fresh sites and calibration draws, not a promise to each fresh site; "
        "a model that was trained on the calibration sites voids it (leave_one_site_out is the usual way round)."
    )
    why_no_limit = NO_LIMIT
    fractional = True
    untrained = True

    def in_class(self, sizes: Counts) -> Guarantee:
        """Weigh a row by its site's number of rows; the rows of the fresh site may all be of the class."""
        whole = math.lcm(*sizes)
        return FreshClassShare(weights=tuple(whole // n for n in sizes), more=whole)

    def terms(self, sizes: Counts) -> Terms:
        """Take the mean share of scores; the fresh site stands in for one of K + 1, with its scores at +inf."""
        whole = math.lcm(*set(sizes))
        of_one = {n: whole // n for n in set(sizes)}
        return Terms([of_one[n] for n in sizes], whole * (len(sizes) + 1))

    def at_most(self, alpha: Fraction, sizes: Counts, gaps: Counts) -> Fraction:
        """Return 1 - alpha + 2/(K + 1): one fresh site and one score of it, plus what the summaries may cost."""
        # The scores of the fresh site would raise the mean share by at most 1/(K + 1), and the score at which
        # the target is reached by at most as much again. Where n_k is part of the draw the two overlap, and 1/(K + 1)
        # is the end (docs/guarantees.md); certificates keep the wider one.
        return min(Fraction(1), 1 - alpha + Fraction(2, len(sizes) + 1) + self.slack(gaps, sizes))

    def plainly(self, sites: Sequence[str]) -> str:
        return (
            "new cases of a further site of the same kind, on average over such sites; a single new site can be below"
        )

    def promise(self, sites: Sequence[str]) -> str:
        return (
            "for a test row of a fresh site from the same population, on average over such sites and calibration draws"
        )


@dataclass(frozen=True, kw_only=True)
class FreshClassShare(ClassShare):
    """What counts of one class promise to a fresh site; only more sites make it more.

    >>> missing_sites(FreshClassShare(weights=(1, 1), more=10), Fraction(1, 2), [1, 1])  # a tenth of either
    8
    """

    why_no_limit = NO_LIMIT

    def miss_limits(self, alpha: Fraction, sizes: Counts, failure: float) -> list[MissLimit]:
        return []


@missing_sites.register
def _(guarantee: NewSite, alpha: Fraction, sizes: Counts) -> int:
    return max(0, math.ceil(1 / alpha - 1) - len(sizes))


@missing_sites.register
def _(guarantee: FreshClassShare, alpha: Fraction, sizes: Counts) -> int:
    # If the next sites hold as much of the class as these do.
    held = Fraction(weighed(guarantee.weights, sizes), guarantee.more)
    return math.ceil((1 - alpha) / alpha * len(sizes) / held) - len(sizes) if held else 0


@shortfall.register
def _(guarantee: FreshClassShare, alpha: Fraction, sizes: Counts, sites: Sequence[str]) -> str:
    if not any(sizes):
        return "sites needed: some that hold the class"
    return what_is_missing(guarantee, alpha, sizes, sites)
