"""Attacks on thirty sites: coverage of the honest ones is never below the promise, whatever the others send."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from scipy import stats

import fedconformal as fc
from tests.contracts.tools import maybe_infeasible
from tests.validity.simulation import Floats, Site, by_rows, coverage_by_site, draws, mean

ALPHA = 0.1
REPETITIONS = 40
SITES = 30

ALIKE = tuple(Site(stats.norm(), 60) for _ in range(SITES))
DIFFERENT = tuple(Site(stats.norm(k / 8, 1 + k / 20), 30 + 2 * k) for k in range(SITES))
"""Later sites are larger and harder."""

Attack = Callable[[list[Floats], int, np.random.Generator], list[Floats]]
"""From the honest scores, a number of liars and chance to what the liars send; they see everything and collude."""


def all_zero(honest: list[Floats], liars: int, rng: np.random.Generator) -> list[Floats]:
    """Claim that everything fits: far below anybody's scores."""
    return [np.full(60, -1e6)] * liars


def all_huge(honest: list[Floats], liars: int, rng: np.random.Generator) -> list[Floats]:
    """Claim that nothing fits."""
    return [np.full(60, 1e300)] * liars


def mimic_then_shift(honest: list[Floats], liars: int, rng: np.random.Generator) -> list[Floats]:
    """Look like an honest site in the lower half, and be easy where it matters."""
    sent = []
    for copied in rng.choice(len(honest), liars):
        scores = np.sort(honest[copied])
        sent.append(np.where(np.arange(len(scores)) < len(scores) / 2, scores, np.median(scores)))
    return sent


def collude(honest: list[Floats], liars: int, rng: np.random.Generator) -> list[Floats]:
    """Put all scores just below the threshold that the honest sites would get: the most that helps to lower it."""
    pooled = np.sort(np.concatenate(honest))
    return [np.full(200, pooled[int(0.85 * len(pooled))])] * liars


ATTACKS = (all_zero, all_huge, mimic_then_shift, collude)
LIES = [*((attack, 9) for attack in ATTACKS), *zip(ATTACKS, (1, 2, 5, 1), strict=True)]


def covered(
    sites: Sequence[Site], guarantee: fc.Guarantee, attack: Attack, liars: int, *, repetitions: int = REPETITIONS
) -> Floats:
    """Let the easiest sites be replaced by liars; return the coverage of the honest mixture, draw by draw."""
    honest = sites[liars:]
    rng = np.random.default_rng(liars)
    limits = []
    for scores in draws(honest, seed=7, repetitions=repetitions):
        sent = [*scores, *attack(scores, liars, rng)]
        with maybe_infeasible():
            result = fc.calibrate(
                [fc.Summary.of_scores(s, kind="exact") for s in sent], alpha=ALPHA, guarantee=guarantee, exact=True
            )
        limits.append(result.threshold)
    return np.asarray(by_rows(honest) @ coverage_by_site(honest, np.array(limits)))


@pytest.mark.parametrize(("attack", "liars"), LIES)
def test_the_honest_mixture_is_covered(attack: Attack, liars: int) -> None:
    coverage, tolerance = mean(covered(DIFFERENT, fc.Robust(liars=liars), attack, liars))
    assert coverage >= 1 - ALPHA - tolerance


@pytest.mark.parametrize(("attack", "liars"), LIES)
def test_alike_sites_are_covered_and_not_much_more(attack: Attack, liars: int) -> None:
    guarantee = fc.QuantileOfQuantiles(liars=liars, least_scores=60)
    coverage, tolerance = mean(covered(ALIKE, guarantee, attack, liars))
    assert coverage >= 1 - ALPHA - tolerance
    assert coverage <= 0.96  # never infinite: up to a third is withstood


@pytest.mark.parametrize("sites", [ALIKE, DIFFERENT], ids=["alike", "different"])
def test_the_plain_mixture_breaks(sites: Sequence[Site]) -> None:
    coverage, tolerance = mean(covered(sites, fc.Mixture(), all_zero, 9))
    assert coverage + tolerance < 1 - ALPHA - 0.01


def test_quantile_of_quantiles_without_its_allowance_breaks() -> None:
    coverage, tolerance = mean(covered(ALIKE, fc.QuantileOfQuantiles(liars=0), all_zero, 9))
    assert coverage + tolerance < 1 - ALPHA


def test_the_robust_rule_is_tight() -> None:
    """One liar less allowed for than there are, and the worst case breaks: easy sites and hard ones."""
    sites = [Site(stats.uniform(0, 1), 40)] * 3 + [Site(stats.uniform(2, 1), 40)] * 2
    exact = mean(covered(sites, fc.Robust(liars=2), all_zero, 2, repetitions=100))
    short = mean(covered(sites, fc.Robust(liars=1), all_zero, 2, repetitions=100))
    assert exact.value >= 1 - ALPHA - exact.tolerance
    assert short.value + short.tolerance < 1 - ALPHA
