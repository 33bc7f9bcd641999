"""The watch over misses: numbers worked out independently, false alarms at the stated rate, states that go on."""

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import special, stats

import fedconformal as fc
from fedconformal.errors import InputError
from fedconformal.guarantees.luck import rank_limit
from fedconformal.monitoring.beta import log_e
from fedconformal.monitoring.monitor import Monitor


def test_known_values() -> None:
    misses = np.array([0, 1, 0, 0, 1, 1, 0, 1])
    s, t = np.cumsum(misses), np.arange(1, 9)
    wanted = [0.4221203602, 1.655759280, 0.8753878680, 0.5745494428, 1.963831680, 8.382784794, 4.638040492, 20.44154175]
    np.testing.assert_allclose(np.exp(log_e(s, t - s, 0.1)), wanted, rtol=1e-9)
    np.testing.assert_allclose(np.exp(log_e(60, 240, 0.12)), 141.3696115, rtol=1e-9)
    np.testing.assert_allclose(log_e(5, 5000, 0.3), -8.775808095, rtol=1e-9)


@pytest.mark.parametrize("limit", [0.01, 0.1, 0.3, 0.9])
def test_both_forms_agree_with_scipy_where_scipy_can_tell(limit: float) -> None:
    rng = np.random.default_rng(0)
    hits, misses = rng.integers(0, 400, 300), rng.integers(0, 200, 300)
    whole = special.betaln(misses + 0.5, hits + 0.5) - np.log(2 * np.arccos(np.sqrt(limit)))
    inside = special.betainc(hits + 0.5, misses + 0.5, 1 - limit)
    sure = inside > 1e-290
    wanted = whole + np.log(inside, where=sure, out=np.zeros(300)) - misses * np.log(limit) - hits * np.log1p(-limit)
    assert sure.sum() > 100
    np.testing.assert_allclose(log_e(misses, hits, limit)[sure], wanted[sure], rtol=1e-9, atol=1e-9)


def test_the_evidence_is_one_on_average_at_the_limit() -> None:
    """E[E_t] = 1 at the limit itself, summed over all outcomes of t rows; below the limit it is less."""
    misses = np.arange(51)
    e_values = np.exp(log_e(misses, 50 - misses, 0.2))
    assert (stats.binom.pmf(misses, 50, 0.2) * e_values).sum() == pytest.approx(1, abs=1e-9)
    assert (stats.binom.pmf(misses, 50, 0.15) * e_values).sum() < 0.9


def latest(limit: float, level: float, most: int) -> NDArray[np.float64]:
    """Tabulate for S = 1, 2, ... the latest row at which the S-th miss raises an alarm; 0 if none does.

    Between two misses the evidence falls, and while misses are at most the limit's share it is below one.
    """
    misses = np.arange(1, most + 1)
    low, high = np.full(most, -1), np.floor(misses * (1 - limit) / limit).astype(np.int64) + 1
    while (high - low > 1).any():
        middle = (low + high) // 2
        enough = log_e(misses, np.maximum(middle, 0), limit) >= -math.log(level)
        low, high = np.where(enough, middle, low), np.where(enough, high, np.maximum(middle, low + 1))
    return np.where(low >= 0, misses + low, 0)


def alarms(rate: NDArray[np.float64], limit: float, rows: int, level: float, rng: np.random.Generator) -> int:
    """Count the streams that ever raise an alarm, by the gaps between their misses."""
    most = int(rate.max() * rows + 10 * math.sqrt(rows))
    table, time, found = latest(limit, level, most), np.zeros(len(rate)), np.zeros(len(rate), dtype=np.bool_)
    for last in table:
        time += rng.geometric(rate)
        found |= time <= min(last, rows)
        if time.min() > rows:
            break
    return int(found.sum())


@pytest.mark.parametrize(("alpha", "size"), [(0.1, 50), (0.1, 500), (0.3, 200)])
def test_false_alarms_over_calibrations_are_as_rare_as_stated(alpha: float, size: int) -> None:
    """Scores are uniform, so that a calibration's miss rate is one minus a beta variable. Alpha itself goes red."""
    rng, streams, failure, level = np.random.default_rng(1), 2000, 0.025, 0.025
    rank = math.ceil((1 - alpha) * (size + 1))
    rate = 1 - rng.beta(rank, size + 1 - rank, streams)
    found = alarms(rate, rank_limit(rank, size, failure), 20_000, level, rng)
    assert stats.binomtest(found, streams, failure + level, alternative="greater").pvalue > 1e-3
    naive = alarms(rate, alpha, 20_000, level, rng)
    assert stats.binomtest(naive, streams, failure + level, alternative="greater").pvalue < 1e-6


