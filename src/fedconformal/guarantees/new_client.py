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

import numpy as np

from fedconformal._base.arrays import Integers
from fedconformal.guarantees.class_share import ClassShare
from fedconformal.guarantees.guarantee import Counts, Guarantee, whole_type


@dataclass(frozen=True, kw_only=True)
class NewClient(Guarantee):
    """Cover a row of a fresh site with probability 1 - alpha; that takes 1/alpha - 1 sites, of any sizes.

    >>> NewClient().promised(counts=[3, 2, 3], sizes=[3, 3, 3])
    Fraction(2, 3)
    >>> NewClient().missing_sites(Fraction(1, 10), sizes=[50] * 4)
    5
    """

    name = "new-client"
    assumption = (
        "the sites and the next one, with their numbers of rows, are exchangeable draws from one population, and rows "
        "are exchangeable within each; whether a site takes part has nothing to do with its scores; "
        "one model, not trained on any of these sites, made all scores"
    )
    caveat = (
        "This is an average over fresh sites and calibration draws, not a promise to each fresh site; "
        "a model that was trained on the calibration sites voids it (leave_one_site_out is the usual way round)."
    )

    def in_class(self, sizes: Counts) -> Guarantee:
        """Weigh a row by its site's number of rows; the rows of the fresh site may all be of the class."""
        whole = math.lcm(*sizes)
        return FreshClassShare(weights=tuple(whole // n for n in sizes), more=whole)

    def promised(self, counts: Counts, sizes: Counts) -> Fraction:
        """Return the mean share of scores; the fresh site stands in for one of K + 1, with its scores at +inf."""
        return self.promised_many(np.array(counts, dtype=np.int64)[:, None], sizes)[0]

    def promised_many(self, counts: Integers, sizes: Counts) -> list[Fraction]:
        """Add up sites of equal size in numpy, and only the sums as fractions."""
        groups, index = np.unique(np.array(sizes, dtype=np.int64), return_inverse=True)
        totals = np.zeros((len(groups), counts.shape[1]), dtype=whole_type(sum(sizes)))
        np.add.at(totals, index, counts)
        whole = math.lcm(*groups.tolist())
        parts = [whole // n for n in groups.tolist()]
        return [
            Fraction(sum(part * m for part, m in zip(parts, column, strict=True)), whole * (len(sizes) + 1))
            for column in totals.T.tolist()
        ]

    def at_most(self, alpha: Fraction, sizes: Counts, gaps: Counts) -> Fraction:
        """Return 1 - alpha + 2/(K + 1): one fresh site and one score of it, plus what the summaries may cost."""
        # The scores of the fresh site would raise the mean share by at most 1/(K + 1), and the score at which
        # the target is reached by at most as much again. Where n_k is part of the draw the two overlap, and 1/(K + 1)
        # is the end (docs/guarantees.md); certificates keep the wider one.
        return min(Fraction(1), 1 - alpha + Fraction(2, len(sizes) + 1) + self.slack(gaps, sizes))

    def missing(self, alpha: Fraction, sizes: Counts) -> dict[int, int]:
        """More scores do not help."""
        return {}

    def missing_sites(self, alpha: Fraction, sizes: Counts) -> int:
        """Count the sites missing to K >= 1/alpha - 1."""
        return max(0, math.ceil(1 / alpha - 1) - len(sizes))

    def promise(self, sites: Sequence[str]) -> str:
        """Name the site that is not there."""
        return (
            "for a test row of a fresh site from the same population, on average over such sites and calibration draws"
        )


@dataclass(frozen=True, kw_only=True)
class FreshClassShare(ClassShare):
    """What counts of one class promise to a fresh site; only more sites make it more.

    >>> FreshClassShare(weights=(1, 1), more=10).missing_sites(Fraction(1, 2), sizes=[1, 1])  # a tenth of either
    8
    """

    def missing(self, alpha: Fraction, sizes: Counts) -> dict[int, int]:
        """More scores do not help."""
        return {}

    def missing_sites(self, alpha: Fraction, sizes: Counts) -> int:
        """Count the sites missing if the next ones hold as much of the class as these do."""
        held = Fraction(self._weigh(sizes), self.more)
        return math.ceil((1 - alpha) / alpha * len(sizes) / held) - len(sizes) if held else 0

    def shortfall(self, alpha: Fraction, sizes: Counts, sites: Sequence[str]) -> str:
        """Say that nobody has the class, if so."""
        if not any(sizes):
            return "sites needed: some that hold the class"
        return Guarantee.shortfall(self, alpha, sizes, sites)
