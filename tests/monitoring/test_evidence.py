"""The evidence against forty digits, for any limit and for losses; and intervals from it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import special

from fedconformal.monitoring.monitor import log_e, lower_rate

mp = pytest.importorskip("mpmath")

LIMITS = [1e-9, 1e-4, 0.01, 0.1, 0.3, 0.5, 0.9, 1 - 1e-4, 1 - 1e-9]


def exact(misses: float, hits: float, limit: float) -> Any:
    """Integrate the definition with forty digits, in pieces around its peak."""
    with mp.workdps(40):
        s, f, a = mp.mpf(misses), mp.mpf(hits), mp.mpf(limit)
        start, end = mp.asin(mp.sqrt(a)), mp.pi / 2
        peak = max(start, mp.atan2(mp.sqrt(s), mp.sqrt(f)) if f else end)

        def height(x: Any) -> Any:
            miss = s * mp.log(mp.sin(x) ** 2 / a) if s else mp.mpf(0)
            return miss + (f * mp.log(mp.cos(x) ** 2 / (1 - a)) if f else mp.mpf(0))

        reach = mp.sqrt(120 / (s + f))
        if peak == start and (slope := abs(2 * (s / mp.tan(peak) - f * mp.tan(peak)))):
            reach = min(reach, 120 / slope)
        low, high, top = max(start, peak - reach), min(end, peak + reach), height(peak)
        pieces = [mp.mpf(share) for share in ("0.1", "0.3", "0.6", "0.9")]
        points = [low, *(peak - (peak - low) * share for share in pieces[::-1]), peak]
        points += [*(peak + (high - peak) * share for share in pieces), high]
        whole = mp.quad(lambda x: mp.exp(height(x) - top), sorted(set(points)))
        return top + mp.log(whole / mp.acos(mp.sqrt(a)))


def case(rng: np.random.Generator) -> tuple[float, float, float]:
    """Draw a limit, up to a million rows, and misses near the limit's share, few, many, or any; some are losses."""
    limit, rows = float(rng.choice(LIMITS)), 2 ** rng.uniform(0, 20)
    near = limit * rows + 3 * rng.normal() * math.sqrt(limit * (1 - limit) * rows)
    few = float(rng.integers(10))
    misses = np.floor(min(max(rng.choice([near, few, rows - few, rows * rng.random()]), 0.0), rows))
    part = rng.random() * (rng.random() < 0.3)
    return float(misses + part * (misses > 0)), float(np.floor(rows - misses)) + 1 + part, limit


@pytest.mark.parametrize(
    ("seed", "cases"), [pytest.param(0, 25, marks=pytest.mark.long), pytest.param(1, 600, marks=pytest.mark.slow)]
)
def test_the_evidence_is_exact_to_the_stated_error(seed: int, cases: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(cases):
        misses, hits, limit = case(rng)
        wanted, found = float(exact(misses, hits, limit)), float(log_e(misses, hits, limit))
        off = 1e-8 if wanted > 0 else 0.02  # where there is no evidence, few digits are enough
        assert abs(found - wanted) <= off * (1 + abs(wanted) * 1e-6), (misses, hits, limit)


def test_nothing_is_slow_or_not_finite() -> None:
    """Limits and counts at the ends of their ranges, which a hostile message may hold."""
    counts = np.array([0, 1e-300, 1e-9, 0.5, 1, 3, 1e6, 2.0**49, 2.0**50])
    misses, hits = (one.ravel() for one in np.meshgrid(counts, counts))
    for limit in LIMITS:
        assert np.isfinite(log_e(misses, hits, limit)).all()
    for level in (1e-9, 0.05, 1 - 1e-9):
        low = lower_rate(misses, hits, level)
        rate = np.divide(misses, misses + hits, out=np.zeros_like(misses), where=misses + hits > 0)
        assert ((low >= 0) & (low <= rate)).all()
    assert abs(log_e(0, 0, 0.1)) < 1e-15


def test_the_ends_of_intervals_are_where_the_evidence_is_enough() -> None:
    rng = np.random.default_rng(4)
    misses, hits = rng.integers(1, 300, 500).astype(float), rng.integers(0, 2000, 500).astype(float)
    low = lower_rate(misses, hits, 0.05)
    powers = special.xlogy(misses, low) + special.xlog1py(hits, -low)
    against = special.betaln(misses + 0.5, hits + 0.5) - math.log(math.pi) - powers
    np.testing.assert_allclose(against, math.log(20), rtol=0, atol=1e-10)
