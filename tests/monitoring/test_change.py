"""The watch over scores: uniform p-values, bets that pay one on average, states that go on."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import integrate

from fedconformal.errors import InputError
from fedconformal.monitoring.change import Bets, ChangeDetector, payoffs


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
    found = Bets().placed(p)
    np.testing.assert_allclose(np.array(found.stakes) * 2.0**found.doublings, stakes, rtol=1e-12)


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


@pytest.mark.parametrize("stake", [0.0, 1e300, math.nan, math.inf])
def test_bets_that_cannot_be_are_refused(stake: float) -> None:
    with pytest.raises(ValueError, match="too large or too small"):
        Bets(stakes=(stake,) * 6)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ChangeDetector([]), "scores"),
        (lambda: ChangeDetector([0.1, math.nan]), "row 1 is nan"),
        (lambda: ChangeDetector([0.1], random_state=-1), "random_state is -1"),
        (lambda: ChangeDetector([0.1], rows=1), "no calibration score"),
        (lambda: ChangeDetector([0.1]).update(["x"]), "scores"),
    ],
)
def test_bad_input_is_refused(make: Callable[[], object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        make()
