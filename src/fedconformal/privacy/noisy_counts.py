"""From noisy counts in the cells of a public grid to a threshold whose coverage is certified.

The noisy counts of all cells up to a candidate estimate how many scores are at or below it. The number of scores N is
public, so what the noisy counts add up to beyond N is noise; the j-th of B candidates is relieved of j/B of it. That
halves the error of central candidates, and leaves little at the first and the last. The error is then a sum of
independent terms, (1 - j/B) times the noise of a cell up to the candidate and -j/B times that of one above, and by
Chernoff it is t + 1 or more with probability at most exp(-v (t + 1)) times its moment generating function at v, for any
v. So there are margins t_j with which the first candidate that is estimated at r + t_j or more has r scores up to it,
except with probability gamma over the noise, which has nothing to do with the scores: coverage is at least
(1 - gamma)(r - 1) / N, for any number of sites.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from fedconformal._base.arrays import Floats, Integers
from fedconformal._base.float_bits import Keys, keys_of
from fedconformal.guarantees import Guarantee
from fedconformal.guarantees.guarantee import Counts
from fedconformal.privacy.noise import MOVED
from fedconformal.privacy.release import Plan, plans_to_try

MOST_CANDIDATES = 2**12


@dataclass(frozen=True, kw_only=True, eq=False)
class NoisyPlan(Plan):
    """Where the threshold will be read; all of it follows from public numbers."""

    grid: Floats
    margins: Integers
    """What each candidate but +inf has to reach on top of r."""

    def threshold(self, counts: Sequence[int], scores: int) -> float:
        """Return the first candidate that is estimated high enough, from noisy counts of this many scores."""
        cells = len(self.grid)
        beyond, reached = sum(counts) - scores, 0
        for j, (count, margin) in enumerate(zip(counts, self.margins.tolist(), strict=False), start=1):
            reached += count
            if cells * reached - j * beyond >= cells * (self.rank + margin):
                return float(self.grid[j - 1])
        return math.inf


def plan_noisy(
    guarantee: Guarantee, alpha: Fraction, sizes: Counts, epsilon: Fraction, grid: Floats, strength: Fraction
) -> NoisyPlan | None:
    """Choose r and the margins; None if they are more than there are scores.

    `strength` says how many times the noise of one discrete Laplace draw is in the sum for a cell.

    >>> from fedconformal.guarantees import Mixture
    >>> grid = noisy_grid()
    >>> found = plan_noisy(Mixture(), Fraction(1, 10), [5000] * 4, Fraction(1), grid, strength=Fraction(4))
    >>> found.rank, int(found.margins.max()), float(found.promised) >= 0.9
    (18006, 114, True)
    """
    choices = []
    for plan in plans_to_try(guarantee, alpha, sizes):
        widest = int(margins(epsilon, len(grid), strength, plan.failure, at=len(grid) // 2)[0])
        choices.append((plan.rank + widest, plan.failure, plan))
    if not choices:
        return None
    best = min(choices)[2]
    asked = margins(epsilon, len(grid), strength, best.failure)
    if best.rank + int(asked.min()) > sum(sizes):
        return None
    return NoisyPlan(**vars(best), grid=grid, margins=asked)


def margins(epsilon: Fraction, cells: int, strength: Fraction, failure: Fraction, at: int | None = None) -> Integers:
    """Return t_j for every candidate but +inf, or for the one at `at`, by the best of many v."""
    j = np.arange(1, cells) if at is None else np.array([at])
    up, above = 1 - j / cells, j / cells
    scale = MOVED / float(epsilon) * (1 + 1e-9)
    v = np.geomspace(1e-6, 0.999, 400) / scale / np.maximum(up, above)[:, None]
    log_moment = j[:, None] * _log_moment(v * up[:, None], scale) + (cells - j)[:, None] * _log_moment(
        v * above[:, None], scale
    )
    needed = (float(strength) * log_moment + math.log((cells - 1) / failure)) / v
    found: Integers = np.maximum(0, np.ceil(needed.min(axis=1) * (1 + 1e-9)).astype(np.int64) - 1)
    return found


def _log_moment(v: Floats, scale: float) -> Floats:
    """Return the log of the moment generating function of discrete Laplace noise."""
    p = math.exp(-1 / scale)
    found: Floats = -np.log1p(-p * (2 * np.sinh(v / 2) / (1 - p)) ** 2)
    return found


def in_cells(keys: Keys, grid: Floats) -> Integers:
    """Count scores, by their keys, in the cells that end at the candidates.

    >>> in_cells(keys_of(np.array([0.1, 0.5, 7.0])), np.array([0.5, 1.0, math.inf]))
    array([2, 0, 1])
    """
    found: Integers = np.bincount(np.searchsorted(keys_of(grid), keys, side="left"), minlength=len(grid))
    return found


def noisy_grid() -> Floats:
    """Return fewer candidates than a trusted coordinator would use: every cell brings its own noise.

    >>> len(noisy_grid())
    65
    """
    parts = [np.linspace(0, 0.9, 31), 1 - 0.1 * 2.0 ** (-np.arange(1, 17) / 2), np.linspace(1, 2, 17)]
    return np.append(np.unique(np.concatenate(parts).round(12)), math.inf)
