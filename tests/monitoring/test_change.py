"""The watch over scores: uniform p-values, bets that pay one on average, states that go on."""

import math
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats

from fedconformal.errors import InputError
from fedconformal.monitoring import schema
from fedconformal.monitoring.change import Bets, ChangeDetector, StoredDetector, payoffs
from fedconformal.monitoring.messages import LAST_DAY


def test_p_values_are_those_of_the_definition() -> None:
    rng = np.random.default_rng(0)
    old, new = rng.integers(0, 8, 30).astype(float), rng.integers(0, 8, 300).astype(float)
    draws = np.random.Generator(np.random.PCG64(3)).random(len(new))
    pool, wanted = list(old), []
    for score, u in zip(new, draws, strict=True):
        above, equal = sum(s > score for s in pool), sum(s == score for s in pool)
        wanted.append((above + u * (equal + 1)) / (len(pool) + 1))
        pool.append(score)
    np.testing.assert_array_equal(ChangeDetector(old, random_state=3).p_values(new), wanted)


def test_p_values_are_uniform_also_with_ties() -> None:
    rng = np.random.default_rng(1)
    draws = rng.integers(0, 4, (500, 2, 20)).astype(float)
    found = [ChangeDetector(old, random_state=i).p_values(new) for i, (old, new) in enumerate(draws)]
    assert stats.kstest(np.concatenate(found), "uniform").pvalue > 1e-3


def test_every_bet_pays_at_most_one_on_average() -> None:
    for bet in range(6):
        mean = sum(
            integrate.quad(lambda p, bet=bet: payoffs(np.array([p]))[0, bet], a, b, limit=200)[0]
            for a, b in ((0, 1e-6), (1e-6, 1e-3), (1e-3, 0.1), (0.1, 1))
        )
        assert 0.998 < mean <= 1 + 1e-9


def test_the_recursion_is_that_of_the_definition() -> None:
    p = np.random.default_rng(2).random(300)
    stakes = np.full(6, 1 / 6)
    for row in payoffs(p):
        stakes = (0.99 * stakes + 0.01 * stakes.mean()) * row
    found = Bets().placed(p, 0)
    np.testing.assert_allclose(np.array(found.stakes) * 2.0**found.doublings, stakes, rtol=1e-12)


def test_a_change_is_dated_by_the_run_that_has_won_most() -> None:
    """A run begins anew after each row at which its bet was never worth less, as written out row by row."""
    rng = np.random.default_rng(5)
    for seed in range(20):
        watch = ChangeDetector(rng.random(300), random_state=seed)
        new = np.append(rng.random(100), rng.random(30) + 0.3)
        worth, lowest, starts = np.zeros(5), np.zeros(5), np.zeros(5, dtype=int)
        for row, won in enumerate(payoffs(watch.p_values(new))[:, 1:]):
            starts, lowest = np.where(worth <= lowest, row, starts), np.minimum(worth, lowest)
            worth = worth + np.log(won)
        assert watch.update(new).begun == starts[(worth - lowest).argmax()]


@pytest.mark.parametrize("drift", [0.0, 1.0, 50.0])
def test_batches_and_states_go_on_to_the_same_bits(drift: float) -> None:
    rng = np.random.default_rng(4)
    old, new = rng.random(200), np.concatenate([rng.random(700), rng.random(2000) + drift, rng.random(700)])
    whole, parts = ChangeDetector(old).update(new), ChangeDetector(old)
    cuts = np.sort(rng.integers(0, len(new), 40))
    for some in np.split(new, [1, 2, 3, *cuts]):
        parts = parts.update(some)
    assert parts.bets == whole.bets
    assert np.array_equal(parts.scores, whole.scores)
    assert drift < 50 or parts.bets.doublings > 600


def test_a_long_drift_stays_within_floats() -> None:
    watch = ChangeDetector(np.linspace(0, 1, 100)).update(np.linspace(2, 9, 5000))
    assert math.isfinite(watch.log_e_value)
    assert watch.log_e_value > 1000


@pytest.mark.parametrize("fields", [{"stakes": (0.0,) * 6}, {"stakes": (1e300,) * 6}, {"lows": (1.0,) * 5}])
def test_bets_that_cannot_be_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="too large or too small"):
        Bets(**fields)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ChangeDetector([]), "scores"),
        (lambda: ChangeDetector([0.1, math.nan]), "row 1 is nan"),
        (lambda: ChangeDetector([0.1], random_state=-1), "random_state is -1"),
        (lambda: ChangeDetector([0.1], rows=1), "no calibration score"),
        (lambda: ChangeDetector([0.1]).update(["x"]), "scores"),
        (lambda: ChangeDetector([0.1], bets=Bets(starts=(1, 0, 0, 0, 0))), "not those after 0 rows"),
    ],
)
def test_bad_input_is_refused(make: Callable[[], object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        make()


def test_a_change_is_noticed_and_dated(tmp_path: Path) -> None:
    draws, days = np.random.default_rng(2), np.repeat(np.arange(20), 24)
    new = np.concatenate([draws.random(240), draws.random(240) + 0.4])
    fill = partial(StoredDetector.begin, scores=draws.random(300))
    with closing(schema.create(tmp_path / "watch.db", {}, [], fill)) as connection:
        changes = StoredDetector(connection, 0.025)
        for half in (slice(0, 250), slice(250, None)):  # which cuts a day
            changes.update(new[half], days[half])
        alarm, since = changes.changed(LAST_DAY) or (0, 0)
    assert 9 <= since <= 10 <= alarm <= 13
