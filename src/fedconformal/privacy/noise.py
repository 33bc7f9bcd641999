"""Discrete noise for the cells of a public grid, and the certified threshold from noisy counts (docs/proofs.md).

Replacing a row moves one count from a cell to another, so discrete Laplace noise of scale 2 / epsilon in every cell is
epsilon-private. Draws are OpenDP's. With distributed noise every site draws a share: the difference of two Polya draws
(Goryczka and Xiong, "A comprehensive comparison of multiparty secure additions with differential privacy", 2015).
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fedconformal._base.arrays import Floats, Integers, Keys, keys_of
from fedconformal.errors import requires_extra
from fedconformal.guarantees import Guarantee
from fedconformal.guarantees.guarantee import Counts
from fedconformal.privacy.release import Plan, plans_to_try

MOST_CANDIDATES = 2**12
MOVED = 2
"""L1 distance between the histograms of data sets that differ in one row."""


@lru_cache(maxsize=16)
def mechanism(name: Literal["laplace", "noisy max"], epsilon: Fraction) -> Any:
    """Return OpenDP's mechanism with the least noise whose privacy map does not exceed epsilon."""
    with requires_extra("dp"):
        import opendp.prelude as dp
    dp.enable_features("contrib")
    counts = dp.vector_domain(dp.atom_domain(T=int))
    make: Any
    if name == "laplace":
        moved, scale = MOVED, MOVED / float(epsilon)
        make = partial(dp.m.make_laplace, counts, dp.l1_distance(T=int))
    else:
        moved, scale = 1, 2 / float(epsilon)
        make = partial(dp.m.make_noisy_max, counts, dp.linf_distance(T=int), dp.max_divergence())
    while (measurement := make(scale=scale)).map(moved) > epsilon:
        scale = math.nextafter(scale, math.inf)
    return measurement


def shares(cells: int, epsilon: Fraction, sites: int) -> Integers:
    """Draw a site's share of the noise: the sum of `sites` shares is discrete Laplace noise."""
    drawn = np.array(mechanism("laplace", epsilon)([0] * (2 * cells)), dtype=np.int64)
    # Given its sign, a discrete Laplace draw is geometric: k from 0 on, or -1 - k from -1 on.
    plus, minus = from_urn(np.where(drawn < 0, -1 - drawn, drawn), sites).reshape(2, cells)
    return plus - minus


def from_urn(totals: Integers, sites: int) -> Integers:
    """Divide each total among the sites by Polya's urn, and return the part of the first site.

    Ball i + 1 goes to the first site with probability (k + 1/n) / (i + 1) if k of the first i balls did.
    """
    first = np.zeros(len(totals), dtype=np.int64)
    left = np.arange(len(totals))
    ball = 0
    while len(left := left[totals[left] > ball]):
        ball += 1
        first[left] += below(sites * ball, len(left)) < (sites * first[left] + 1).astype(np.uint64)
    return first


def below(limit: int, count: int) -> NDArray[np.uint64]:
    """Draw uniform integers below a limit from the system's source of randomness."""
    drawn = np.frombuffer(os.urandom(8 * count), dtype=np.uint64)
    even = 2**64 - 2**64 % limit
    while even < 2**64 and len(again := np.flatnonzero(drawn >= np.uint64(even))):  # otherwise biased to low values
        drawn = drawn.copy()
        drawn[again] = np.frombuffer(os.urandom(8 * len(again)), dtype=np.uint64)
    return drawn % np.uint64(limit)


@dataclass(frozen=True, kw_only=True, eq=False)
class NoisyPlan(Plan):
    """Rank and margins of the threshold, derived from public numbers."""

    grid: Floats
    margins: Integers
    """Margin above r for each finite candidate."""

    def threshold(self, counts: Sequence[int], scores: int) -> float:
        """Return the first candidate whose estimated rank is high enough, from noisy counts of this many scores."""
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
    """Choose r and the margins for noise of this `strength`, in units of one draw; None if there are too few scores."""
    choices = []
    for plan in plans_to_try(guarantee, alpha, sizes):
        widest = int(margins(epsilon, len(grid), strength, plan.failure, at=len(grid) // 2)[0])
        choices.append((plan.rank + widest, plan.failure, plan))
    if not choices:
        return None
    best = min(choices)[2]
    needed = margins(epsilon, len(grid), strength, best.failure)
    if best.rank + int(needed.min()) > sum(sizes):
        return None
    return NoisyPlan(**vars(best), grid=grid, margins=needed)


def margins(epsilon: Fraction, cells: int, strength: Fraction, failure: Fraction, at: int | None = None) -> Integers:
    """Return t_j for every finite candidate, or for index `at`, by Chernoff's bound minimised over a grid of v."""
    j = np.arange(1, cells) if at is None else np.array([at])
    up, above = 1 - j / cells, j / cells
    scale = MOVED / float(epsilon) * (1 + 1e-9)
    v = np.geomspace(1e-6, 0.999, 400) / scale / np.maximum(up, above)[:, None]
    log_moment = j[:, None] * _log_moment(v * up[:, None], scale) + (cells - j)[:, None] * _log_moment(
        v * above[:, None], scale
    )
    needed = (float(strength) * log_moment + math.log((cells - 1) / failure)) / v
    margin: Integers = np.maximum(0, np.ceil(needed.min(axis=1) * (1 + 1e-9)).astype(np.int64) - 1)
    return margin


def _log_moment(v: Floats, scale: float) -> Floats:
    """Return the log of the moment generating function of discrete Laplace noise."""
    p = math.exp(-1 / scale)
    return -np.log1p(-p * (2 * np.sinh(v / 2) / (1 - p)) ** 2)


def in_cells(keys: Keys, grid: Floats) -> Integers:
    """Return the counts of scores, given by their keys, in the cells that end at the candidates.

    >>> in_cells(keys_of(np.array([0.1, 0.5, 7.0])), np.array([0.5, 1.0, math.inf]))
    array([2, 0, 1])
    """
    return np.bincount(np.searchsorted(keys_of(grid), keys, side="left"), minlength=len(grid))


def noisy_grid() -> Floats:
    """Return 65 candidates, fewer than a trusted coordinator would use, because every cell adds noise."""
    parts = [np.linspace(0, 0.9, 31), 1 - 0.1 * 2.0 ** (-np.arange(1, 17) / 2), np.linspace(1, 2, 17)]
    return np.append(np.unique(np.concatenate(parts).round(12)), math.inf)