def test_labels_that_come_late_raise_no_alarm() -> None:
    """Hits are known 300 rows late: rows that wait count as covered. Who leaves them out has an alarm at once."""
    rng = np.random.default_rng(2)
    missed = rng.random(5000) < 0.1
    watch, naive = Monitor(limit=0.1), Monitor(limit=0.1)
    queue: list[int] = []
    for row in range(len(missed)):
        queue.append(row)
        known = [q for q in queue if missed[q] or q <= row - 300]
        queue = [q for q in queue if q not in known]
        watch = watch.update(misses=missed[known].astype(float), waiting=len(queue))
        naive = naive.update(misses=missed[known].astype(float))
    assert naive.alarm
    assert not watch.alarm
    assert watch.rows == 5000


def test_batches_do_not_matter() -> None:
    rng = np.random.default_rng(3)
    missed = (rng.random(3000) < 0.13).astype(float)
    whole = Monitor(limit=0.1).update(misses=missed)
    parts = Monitor(limit=0.1)
    for some in np.array_split(missed, 41):
        parts = Monitor.from_bytes(parts.update(misses=some).to_bytes())
    assert parts == whole
    assert whole.alarm
    values = log_e(np.cumsum(missed), np.arange(1, 3001) - np.cumsum(missed), 0.1)
    assert whole.alarm_at == int(np.flatnonzero(values >= math.log(40))[0]) + 1
    assert whole.log_e_value == values[-1]
    assert len(whole.to_bytes()) < 300


def test_losses_between_zero_and_one() -> None:
    rng = np.random.default_rng(4)
    watch = Monitor(limit=0.2).update(misses=rng.random(2000) * 0.3)
    assert not watch.alarm
    assert Monitor(limit=0.2).update(misses=0.3 + rng.random(2000) * 0.3).alarm


def test_the_interval_holds_at_all_times_at_once() -> None:
    rng, outside = np.random.default_rng(5), 0
    for _ in range(200):
        watch, ever = Monitor(limit=0.5, false_alarm=0.1), False
        for _ in range(20):
            watch = watch.update(misses=(rng.random(25) < 0.15).astype(float))
            low, high = watch.interval
            ever |= not low <= 0.15 <= high
        outside += ever
    assert stats.binomtest(outside, 200, 0.1, alternative="greater").pvalue > 1e-3
    assert outside > 0
    low, high = Monitor(limit=0.5).update(misses=[0, 1] * 50, waiting=100).interval
    assert low == pytest.approx(1 - high)
    assert Monitor(limit=0.5).interval == (0.0, 1.0)


def predictor(guarantee: fc.Guarantee, sizes: tuple[int, ...] = (300, 200)) -> fc.Predictor:
    rng = np.random.default_rng(6)
    sites = [fc.summarize(rng.random(n), site=f"site-{n}", score=fc.LAC()) for n in sizes]
    return fc.Predictor.of(fc.calibrate(sites, alpha=0.1, guarantee=guarantee))


def test_a_predictor_gives_the_limit() -> None:
    assert Monitor.of(predictor(fc.PAC(failure=0.025))).limit == pytest.approx(0.1, abs=1e-6)
    watch = Monitor.of(predictor(fc.Exchangeable()))
    assert watch.limit == rank_limit(451, 500, 0.025)
    with pytest.raises(InputError, match="several by themselves"):
        Monitor.of(predictor(fc.EveryClient()))
    with pytest.raises(InputError, match="no limit to watch"):
        Monitor.of(predictor(fc.NewClient(), sizes=tuple(range(40, 55))))
    with pytest.warns(fc.InfeasibleWarning), pytest.raises(InputError, match="nothing can be missed"):
        Monitor.of(predictor(fc.Mixture(), sizes=(4, 3)))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"limit": 0}, "limit is 0"),
        ({"limit": math.nan}, "limit is nan"),
        ({"limit": 0.1, "false_alarm": 1}, "false_alarm is 1"),
        ({"limit": 0.1, "failure": -0.1}, "failure is -0.1"),
        ({"limit": 0.1, "known": 3, "misses": 4.0}, "no more misses than rows"),
    ],
)
def test_bad_watches_are_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        Monitor(**fields)


@pytest.mark.parametrize("misses", [[2], [-1], [math.nan], [[0, 1]], ["x"], 1])
def test_bad_outcomes_are_refused(misses: Any) -> None:
    with pytest.raises(InputError, match="misses: expected"):
        Monitor(limit=0.1).update(misses=misses)


def test_hostile_states_are_refused() -> None:
    good = Monitor(limit=0.1).update(misses=[0, 1, 1, 0]).to_bytes()
    rng = np.random.default_rng(7)
    for data in [b"", b"FCW1", good[:-1], good + b"\0", b"x" + good[1:]]:
        with pytest.raises(InputError, match="not the state of a monitor"):
            Monitor.from_bytes(data)
    for _ in range(2000):
        hostile = bytearray(good)
        hostile[rng.integers(len(good))] = rng.integers(256)
        try:
            found = Monitor.from_bytes(bytes(hostile))
        except InputError:
            continue
        assert found.to_bytes() == bytes(hostile)
