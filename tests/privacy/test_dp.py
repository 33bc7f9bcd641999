"""Differential privacy: the release against its definition, and the coverage against its certificate."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedconformal as fc
from fedconformal._base.arrays import Floats, Integers
from fedconformal.privacy import calibrate_privately, noisy_histogram
from fedconformal.privacy.dp import as_grid, choose, plan_release, release_threshold, utilities
from fedconformal.privacy.noise import mechanism, noisy_grid, plan_noisy
from fedconformal.summaries.summary import digest_of
from tests.contracts.tools import checks, maybe_infeasible, refused

TENTH = Fraction(1, 10)
SMALL_GRID = np.append(np.linspace(0, 1, 101), math.inf)


def counts_of(scores: Floats, grid: Floats) -> Integers:
    return np.searchsorted(np.sort(scores), grid, side="right").astype(np.int64)


@given(st.lists(st.integers(0, 12), min_size=1, max_size=12), st.integers(0, 12), st.data())
@checks(250)
def test_replacing_one_row_changes_every_utility_by_one_at_most(
    scores: list[int], other: int, data: st.DataObject
) -> None:
    grid = np.append(np.arange(12.0), math.inf)
    aimed = data.draw(st.integers(1, len(scores)))
    changed = [other, *scores[1:]]
    before, after = (utilities(counts_of(np.array(part, float), grid), aimed) for part in (scores, changed))
    assert np.abs(before - after).max() <= 1
    assert before.max() == after.max() == 0  # whenever r' <= N, some candidate is right
    best = counts_of(np.array(scores, float), grid)[int(before.argmax())]
    assert best >= aimed


def flipped(scored: Integers, i: int, scale: float) -> float:
    """Return the exact chance of a candidate in permute-and-flip: p_i times the integral of all other 1 - p_j u."""
    p = np.exp((scored - scored.max()) / scale)
    nodes, weights = np.polynomial.legendre.leggauss(400)
    values, times = np.unique(np.delete(p, i), return_counts=True)
    others = np.prod((1 - np.outer(values, (nodes + 1) / 2)) ** times[:, None], axis=0)
    return float(p[i] * (weights / 2 * others).sum())


def neighbours(many: int) -> tuple[Integers, Integers]:
    """Return utilities on two data sets that differ in one row, as far apart as can be.

    Many candidates lie in a gap just short of r' counts; a row moves from above all candidates to below them. So all of
    these get better by one, and the last candidate, already too far up, gets worse by one.
    """
    grid = np.concatenate([np.linspace(1, 2, many), [3.0, 4.0, math.inf]])
    scores = np.array([0.0] * 8 + [2.5] * 2 + [3.5] + [5.0])
    moved = np.append(0.0, scores[:-1])
    before, after = (utilities(counts_of(part, grid), 10)[:-1] for part in (scores, moved))
    return before, after


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 2.0])
def test_the_layout_that_shows_a_factor_of_two(epsilon: float) -> None:
    before, after = neighbours(3_000)
    assert set((after - before)[:-2].tolist()) == {1}
    assert (after - before)[-1] == -1
    last = len(before) - 1
    ratio, wrong = (
        math.log(flipped(before, last, scale) / flipped(after, last, scale)) for scale in (2 / epsilon, 1 / epsilon)
    )
    assert 0.99 * epsilon <= ratio <= epsilon + 1e-9
    assert wrong > 1.9 * epsilon


@pytest.mark.long
def test_opendp_draws_from_that_law() -> None:
    draws, epsilon = 2000, Fraction(2)
    for scored in (np.append(np.zeros(9), -1).astype(int), np.append(np.full(9, -1), 0)):
        law = [flipped(scored, i, 1.0) for i in range(len(scored))]
        assert sum(law) == pytest.approx(1)
        seen = Counter(choose(scored, epsilon) for _ in range(draws))
        for i, chance in enumerate(law):
            assert abs(seen[i] / draws - chance) < 5.5 * math.sqrt(chance * (1 - chance) / draws)
    # With the factor-two error the last candidate would come out with .57 instead of .27.
    assert flipped(scored, 9, 0.5) > 2 * law[-1]


@pytest.mark.parametrize(("name", "moved"), [("noisy max", 1), ("laplace", 2)])
def test_opendp_accounts_for_no_more_than_epsilon(name: Any, moved: int) -> None:
    for epsilon in (Fraction(1, 10), Fraction(1, 3), Fraction(10)):
        assert 0.999 * epsilon < mechanism(name, epsilon).map(moved) <= epsilon


@pytest.mark.parametrize(("epsilon", "sizes"), [("0.1", [3000, 1500]), ("1", [600, 200]), ("10", [150, 60])])
def test_the_rank_is_missed_no_more_often_than_stated(epsilon: str, sizes: list[int]) -> None:
    """Coverage is in tests/validity/test_noise.py."""
    release = plan_release(fc.Mixture(), TENTH, sizes, Fraction(epsilon), len(SMALL_GRID))
    assert release is not None
    assert release.promised >= Fraction(9, 10)
    counts = counts_of(np.random.default_rng(0).random(sum(sizes)), SMALL_GRID)
    scored, draws = utilities(counts, release.aimed), 500
    short = sum(counts[choose(scored, Fraction(epsilon))] < release.rank for _ in range(draws))
    assert short / draws <= float(release.failure) + 4 * math.sqrt(float(release.failure) / draws)


def test_the_plan_costs_what_the_formula_says() -> None:
    sizes = [10_000] * 10
    for epsilon in (TENTH, Fraction(1), Fraction(10)):
        release = plan_release(fc.Mixture(), TENTH, sizes, epsilon, 1024)
        assert release is not None
        d = release.aimed - release.rank
        gamma = 1023 * math.exp(-epsilon * (d + 1) / 2)
        assert gamma <= release.failure
        assert release.promised <= (1 - Fraction(gamma)) * Fraction(release.rank - 1, 100_000)
        assert 1023 * math.exp(-epsilon * d / 2) > release.failure or d == 0
        assert release.promised >= Fraction(9, 10)
    assert plan_release(fc.Mixture(), TENTH, [1000], TENTH, 1024) is None
    quiet = plan_release(fc.Mixture(), TENTH, [1000], Fraction(1000), 1024)
    assert quiet is not None
    assert quiet.failure == Fraction(1, 2**59)  # of plans with the same aim, the one that fails least


@pytest.mark.parametrize(
    ("guarantee", "sites", "central", "local", "session"),
    [(fc.Mixture(), 10, 260, 490, 300), (fc.Mixture(), 100, 300, 1400, 300), (fc.FCP(), 100, 1200, 2500, 1300)],
)
def test_the_rows_that_a_finite_threshold_takes(
    guarantee: fc.Guarantee, sites: int, central: int, local: int, session: int
) -> None:
    """At alpha = 0.1 and epsilon 1, in all; noise at each site adds up over the sites, nothing else does."""
    one, grid = Fraction(1), noisy_grid()
    for rows, planned in (
        (central, lambda sizes: plan_release(guarantee, TENTH, sizes, one, 1024)),
        (local, lambda sizes: plan_noisy(guarantee, TENTH, sizes, one, grid, strength=Fraction(sites))),
        (session, lambda sizes: plan_noisy(guarantee, TENTH, sizes, one, grid, strength=Fraction(2))),
    ):
        assert planned([rows // sites] * sites) is not None
        assert planned([rows // sites - 1] * sites) is None


ABOUT: dict[str, Any] = {"score": fc.LAC(), "model": "m", "temperature": 1.5}


def released(mode: Any, sizes: Sequence[int], epsilon: Any = 1, **asked: Any) -> fc.Predictor:
    """Calibrate sites of uniform scores."""
    scores = {f"site-{k}": np.random.default_rng(k).random(n) for k, n in enumerate(sizes)}
    if mode == "local":
        provenance = fc.Summary.of_scores([0.1], **ABOUT).provenance
        noisy = [noisy_histogram(s, epsilon=epsilon, site=k, provenance=provenance) for k, s in scores.items()]
        return calibrate_privately(noisy, mode=mode, **asked)
    sites = [fc.Summary.of_scores(s, kind="exact", site=k, **ABOUT) for k, s in scores.items()]
    return calibrate_privately(sites, mode=mode, epsilon=epsilon, **asked)


@pytest.mark.parametrize(
    ("mode", "kind", "definition", "more"),
    [
        ("dp", "exact", "of the threshold", {"candidates": 1024}),
        ("local", "noisy", "of what each site sends", {"candidates": len(noisy_grid())}),
        (
            "sums",
            "sums",
            "up to 2 of them that know and subtract their own shares",
            {"mode": "sums", "rounds": 1, "honest_sites": 2, "colluding_sites": 2, "answered_sites": 4, "dropped": []},
        ),
    ],
)
def test_the_certificate_says_what_is_claimed(mode: str, kind: str, definition: str, more: dict[str, Any]) -> None:
    predictor = fc.Predictor.from_bytes(released(mode, (900, 700, 500, 800)).to_bytes())
    found, privacy = predictor.certificate, predictor.certificate.privacy
    assert privacy is not None
    assert definition in privacy["definition"]
    assert "temperature" in privacy["outside"]
    assert "replacing one calibration row" in privacy["unit"]
    assert {key: privacy[key] for key in more} == more
    assert privacy["epsilon"] == 1.0
    assert 0 < privacy["failure"] < 0.05
    assert privacy["coverage"] == found.coverage_at_least >= 0.9
    assert "over the noise of the release" in found.statement.promise
    assert (found.status, found.summaries[0].kind, predictor.score) == ("certified", kind, fc.LAC())
    assert found.threshold in privacy["grid"]
    assert 0.9 <= found.limit <= 1.0
    assert len(predictor.curve.thresholds) == 1  # nothing else comes from the scores


def test_no_digest_of_the_rows_is_released() -> None:
    site = fc.Summary.of_scores(np.random.default_rng(1).random(2000), kind="exact", site="a")
    assert digest_of(site) not in release_threshold([site], epsilon=1).to_bytes().decode()


@pytest.mark.parametrize("mode", ["dp", "local", "sums"])
def test_too_few_scores_release_nothing(mode: str) -> None:
    with pytest.warns(fc.InfeasibleWarning, match=r"alpha=0\.1 cannot be promised from 90 scores with epsilon=0\.1"):
        result = released(mode, (30, 30, 30), epsilon=0.1)
    assert result.threshold == math.inf
    with maybe_infeasible():
        assert result.curve.threshold(TENTH) == math.inf


@pytest.mark.parametrize("mode", ["dp", "local", "sums"])
def test_bad_terms_are_refused(mode: str) -> None:
    for guarantee in (fc.EverySite(), fc.PAC(failure=0.1), fc.Mixture(weights="uniform")):
        with refused(f"{guarantee.name} is not available with differential privacy; use mixture or fcp"):
            released(mode, (5, 5, 5), guarantee=guarantee)
    for epsilon in (0, "x", math.nan, 1e9):
        with refused("epsilon is"):
            released(mode, (5, 5, 5), epsilon=epsilon)


def test_refusals() -> None:
    rng = np.random.default_rng(2)
    exact, ranks = (fc.Summary.of_scores(rng.random(900), kind=kind, site=kind) for kind in ("exact", "ranks"))
    with refused("site 'ranks'", param="kind"):
        release_threshold([exact, ranks], epsilon=1)
    with refused(param="summaries"):
        release_threshold([], epsilon=1)
    for grid in ([1.0], [1.0, 2.0], [2.0, 1.0, math.inf], [[1.0, math.inf]], "x"):
        with refused("grid: expected"):
            as_grid(grid)
    with refused(param="mode"):
        calibrate_privately([exact], mode="none")  # type: ignore[arg-type]
    with refused(param="reach"):
        calibrate_privately([exact], mode="dp", epsilon=1, reach=2)
