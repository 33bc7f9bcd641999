"""Differentially private thresholds from a trusted coordinator, with certified coverage.

OpenDP's noisy max (permute-and-flip) picks one of B public candidates by a utility of sensitivity one;
docs/proofs.md derives the rank r to reach, the rank r + d to aim at and the coverage. The paper's own mechanism, the
data point at a random rank, is not private: its possible outcomes depend on the data.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedconformal._base.arrays import Floats, Integers, as_alpha, rising
from fedconformal._base.names import abbreviate
from fedconformal._base.registry import build
from fedconformal.calibration.calibrate import usable
from fedconformal.calibration.predictor import Predictor
from fedconformal.certificates.certificate import SummaryRecord
from fedconformal.errors import InputError
from fedconformal.guarantees import FCP, Guarantee, Mixture
from fedconformal.guarantees.guarantee import Counts, as_decimal
from fedconformal.privacy.noise import mechanism
from fedconformal.privacy.release import Inputs, Plan, certify_release, check_one_end, plans_to_try
from fedconformal.summaries.provenance import combine_provenances
from fedconformal.summaries.summary import Summary


@dataclass(frozen=True, kw_only=True)
class ReleasePlan(Plan):
    """Rank to reach and rank to aim at."""

    aimed: int
    """The target rank r' of the mechanism."""


def default_grid() -> Floats:
    """Return candidates for scores such as LAC, APS and RAPS: dense near 1, sparse above it, with +inf last.

    >>> grid = default_grid()
    >>> len(grid), float(grid[0]), float(grid[-1])
    (1024, 0.0, inf)
    """
    near_one = 1 - 0.1 * 2.0 ** (-np.arange(1, 321) / 16)
    parts = [np.linspace(0, 0.9, 451), near_one, np.linspace(1, 2, 201), np.linspace(2, 10, 52)[1:]]
    return np.append(np.unique(np.concatenate(parts).round(12)), math.inf)


def plan_release(
    guarantee: Guarantee, alpha: Fraction, sizes: Counts, epsilon: Fraction, candidates: int
) -> ReleasePlan | None:
    """Choose r and d with the smallest r + d, then the smallest failure; None if r + d exceeds the number of scores.

    >>> plan = plan_release(Mixture(), Fraction(1, 10), [10_000] * 10, Fraction(1, 10), 1024)
    >>> plan.aimed - plan.rank, plan.rank - Mixture().rank(Fraction(1, 10), [10_000] * 10)[0]
    (304, 22)
    """
    plans = [
        ReleasePlan(**vars(plan), aimed=plan.rank + _enough(epsilon, candidates, plan.failure))
        for plan in plans_to_try(guarantee, alpha, sizes)
    ]
    feasible = (plan for plan in plans if plan.aimed <= sum(sizes))
    return min(feasible, key=lambda plan: (plan.aimed, plan.failure), default=None)


def _enough(epsilon: Fraction, candidates: int, failure: Fraction) -> int:
    """Return the smallest d with (B - 1) exp(-epsilon (d + 1) / 2) <= failure, with a margin for rounding."""
    return max(0, math.ceil(2 / epsilon * Fraction(math.log((candidates - 1) / failure) * (1 + 1e-12))) - 1)


def utilities(counts: Integers, aimed: int) -> Integers:
    """Return the utilities of the candidates, from the counts at or below them.

    >>> utilities(np.array([2, 5, 5, 9]), aimed=5)
    array([-3,  0, -1, -1])
    """
    before = np.append(0, counts[:-1])
    distance: Integers = np.maximum(0, np.maximum(aimed - counts, before + 1 - aimed))
    return -distance


def choose(scored: Integers, epsilon: Fraction) -> int:
    """Return the index of a candidate, drawn by OpenDP's noisy max."""
    return int(mechanism("noisy max", epsilon)(scored.tolist()))


def release_threshold(
    summaries: Sequence[Summary],
    *,
    epsilon: Any,
    alpha: Any = 0.1,
    guarantee: Guarantee | str = "mixture",
    grid: ArrayLike | None = None,
) -> Predictor:
    """Release a threshold with coverage 1 - alpha and epsilon-differential privacy (replacing one row of one site).

    The coordinator is trusted with the summaries, which must hold exact counts. Nothing else in the result depends on
    the rows: no digests, no promise curve, no p-values.
    """
    budget, miss_rate = as_epsilon(epsilon), as_alpha(alpha)
    summaries, candidates = usable(summaries, miss_rate), as_grid(default_grid() if grid is None else grid)
    guarantee = check_alike(build(guarantee, Guarantee))
    for summary in summaries:
        check_one_end(summary.provenance.score, str(summary))
        if summary.gap or not summary.certified:
            raise InputError(
                f'{summary}: differential privacy needs exact counts; summarise with kind="exact"', param="kind"
            )
    sizes = [n for summary in summaries for n in summary.sizes]
    release = plan_release(guarantee, miss_rate, sizes, budget, len(candidates))
    threshold = math.inf
    if release is not None:
        counts = np.sum([summary.bounds(candidates)[0] for summary in summaries], axis=0)
        threshold = float(candidates[choose(utilities(counts, release.aimed), budget)])
    # A digest of the rows would be a release of its own.
    records = [SummaryRecord(sites=s.sites, sizes=s.sizes, kind=s.name, sha256="") for s in summaries]
    provenance = combine_provenances(summary.provenance for summary in summaries)
    return certify_release(
        threshold,
        release,
        Inputs(alpha=miss_rate, guarantee=guarantee, records=records, provenance=provenance),
        definition="pure differential privacy of the threshold, by OpenDP's noisy max",
        epsilon=budget,
        grid=candidates,
        aimed_at=None if release is None else release.aimed,
    )


def check_alike(guarantee: Guarantee) -> Guarantee:
    """Refuse a guarantee with unequal row weights: a row of more weight would need more noise."""
    if guarantee not in (Mixture(), FCP()):
        raise InputError(f"{guarantee.name} is not available with differential privacy; use mixture or fcp")
    return guarantee


def as_epsilon(epsilon: Any) -> Fraction:
    """Return epsilon as an exact decimal fraction."""
    try:
        exact = as_decimal(float(str(epsilon)))
    except (ValueError, OverflowError):
        exact = Fraction(0)
    if not Fraction(1, 1000) <= exact <= 1000:
        raise InputError(f"epsilon is {abbreviate(epsilon)}, expected a number from 0.001 to 1000")
    return exact


def as_grid(values: ArrayLike, most: int = 2**16) -> Floats:
    """Check that candidates increase and end with +inf. They must not depend on the scores."""
    try:
        grid = np.asarray(values, dtype=np.float64)
    except (ValueError, TypeError):
        grid = np.empty(0)
    if grid.ndim != 1 or not 2 <= len(grid) <= most or grid[-1] != math.inf or not rising(grid):
        raise InputError(f"grid: expected 2 to {most} rising candidates, +inf the last of them")
    return grid
