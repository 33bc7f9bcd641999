"""Federations whose score distributions are known, so that coverage is computed and not counted.

Given the threshold q, coverage at site k is F_k(q), exactly. No test row is ever drawn, and the only noise
left is that of the calibration draws; its standard error is taken from the simulated coverages themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import stats

import fedconformal as fc

Floats = NDArray[np.float64]
Calibrator = Callable[[list[Floats]], fc.Predictor]

STANDARD_ERRORS = 4
REPETITIONS = 500
"""With about 50 scores, four standard errors are then about half of a rank."""


class Law(Protocol):
    """A distribution of scores, as those of scipy.stats: its quantiles, and the chance of a score <= x."""

    def ppf(self, u: Floats) -> Floats: ...

    def cdf(self, x: Floats) -> Floats: ...


class HalfAtOneHalf:
    """Half of the scores are 0.5; the others are uniform on [0, 1]."""

    def ppf(self, u: Floats) -> Floats:
        """Return the smallest x with cdf(x) >= u."""
        return np.where(u <= 0.25, 2 * u, np.where(u <= 0.75, 0.5, 2 * u - 1))

    def cdf(self, x: Floats) -> Floats:
        """Return the chance of a score <= x."""
        return np.clip(x, 0, 1) / 2 + 0.5 * (x >= 0.5)


class Site(NamedTuple):
    """A site: how its scores are distributed and how many it has for calibration."""

    law: Law
    size: int


class Mean(NamedTuple):
    """An average over calibration draws, and four of its standard errors."""

    value: float
    tolerance: float


def mean(coverages: Floats) -> Mean:
    """Average simulated coverages."""
    error = float(coverages.std(ddof=1)) / len(coverages) ** 0.5
    return Mean(float(coverages.mean()), STANDARD_ERRORS * error)


def sizes(sites: Sequence[Site]) -> list[int]:
    """Return every n_k."""
    return [site.size for site in sites]


def uniform(low: float, high: float) -> Law:
    """Return the uniform distribution on [low, high]."""
    law: Law = stats.uniform(low, high - low)
    return law


def draws(sites: Sequence[Site], *, seed: int, repetitions: int = REPETITIONS) -> list[list[Floats]]:
    """Draw everybody's calibration scores, again and again; the sites are independent."""
    rng = np.random.default_rng(seed)
    columns = [site.law.ppf(rng.random((repetitions, site.size))) for site in sites]
    return [[column[i] for column in columns] for i in range(repetitions)]


def thresholds(calibrate: Calibrator, drawn: list[list[Floats]]) -> Floats:
    """Calibrate on each draw."""
    return np.array([calibrate(scores).threshold for scores in drawn])


def coverage_by_site(sites: Sequence[Site], q: Floats) -> Floats:
    """Return the exact coverage of every threshold at every site, as (sites, thresholds)."""
    return np.stack([site.law.cdf(q) for site in sites])


def by_rows(sites: Sequence[Site]) -> Floats:
    """Return the shares n_k / N."""
    return np.array(sizes(sites)) / sum(sizes(sites))


def with_next_rows(sites: Sequence[Site]) -> Floats:
    """Return the shares of the paper's Theorem 1, in proportion to n_k + 1."""
    total = sum(sizes(sites)) + len(sites)
    return np.array([(site.size + 1) / total for site in sites])


def calibrator(guarantee: fc.Guarantee, alpha: float, kind: str = "exact") -> Calibrator:
    """Summarise each site's scores and calibrate, as a user does."""
    return lambda scores: fc.calibrate(
        [fc.Summary.of_scores(s, kind=kind) for s in scores], alpha=alpha, guarantee=guarantee, exact=True
    )
