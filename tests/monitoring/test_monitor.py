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
    with pytest.raises(InputError, match="several separately"):
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


@pytest.mark.long
def test_the_evidence_is_exact_to_the_stated_error() -> None:
    """Against forty digits, where misses are about as many as the limit allows, and half as many more."""
    mp = pytest.importorskip("mpmath")
    cases = [(limit, rows, share) for limit in LIMITS for rows in (10, 1000.5, 5000) for share in (1, 1.5)]
    for limit, rows, share in [*cases, (1e-4, 10**6, 1.5)]:
        misses = min(math.floor(limit * rows * share + 3), rows)
        with mp.workdps(40):
            a, s, f = mp.mpf(limit), mp.mpf(misses), mp.mpf(rows) - misses
            stake = 2 * mp.acos(mp.sqrt(a)) * a**s * (1 - a) ** f
            wanted = float(mp.log(mp.betainc(s + 0.5, f + 0.5, a, 1) / stake))
        assert float(log_e(misses, rows - misses, limit)) == pytest.approx(wanted, rel=1e-9, abs=1e-8)


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
