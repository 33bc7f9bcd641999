"""Thresholds with noise cover as certified, for sites that differ and share a cause; one rank lower, they do not."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import fedconformal as fc
from fedconformal._base.arrays import Floats, keys_of
from fedconformal.privacy import noisy_histogram
from fedconformal.privacy.distributed_dp import NoisyRound
from fedconformal.privacy.dp import choose, plan_release, utilities
from fedconformal.privacy.noise import in_cells, plan_noisy
from fedconformal.privacy.release import Plan
from fedconformal.privacy.sums.radix import Search

pytest.importorskip("opendp", reason="noise is OpenDP's")

Release = Callable[[Sequence[Floats]], float]
Mode = Callable[[list[int], Fraction, Fraction, Floats], tuple[Plan, Release]]
"""From sizes, alpha, epsilon and the grid to the plan, and from scores to a threshold."""

HARDLY_ANY = Fraction(1000)
"""An epsilon at which no noise is ever drawn, so that the rank alone decides."""


def central(sizes: list[int], alpha: Fraction, epsilon: Fraction, grid: Floats) -> tuple[Plan, Release]:
    plan = plan_release(fc.Mixture(), alpha, sizes, epsilon, len(grid))
    assert plan is not None

    def release(parts: Sequence[Floats]) -> float:
        counts = np.cumsum(in_cells(keys_of(np.concatenate(parts)), grid))
        return float(grid[choose(utilities(counts, plan.aimed), epsilon)])

    return plan, release


def local(sizes: list[int], alpha: Fraction, epsilon: Fraction, grid: Floats) -> tuple[Plan, Release]:
    plan = plan_noisy(fc.Mixture(), alpha, sizes, epsilon, grid, strength=Fraction(len(sizes)))
    assert plan is not None

    def release(parts: Sequence[Floats]) -> float:
        sent = [noisy_histogram(part, epsilon=epsilon, site="a", grid=grid).counts for part in parts]
        return plan.threshold(np.sum(sent, axis=0).tolist(), sum(sizes))

    return plan, release


def distributed(sizes: list[int], alpha: Fraction, epsilon: Fraction, grid: Floats) -> tuple[Plan, Release]:
    noisy = NoisyRound(guarantee=fc.Mixture(), alpha=alpha, sizes=tuple(sizes), epsilon=epsilon, grid=grid)
    assert noisy.plan is not None

    def release(parts: Sequence[Floats]) -> float:
        sent = [noisy.histogram(Search(), keys_of(part)) for k, part in enumerate(parts)]
        total = np.sum(sent, axis=0, dtype=noisy.dtype)
        found = noisy.advance(Search(), total, frozenset(range(len(sizes)))).answer
        assert found is not None
        return found

    return noisy.plan, release


def coverages(release: Release, sizes: list[int], repetitions: int) -> Floats:
    """Return the coverage of the mixture n_k / N, exactly, in each of many worlds.

    The sites differ, and in half of the worlds all of them are harder together.
    """
    rng, found = np.random.default_rng(0), []
    weights, own = np.array(sizes) / sum(sizes), np.resize([1.0, 0.5, 2.0, 1.0], len(sizes))
    for _ in range(repetitions):
        powers = own * rng.choice([1.0, 0.5])
        parts = [rng.random(n) ** power for n, power in zip(sizes, powers, strict=True)]
        found.append(weights @ min(1.0, release(parts)) ** (1 / powers))
    return np.array(found)


def error(found: Floats) -> float:
    return 4 * float(found.std()) / math.sqrt(len(found))


@pytest.mark.long
@pytest.mark.parametrize("mode", [central, local, distributed])
def test_the_rank_is_the_least_that_keeps_the_promise(mode: Mode, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four sites of three rows: rank 11 of 12 promises 10/12, and rank 10 covers less than 83%."""
    alpha, grid, sizes = Fraction(17, 100), np.append(np.linspace(0, 1, 60), math.inf), [3] * 4
    plan, release = mode(sizes, alpha, HARDLY_ANY, grid)
    assert (plan.rank, plan.covered) == (11, Fraction(10, 12))
    assert Fraction(10, 12) > plan.promised > 1 - alpha
    found = coverages(release, sizes, 200)
    assert found.mean() >= float(plan.promised) - error(found)
    rank = fc.Mixture.rank

    def lower(self: fc.Mixture, alpha: Fraction, sizes: Any) -> Any:
        wanted, out_of = rank(self, alpha, sizes) or (0, 0)
        return wanted - 1, out_of

    monkeypatch.setattr(fc.Mixture, "rank", lower)
    plan, release = mode(sizes, alpha, HARDLY_ANY, grid)
    assert plan.rank == 10
    found = coverages(release, sizes, 200)
    assert found.mean() < float(1 - alpha) - error(found)


@pytest.mark.long
@pytest.mark.parametrize(("mode", "sizes"), [(central, [4] * 200), (local, [100] * 40), (distributed, [100] * 20)])
def test_many_small_sites_are_covered(mode: Mode, sizes: list[int]) -> None:
    """The number of sites costs nothing: for 200 sites of four rows the paper's rank is more than there are rows."""
    grid = np.append(np.linspace(0, 1, 33), math.inf)
    plan, release = mode(sizes, Fraction(1, 10), Fraction(1), grid)
    found = coverages(release, sizes, 40)
    assert plan.promised >= Fraction(9, 10)
    assert float(plan.promised) - error(found) <= found.mean() < 1
    if mode is central:
        assert plan_release(fc.FCP(), Fraction(1, 10), sizes, Fraction(1), len(grid)) is None
