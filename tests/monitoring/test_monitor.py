"""The watch over misses: evidence against forty digits, states that go on, intervals, bad input."""

import math
from typing import Any

import numpy as np
import pytest
from scipy import special, stats

import fedconformal as fc
from fedconformal.errors import InputError
from fedconformal.monitoring.limits import limits_of
from fedconformal.monitoring.monitor import Monitor, log_e, lower_rate
from tests.monitoring.watches import predictor


def test_known_values() -> None:
    misses = np.array([0, 1, 0, 0, 1, 1, 0, 1])
    s, t = np.cumsum(misses), np.arange(1, 9)
    wanted = [0.4221203602, 1.655759280, 0.8753878680, 0.5745494428, 1.963831680, 8.382784794, 4.638040492, 20.44154175]
    np.testing.assert_allclose(np.exp(log_e(s, t - s, 0.1)), wanted, rtol=1e-9)
    np.testing.assert_allclose(np.exp(log_e(60, 240, 0.12)), 141.3696115, rtol=1e-9)
    np.testing.assert_allclose(log_e(5, 5000, 0.3), -8.775808095, rtol=1e-3)


def test_the_evidence_is_one_on_average_at_the_limit() -> None:
    """E[E_t] = 1 at the limit itself, summed over all outcomes of t rows; below the limit it is less."""
    misses = np.arange(51)
    e_values = np.exp(log_e(misses, 50 - misses, 0.2))
    assert (stats.binom.pmf(misses, 50, 0.2) * e_values).sum() == pytest.approx(1, abs=1e-9)
    assert (stats.binom.pmf(misses, 50, 0.15) * e_values).sum() < 0.9


def test_a_batch_of_late_hits_raises_no_alarm() -> None:
    """Misses are known at once, and all hits together at the end: the first few of them are not all there is."""
    watch = Monitor(limit=0.1).update(misses=[1.0] * 30, waiting=270)
    assert not watch.update(misses=[0.0] * 270).alarm
    in_turn = Monitor(limit=0.1, waiting=300).update(misses=[1.0] * 30 + [0.0] * 270, waiting=range(299, -1, -1))
    assert not in_turn.alarm
    with pytest.raises(InputError, match="270 rows waited and 9 outcomes came"):
        watch.update(misses=[0.0] * 9)
    with pytest.raises(InputError, match="or one after each row"):
        watch.update(misses=[0.0] * 9, waiting=[1, 2])


@pytest.mark.parametrize("most", [0, 1])
def test_batches_do_not_matter(most: int) -> None:
    """To the last bit, for misses and for losses."""
    rng = np.random.default_rng(3)
    missed = (rng.random(3000) < 0.13).astype(float) if most else rng.random(3000) * 0.3
    whole = Monitor(limit=0.1).update(misses=missed)
    parts = Monitor(limit=0.1)
    for some in np.array_split(missed, 41):
        parts = parts.update(misses=some)
    assert parts == whole
    assert whole.alarm
    values = log_e(np.cumsum(missed), np.arange(1, 3001) - np.cumsum(missed), 0.1)
    assert whole.alarm_at == int(np.flatnonzero(values >= math.log(40))[0]) + 1
    assert whole.log_e_value == values[-1]


def test_outcomes_in_turn_are_those_of_one_batch() -> None:
    """Losses are added one after the other, and each is judged with the rows that waited then."""
    for seed in range(5):
        losses = np.random.default_rng(seed).random(200)
        start = Monitor(limit=0.4, false_alarm=0.05, known=3, misses=1 / 3, waiting=200)
        at_once, one_each = start.update(misses=losses, waiting=np.arange(199, -1, -1)), start
        for row, loss in enumerate(losses):
            one_each = one_each.update(misses=[loss], waiting=199 - row)
        assert at_once == one_each
    for wrong in ([1, 2], -1, 0.5, [0.5] * 200):
        with pytest.raises(InputError, match="waiting is"):
            start.update(misses=losses, waiting=wrong)


def test_intervals_of_little_and_of_rows_that_wait() -> None:
    low, high = Monitor(limit=0.5).update(misses=[0, 1] * 50, waiting=100).interval
    assert low == pytest.approx(1 - high)
    assert Monitor(limit=0.5).interval == (0.0, 1.0)
    assert Monitor(limit=0.5, known=2**50, misses=2**49).interval == pytest.approx((0.5, 0.5), abs=1e-6)


def test_a_predictor_gives_the_limit() -> None:
    assert Monitor.of(predictor()).limit == limits_of(predictor()).rate
    with pytest.raises(InputError, match="several by themselves"):
        Monitor.of(predictor(fc.EverySite()))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"limit": 0}, "limit is 0"),
        ({"limit": math.nan}, "limit is nan"),
        ({"limit": 0.1, "false_alarm": 1}, "false_alarm is 1"),
        ({"limit": 0.1, "failure": -0.1}, "failure is -0.1"),
        ({"limit": 0.1, "known": 3, "misses": 4.0}, "no more misses than rows"),
        ({"limit": 1e-10}, "limit is 1e-10, expected a number from 1e-09 to 1 - 1e-09"),
        ({"limit": 0.1, "known": 3, "alarm_at": 4}, "alarm_at is 4"),
    ],
)
def test_bad_watches_are_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        Monitor(**fields)


@pytest.mark.parametrize("misses", [[2], [-1], [math.nan], [[0, 1]], ["x"], 1])
def test_bad_outcomes_are_refused(misses: Any) -> None:
    with pytest.raises(InputError, match="misses: expected"):
        Monitor(limit=0.1).update(misses=misses)


LIMITS = [1e-9, 1e-4, 0.01, 0.1, 0.3, 0.5, 0.9, 1 - 1e-4, 1 - 1e-9]


def exact(mp: Any, misses: float, hits: float, limit: float) -> Any:
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
    ("seed", "cases"), [pytest.param(0, 10, marks=pytest.mark.long), pytest.param(1, 600, marks=pytest.mark.slow)]
)
def test_the_evidence_is_exact_to_the_stated_error(seed: int, cases: int) -> None:
    mp = pytest.importorskip("mpmath")
    rng = np.random.default_rng(seed)
    for _ in range(cases):
        misses, hits, limit = case(rng)
        wanted, found = float(exact(mp, misses, hits, limit)), float(log_e(misses, hits, limit))
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
