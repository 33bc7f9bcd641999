"""The expected coverage of a threshold, by integration instead of simulation.

A threshold is the smallest q at which the counts of scores reach a target. So a test score s is covered
exactly if the scores strictly below s do not reach it yet. Given s, the counts of independent sites are
binomial; what is left is an integral over s. A simulated mean must match it from both sides, which shows
every error of a rank, also where the guarantee's band is wide.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Protocol

import numpy as np
from scipy import stats

from tests.validity.simulation import Floats, Site

POINTS = 1000


class Rule(Protocol):
    """When the counts of scores, one a site, are enough."""

    def reached(self, counts: Sequence[int]) -> bool:
        """Whether these counts reach the target."""
        ...

    def chance_short(self, counts: Sequence[Floats]) -> Floats:
        """Return the chance of not reaching it, from each site's distribution of counts, (n_k + 1, points)."""
        ...


@dataclass(frozen=True)
class WeightedCount:
    """The sum of w_k m_k is at least the target; whole numbers."""

    weights: tuple[int, ...]
    target: int

    def reached(self, counts: Sequence[int]) -> bool:
        """Add up."""
        return sum(w * m for w, m in zip(self.weights, counts, strict=True)) >= self.target

    def chance_short(self, counts: Sequence[Floats]) -> Floats:
        """Convolve the distributions, as far as the target."""
        total = np.zeros((self.target, counts[0].shape[1]))
        total[0] = 1
        for weight, chances in zip(self.weights, counts, strict=True):
            before, total = total, np.zeros_like(total)
            for m, chance in enumerate(chances):
                if weight * m < self.target:
                    total[weight * m :] += chance * before[: self.target - weight * m]
        return np.asarray(total.sum(axis=0))


@dataclass(frozen=True)
class EveryCount:
    """Every m_k is at least its own target."""

    targets: tuple[int, ...]

    def reached(self, counts: Sequence[int]) -> bool:
        """Compare site by site."""
        return all(m >= target for m, target in zip(counts, self.targets, strict=True))

    def chance_short(self, counts: Sequence[Floats]) -> Floats:
        """Multiply the chances of the sites."""
        reached = [chances[target:].sum(axis=0) for chances, target in zip(counts, self.targets, strict=True)]
        return np.asarray(1 - np.prod(reached, axis=0))


@dataclass(frozen=True)
class EveryMixture:
    """Under each of these mixtures the sum of w_k m_k / rows_k is at least the target; fractions."""

    mixtures: tuple[tuple[Fraction, ...], ...]
    sizes: tuple[int, ...]
    rows: tuple[int, ...]
    target: Fraction

    def reached(self, counts: Sequence[int]) -> bool:
        """Add up under every mixture."""
        shares = [Fraction(m, n) for m, n in zip(counts, self.rows, strict=True)]
        return all(sum(w * a for w, a in zip(mix, shares, strict=True)) >= self.target for mix in self.mixtures)

    def chance_short(self, counts: Sequence[Floats]) -> Floats:
        """Go through all combinations of counts; for few and small sites."""
        all_counts = product(*(range(n + 1) for n in self.sizes))
        short = np.array([not self.reached(found) for found in all_counts], dtype=np.float64)
        chance = short.reshape(*(n + 1 for n in self.sizes), 1)
        for chances in counts:
            chance = np.einsum(
                "i...p,ip->...p", np.broadcast_to(chance, (*chance.shape[:-1], chances.shape[1])), chances
            )
        return chance


def expected_coverage(sites: Sequence[Site], rule: Rule) -> Floats:
    """Return the coverage at every site, averaged over calibration draws."""
    return np.array([_at_site(site, sites, rule) for site in sites])


def _at_site(tested: Site, sites: Sequence[Site], rule: Rule) -> float:
    s = tested.law.ppf((np.arange(POINTS) + 0.5) / POINTS)
    just_below = np.nextafter(s, -np.inf)
    counts = [stats.binom.pmf(np.arange(site.size + 1)[:, None], site.size, site.law.cdf(just_below)) for site in sites]
    return float(rule.chance_short(counts).mean())
