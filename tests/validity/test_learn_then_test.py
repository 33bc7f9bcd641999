"""The risk at a chosen threshold exceeds its limit no more often than stated, also where losses rise.

The true risk at each threshold is known, so nothing is tested on rows: the share of bad calibration draws is counted. A
threshold passes if its losses add up to at most a critical sum, which is worked out once.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
import pytest

import fedconformal as fc
from fedconformal._base.arrays import Booleans, Floats, as_alpha
from fedconformal.calibration.risk import fixed_sequence
from fedconformal.guarantees.binomial import means_at_most

FAILURE, REPETITIONS = 0.1, 1000
ALLOWED = FAILURE + 4 * math.sqrt(FAILURE * (1 - FAILURE) / REPETITIONS)
SIZES = np.array([600, 300, 1100])
SHARES = SIZES / SIZES.sum()


@lru_cache
def critical(limit: float, spent: float) -> float:
    """Return the largest sum of losses of all rows with which one threshold passes, to a thousandth of a row."""
    low, high = -1, int(1000 * limit * SIZES.sum())
    while high - low > 1:
        middle = (low + high) // 2
        [mean] = means_at_most(int(SIZES.sum()), [Fraction(middle, 1000)], spent)
        low, high = (middle, high) if mean <= as_alpha(limit) else (low, middle)
    return low / 1000


def chosen(totals: Floats, limit: float, guarantee: fc.LearnThenTest) -> int:
    """Return the place of the smallest threshold that is promised; the length of the grid if there is none."""
    above = (totals > critical(limit, guarantee.spent)).astype(int).tolist()
    return [*fixed_sequence(above, guarantee.walks), 0].index(0)


def of_coins(rng: np.random.Generator, chances: Floats) -> Floats:
    """Return sums of losses of 0 and 1, of their own at each of 40 thresholds, with the chances of unlike sites."""
    sums: Floats = rng.binomial(SIZES[:, None], chances[:, None], (len(SIZES), 40)).sum(axis=0).astype(np.float64)
    return sums


def failures_of_coins(guarantee: fc.LearnThenTest, *, seed: int) -> float:
    """Every risk is just above the limit, so whatever is chosen is wrong."""
    rng, chances = np.random.default_rng(seed), np.array([0.05, 0.4, 0.3])
    limit = round(0.9999 * float(SHARES @ chances), 6)
    return sum(chosen(of_coins(rng, chances), limit, guarantee) < 40 for _ in range(REPETITIONS)) / REPETITIONS


@pytest.mark.parametrize("walks", [1, 8, 40])
def test_no_threshold_is_chosen_by_luck(walks: int) -> None:
    assert failures_of_coins(fc.LearnThenTest(failure=FAILURE, walks=walks), seed=walks) <= ALLOWED


def test_trying_all_thresholds_at_the_full_level_fails() -> None:
    """Ten walks of which each may fail as often as all may together: the correction is needed."""
    assert failures_of_coins(fc.LearnThenTest(failure=0.999, walks=10), seed=0) > ALLOWED


class Federation:
    """Sites that are sure for different reasons: confidence in 20 steps, and the chance of an error at each."""

    def __init__(self) -> None:
        steps = np.arange(20)
        laws = np.stack([np.ones(20), np.exp(-steps / 6), np.exp(steps / 6)])
        self.confident: Floats = laws / laws.sum(axis=1, keepdims=True)
        self.wrong: Floats = np.stack(
            [0.5 - 0.024 * steps, 0.3 + 0.1 * np.sin(steps), np.where(steps > 15, 0.18, 0.02)]
        )

    def sums(self, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Draw all rows; return how many are answered at each threshold, and how many of these are wrong."""
        rows = np.stack([rng.multinomial(n, law) for n, law in zip(SIZES, self.confident, strict=True)])
        return _from_the_end(rows.sum(axis=0)), _from_the_end(rng.binomial(rows, self.wrong).sum(axis=0))

    def selective_error(self) -> Floats:
        """Work out how often answered rows are wrong at each threshold, for the mixture in proportion to n_k."""
        answered = SHARES @ self.confident
        return _from_the_end(SHARES @ (self.confident * self.wrong)) / _from_the_end(answered)


def _from_the_end(values: Floats) -> Floats:
    found: Floats = np.cumsum(values[::-1])[::-1].astype(np.float64)
    return found


@pytest.mark.parametrize("walks", [5, 20])
@pytest.mark.parametrize("unanswered", ["the limit", "nothing"])
def test_answers_are_wrong_no_more_often_than_promised(walks: int, unanswered: str) -> None:
    """If a row without an answer loses nothing instead of the limit, the ratio is not tested, and it fails."""
    made, rng = Federation(), np.random.default_rng(walks)
    truth = np.append(made.selective_error(), 0.0)
    limit = round(float(np.sort(truth)[12]) * 0.999, 6)
    guarantee = fc.LearnThenTest(failure=FAILURE, walks=walks)
    bad: list[bool] = []
    found: list[bool] = []
    for _ in range(REPETITIONS):
        answered, wrong = made.sums(rng)
        totals = wrong + (limit if unanswered == "the limit" else 0.0) * (SIZES.sum() - answered)
        place = chosen(totals, limit, guarantee)
        bad.append(bool(truth[place] > limit))
        found.append(place < 20)
    assert (np.mean(bad) <= ALLOWED) == (unanswered == "the limit")
    assert np.mean(found) > 0.03


def test_a_calibration_chooses_as_the_simulation_does() -> None:
    """From losses of rows, through summaries of sites, to the threshold of a certificate."""
    rng, grid = np.random.default_rng(0), np.arange(40.0)
    guarantee = fc.LearnThenTest(failure=FAILURE, walks=8)
    chances = np.array([0.05, 0.4, 0.3])[:, None] * np.linspace(1.5, 0.5, 40) * (1 + 0.4 * np.sin(np.arange(40)))
    losses: list[Booleans] = [rng.random((n, 40)) < chance for n, chance in zip(SIZES, chances, strict=True)]
    sites = [fc.LossSummary.of_losses(part.astype(float), thresholds=grid, rising=True) for part in losses]
    result = fc.calibrate(sites, risk=0.2, guarantee=guarantee, exact=True)
    place = chosen(np.concatenate(losses).sum(axis=0).astype(np.float64), 0.2, guarantee)
    assert 0 < place < 40
    assert result.threshold == grid[place]
    assert fc.verify(result, sites) == []
