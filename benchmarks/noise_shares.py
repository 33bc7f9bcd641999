"""Cost of an epsilon that holds against participants, who know their own share of the noise.

Three ways to make shares, for the same number of sites: for a majority of those who answer, as it was; with the same
number of answers, for a majority without the third that may collude; and as it is, for half of the sites, where five
sixths have to answer. Epsilon is exact: from the law of the noise that is left when the fewest that may answer do, and
one of them, or a third of all, subtract their own shares. Sets are of 10 labels, from 10,000 rows in all.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from common import save, table
from scipy import stats

from fedconformal._base.arrays import keys_of
from fedconformal.guarantees import Mixture
from fedconformal.privacy.distributed_dp import NoisyRound
from fedconformal.privacy.noise import in_cells, noisy_grid, plan_noisy, shares

ROWS = 10_000
ALPHA, EPSILON = Fraction(1, 10), Fraction(1)
RELEASES = 40


def epsilon_left(shares_there: int, made_for: int) -> float:
    """Return the exact epsilon of what these shares add up to; none is no noise."""
    if not shares_there:
        return math.inf
    one = stats.nbinom.pmf(np.arange(400), shares_there / made_for, 1 - math.exp(-EPSILON / 2))
    near = np.log(np.convolve(one, one[::-1])[399 - 40 : 399 + 41])
    return max(float(EPSILON), float(2 * np.abs(np.diff(near)).max()))  # the tails fall as those of one draw do


def probabilities(rng: np.random.Generator, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw rows of a model that is right four times in five."""
    labels = rng.integers(0, 10, rows)
    logits = rng.normal(size=(rows, 10)) + 2.6 * np.eye(10)[labels]
    return np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True), labels


def measured(sites: int, made_for: int, least: int) -> dict[str, object]:
    """Return what holds and what it costs with shares made for some, if at least `least` answer."""
    rng = np.random.default_rng(0)
    probs, labels = probabilities(rng, ROWS)
    tests, _ = probabilities(rng, 5000)
    grid, colluding = noisy_grid(), math.ceil(sites / 3)
    counts = in_cells(keys_of(1 - probs[np.arange(ROWS), labels]), grid)
    strength = Fraction(sites, made_for)
    plan = plan_noisy(Mixture(), ALPHA, [ROWS // sites] * sites, EPSILON, grid, strength)
    if plan is None:
        raise SystemExit("there are too few rows")
    noise = shares(RELEASES * sites * len(grid), EPSILON, made_for).reshape(RELEASES, sites, len(grid)).sum(axis=1)
    found = [plan.threshold((counts + drawn).tolist(), ROWS) for drawn in noise]
    return {
        "shares made for": made_for,
        "must answer": least,
        "epsilon, one subtracts": epsilon_left(least - 1, made_for),
        "epsilon, a third": epsilon_left(max(0, least - colluding), made_for),
        "noise, draws": float(strength),
        "standard deviation": float(math.sqrt(strength * Fraction(noise_variance()))),
        "margin, rows": int(plan.margins.max()),
        "set size": float(np.mean([(1 - tests <= q).sum(axis=1).mean() for q in found])),
    }


def noise_variance() -> float:
    """Return the variance of one draw."""
    p = math.exp(-EPSILON / 2)
    return 2 * p / (1 - p) ** 2


def main() -> None:
    """Print the table and save it."""
    rows: list[dict[str, object]] = []
    for sites in (3, 4, 6, 10, 20, 100):
        now = NoisyRound(
            guarantee=Mixture(), alpha=ALPHA, sizes=(ROWS // sites,) * sites, epsilon=EPSILON, grid=noisy_grid()
        )
        majority = sites // 2 + 1
        fewer = max(1, majority - now.colluding)
        ways = {"as it was": (majority, majority), "more noise": (fewer, majority), "as it is": (now.honest, now.least)}
        rows += [{"sites": sites, "way": way, **measured(sites, *chosen)} for way, chosen in ways.items()]
    table(list(rows[0]), [list(row.values()) for row in rows])
    save("noise_shares", rows)


if __name__ == "__main__":
    main()
