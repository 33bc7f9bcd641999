"""The watch over scores: uniform p-values, bets that pay one on average, rare false alarms, soon noticed changes."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import integrate, stats

from fedconformal.errors import InputError
from fedconformal.monitoring.bets import Bets, payoffs
from fedconformal.monitoring.change import ChangeDetector


def test_p_values_are_those_of_the_definition() -> None:
    rng = np.random.default_rng(0)
    old, new = rng.integers(0, 8, 30).astype(float), rng.integers(0, 8, 2000).astype(float)
    draws = np.random.Generator(np.random.PCG64(3)).random(len(new))
    pool, wanted = list(old), []
    for score, u in zip(new, draws, strict=True):
        above, equal = sum(s > score for s in pool), sum(s == score for s in pool)
        wanted.append((above + u * (equal + 1)) / (len(pool) + 1))
        pool.append(score)
    np.testing.assert_array_equal(ChangeDetector(old, random_state=3).p_values(new), wanted)


def test_p_values_are_uniform_also_with_ties() -> None:
    rng = np.random.default_rng(1)
    found = np.concatenate(
        [
            ChangeDetector(rng.integers(0, 4, 20).astype(float), random_state=i).p_values(
                rng.integers(0, 4, 20).astype(float)
            )
            for i in range(500)
        ]
    )
    assert stats.kstest(found, "uniform").pvalue > 1e-3


def test_every_bet_pays_at_most_one_on_average() -> None:
    for bet in range(6):
        mean = sum(
            integrate.quad(lambda p, bet=bet: payoffs(np.array([p]))[0, bet], a, b, limit=200)[0]
            for a, b in ((0, 1e-6), (1e-6, 1e-3), (1e-3, 0.1), (0.1, 1))
        )
        assert 0.998 < mean <= 1 + 1e-9


def test_the_recursions_are_those_of_the_definition() -> None:
    p = np.random.default_rng(2).random(300)
    stakes, detectors = np.full(6, 1 / 6), np.zeros(5)
    for row in payoffs(p):
        stakes = (0.99 * stakes + 0.01 * stakes.mean()) * row
        detectors = row[1:] * (detectors + 1)
    found = Bets().placed(p, 0, math.inf)
    np.testing.assert_allclose(np.array(found.stakes) * 2.0**found.doublings, stakes, rtol=1e-12)
    np.testing.assert_allclose(found.detectors, detectors, rtol=1e-12)


def test_false_alarms_are_rare_and_changes_are_noticed() -> None:
    rng, streams = np.random.default_rng(3), 150
    rows, large, delays, begun = [], 0, [], []
    for i in range(streams):
        watch = ChangeDetector(rng.normal(size=500), random_state=i).update(rng.normal(size=2000))
        rows.append(watch.alarm_at or 2000)
        large += watch.log_e_value >= math.log(20)
        start = ChangeDetector(rng.normal(size=500), random_state=i, every=1000.0).update(rng.normal(size=100))
        if start.alarm_at is None:
            after = start.update(rng.normal(0.5, 1, 1000))
            delays.append((after.alarm_at or 1100) - 100)
            begun.append(after.since or 0)
    assert np.mean(rows) > 1000 - 3 * np.std(rows) / math.sqrt(streams)
    assert stats.binomtest(large, streams, 0.05, alternative="greater").pvalue > 1e-3
    assert np.median(delays) < 45
    assert abs(np.median(begun) - 100) < 25


def test_batches_and_states_go_on_to_the_same_answer() -> None:
    rng = np.random.default_rng(4)
    old, new = rng.random(200), np.append(rng.random(700), rng.random(700) * 2)
    whole, parts = ChangeDetector(old).update(new), ChangeDetector(old)
    for some in np.array_split(new, 9):
        parts = ChangeDetector.from_bytes(parts.to_bytes()).update(some)
    assert (parts.alarm_at, parts.since, parts.rows) == (whole.alarm_at, whole.since, whole.rows)
    assert parts.bets.stakes == whole.bets.stakes
    assert parts.bets.detectors == whole.bets.detectors
    np.testing.assert_allclose(parts.bets.runs, whole.bets.runs, atol=1e-9)


def test_a_long_drift_stays_within_floats() -> None:
    watch = ChangeDetector(np.linspace(0, 1, 100)).update(np.linspace(2, 9, 5000))
    assert math.isfinite(watch.log_e_value)
    assert watch.log_e_value > 1000
    assert ChangeDetector.from_bytes(watch.to_bytes()).log_e_value == watch.log_e_value


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ChangeDetector([]), "scores"),
        (lambda: ChangeDetector([0.1, math.nan]), "row 1 is nan"),
        (lambda: ChangeDetector([0.1], every=1), "every is 1"),
        (lambda: ChangeDetector([0.1], random_state=-1), "random_state is -1"),
        (lambda: ChangeDetector([0.1], rows=1), "no calibration score"),
        (lambda: ChangeDetector([0.1]).update(["x"]), "scores"),
        (lambda: ChangeDetector.from_bytes(b"FCD1"), "not the state of a change detector"),
        (lambda: ChangeDetector.from_bytes(ChangeDetector([0.1]).to_bytes() + b"\0"), "not the state"),
    ],
)
def test_bad_input_is_refused(make: Callable[[], object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        make()
