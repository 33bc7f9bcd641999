"""The watch over misses: numbers worked out independently, states that go on, bad input."""

import math
from typing import Any

import numpy as np
import pytest
from scipy import special, stats

import fedconformal as fc
from fedconformal.errors import InputError
from fedconformal.guarantees.miss_rate_bounds import rank_bound
from fedconformal.monitoring.monitor import Monitor, log_e


def test_known_values() -> None:
    misses = np.array([0, 1, 0, 0, 1, 1, 0, 1])
    s, t = np.cumsum(misses), np.arange(1, 9)
    wanted = [0.4221203602, 1.655759280, 0.8753878680, 0.5745494428, 1.963831680, 8.382784794, 4.638040492, 20.44154175]
    np.testing.assert_allclose(np.exp(log_e(s, t - s, 0.1)), wanted, rtol=1e-9)
    np.testing.assert_allclose(np.exp(log_e(60, 240, 0.12)), 141.3696115, rtol=1e-9)
    np.testing.assert_allclose(log_e(5, 5000, 0.3), -8.775808095, rtol=1e-3)


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


def test_losses_go_on_to_the_same_bits_however_they_are_cut() -> None:
    rng = np.random.default_rng(8)
    losses = rng.random(3000) * 0.21
    whole, parts = Monitor(limit=0.1).update(misses=losses), Monitor(limit=0.1)
    for some in np.split(losses, np.sort(rng.integers(0, 3000, 100))):
        parts = parts.update(misses=some)
    assert parts == whole


def test_batches_do_not_matter() -> None:
    rng = np.random.default_rng(3)
    missed = (rng.random(3000) < 0.13).astype(float)
    whole = Monitor(limit=0.1).update(misses=missed)
    parts = Monitor(limit=0.1)
    for some in np.array_split(missed, 41):
        parts = parts.update(misses=some)
    assert parts == whole
    assert whole.alarm
    values = log_e(np.cumsum(missed), np.arange(1, 3001) - np.cumsum(missed), 0.1)
    assert whole.alarm_at == int(np.flatnonzero(values >= math.log(40))[0]) + 1
    assert whole.log_e_value == values[-1]


def test_losses_between_zero_and_one() -> None:
    rng = np.random.default_rng(4)
    watch = Monitor(limit=0.2).update(misses=rng.random(2000) * 0.3)
    assert not watch.alarm
    assert Monitor(limit=0.2).update(misses=0.3 + rng.random(2000) * 0.3).alarm


def test_intervals_of_little_and_of_rows_that_wait() -> None:
    low, high = Monitor(limit=0.5).update(misses=[0, 1] * 50, waiting=100).interval
    assert low == pytest.approx(1 - high)
    assert Monitor(limit=0.5).interval == (0.0, 1.0)
    assert Monitor(limit=0.5, known=2**50, misses=2**49).interval == pytest.approx((0.5, 0.5), abs=1e-6)


def predictor(guarantee: fc.Guarantee, sizes: tuple[int, ...] = (300, 200)) -> fc.Predictor:
    rng = np.random.default_rng(6)
    sites = [fc.Summary.of_scores(rng.random(n), site=f"site-{n}", score=fc.LAC()) for n in sizes]
    return fc.calibrate(sites, alpha=0.1, guarantee=guarantee)


def test_a_predictor_gives_the_limit() -> None:
    assert Monitor.of(predictor(fc.PAC(failure=0.025))).limit == pytest.approx(0.1, abs=1e-6)
    watch = Monitor.of(predictor(fc.Mixture()))
    assert watch.limit == rank_bound(451, 500, 0.025)
    with pytest.raises(InputError, match="several by themselves"):
        Monitor.of(predictor(fc.EverySite()))
    with pytest.raises(InputError, match="no limit to watch"):
        Monitor.of(predictor(fc.NewSite(), sizes=tuple(range(40, 55))))
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
