"""Sites that are as hostile as the assumption of Mixture allows: coverage is (r - 1)/N, no more, and never less.

Sites of one row form a rotating staircase. In state a, site j has the level among a, ..., a + r - 1 that leaves the
remainder j when divided by r. The next row of the site at the top is r levels lower, that of the site at the bottom r
levels higher, and all other sites stay where they are. To exchange the next row of a site with its calibration row
leads to the state before or after, so with equally likely states the two are exchangeable given the other sites. Of r
sites all but the lowest are covered by their r-th score. Sites that are never covered make up the rest. All draws are
gone through, so nothing is simulated.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest

import fedconformal as fc
from tests.contracts.tools import promised_many
from tests.validity.lies import count_more
from tests.validity.promises import rank_of

STATES = 16
NEVER = 10.0**6
"""A score that is always above the threshold."""

State = tuple[list[float], list[float]]
"""The calibration score and the next score of every site."""


def staircase(steps: int, sites: int) -> list[State]:
    """Let this many sites rotate, and all others be missed."""
    found = []
    for a in range(STATES):
        rows = [float(level) for j in range(steps) for level in range(a, a + steps) if level % steps == j]
        following = list(rows)
        if a > 0:
            following[(a + steps - 1) % steps] -= steps
        if a < STATES - 1:
            following[a % steps] += steps
        rest = [NEVER] * (sites - steps)
        found.append(([*rows, *rest], [*following, *rest]))
    return found


def test_the_next_row_of_a_site_can_be_swapped() -> None:
    """As often as the two are (x, y), given the others, they are (y, x)."""
    seen: list[tuple[int, tuple[float, ...], float, float]] = []
    for rows, following in staircase(5, 7):
        seen += [(k, (*rows[:k], *rows[k + 1 :]), rows[k], following[k]) for k in range(7)]
    assert sorted(seen) == sorted((k, others, y, x) for k, others, x, y in seen)


def thresholds(guarantee: fc.Guarantee, alpha: str, states: Sequence[State], *more: float) -> list[float]:
    """Return the smallest score that promises enough in every state, +inf if none does; sites may send more rows."""
    sizes = [1] * (len(states[0][0]) + len(more))
    bound, found = guarantee.bind([f"s{k}" for k in range(len(sizes))], sizes), []
    for rows, _ in states:
        sent = np.array([*rows, *more])
        points = np.unique(sent)
        promised = promised_many(bound, (sent[:, None] <= points).astype(np.int64), sizes)
        enough = [q for q, share in zip(points.tolist(), promised, strict=True) if share >= 1 - Fraction(alpha)]
        found.append(min(enough, default=np.inf))
    return found


def by_site(states: Sequence[State], limits: Sequence[float]) -> list[Fraction]:
    """Return how often the next row of every site is covered."""
    covered = np.array([[s <= q for s in following] for (_, following), q in zip(states, limits, strict=True)])
    return [Fraction(int(count), len(states)) for count in covered.sum(axis=0)]


def coverage(states: Sequence[State], limits: Sequence[float]) -> Fraction:
    """Return how often the next row of a site, each equally likely, is covered."""
    return sum(by_site(states, limits), Fraction(0)) / len(states[0][0])


CASES = [("0.1", 20), ("0.1", 30), ("0.25", 12), ("0.5", 9)]


@pytest.mark.parametrize(("alpha", "sites"), CASES)
def test_the_lower_end_is_reached_and_no_more(alpha: str, sites: int) -> None:
    rank = rank_of(float(alpha), sites) + 1
    states = staircase(rank, sites)
    sent = [[fc.Summary.of_scores([s], kind="exact") for s in rows] for rows, _ in states]
    found = coverage(states, [float(fc.calibrate(summaries, alpha=alpha).threshold) for summaries in sent])
    assert found == Fraction(rank - 1, sites) + Fraction(1, STATES * sites)
    assert 1 - Fraction(alpha) <= found < 1 - Fraction(alpha) + Fraction(1, sites)


@pytest.mark.parametrize(("alpha", "sites"), CASES)
@pytest.mark.parametrize("guarantee", [fc.Mixture(), fc.Mixture(weights="uniform"), fc.Robust(liars=0)], ids=str)
def test_no_staircase_is_too_steep(alpha: str, sites: int, guarantee: fc.Guarantee) -> None:
    for steps in range(2, sites + 1):
        states = staircase(steps, sites)
        assert coverage(states, thresholds(guarantee, alpha, states)) >= 1 - Fraction(alpha)


@pytest.mark.parametrize(("alpha", "sites"), CASES)
def test_a_rank_too_low_is_seen(monkeypatch: pytest.MonkeyPatch, alpha: str, sites: int) -> None:
    count_more(monkeypatch, fc.Mixture, [0], capped=False)
    states = staircase(rank_of(float(alpha), sites), sites)
    assert coverage(states, thresholds(fc.Mixture(), alpha, states)) < 1 - Fraction(alpha)


@pytest.mark.parametrize("lies", [(-1.0,) * 3, (2 * NEVER,) * 3, (-1.0, 5.0, 2 * NEVER)])
def test_liars_do_not_help(lies: tuple[float, ...]) -> None:
    """Three more sites, which claim that everything fits, or that nothing does."""
    for steps in range(2, 21):
        honest = staircase(steps, 20)
        assert coverage(honest, thresholds(fc.Robust(liars=3), "0.4", honest, *lies)) >= Fraction(6, 10)
    honest = staircase(12, 20)  # of 23 sites, the plain mixture takes the rank 15
    low = coverage(honest, thresholds(fc.Mixture(), "0.4", honest, *lies)) < Fraction(6, 10)
    assert low == (lies == (-1.0,) * 3)


@pytest.mark.parametrize("alpha", ["0.1", "0.2", "0.35"])
def test_sets_of_mixtures_pay_for_their_heaviest_row(alpha: str) -> None:
    """Weights from half to twice the uniform ones."""
    sites, low, high = 20, Fraction(1, 40), Fraction(1, 10)
    for steps in range(2, sites + 1):
        states = staircase(steps, sites)
        worst, left = Fraction(0), 1 - sites * low
        for share in sorted(by_site(states, thresholds(fc.WorstCase(box=(0.025, 0.1)), alpha, states))):
            more = min(left, high - low)  # as much as the box allows to the sites that are covered least
            worst, left = worst + (low + more) * share, left - more
        assert worst >= 1 - Fraction(alpha)
