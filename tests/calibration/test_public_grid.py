"""Thresholds are rounded up to a public grid: never below the exact ones, and with nothing of a score in them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import fedconformal as fc
from fedconformal._base.arrays import ALPHA_UNIT, Floats, as_alpha
from fedconformal.calibration.risk import as_limit
from fedconformal.calibration.search import ALPHAS, ROWS_AN_ALPHA, round_up
from fedconformal.certificates import text
from tests.contracts.tools import checks, maybe_infeasible, score_examples

pytestmark = pytest.mark.filterwarnings("ignore::fedconformal.errors.ClassCountsWarning")

finite = st.floats(allow_nan=False, allow_infinity=False)
near_one = st.floats(0, 3)
SCORES = [None, *score_examples(), fc.Residual(), fc.Signed()]
LARGEST = float(np.finfo(np.float64).max)


@pytest.mark.parametrize("score", SCORES, ids=str)
@given(finite | near_one, finite | near_one, st.integers(0, 10**6))
@example(LARGEST, -LARGEST, 1)
@example(5e-324, -5e-324, 5000)
@example(math.nextafter(1.0, 0.0), math.nextafter(1.0, 2.0), 150)
@example(float(np.float32(0.3)), 0.3, 150)
@checks(100)
def test_it_never_rounds_down(score: Any, one: float, other: float, rows: int) -> None:
    small, large = sorted([one, other])
    found = [round_up(q, rows, score) for q in (small, large)]
    assert small <= found[0] <= found[1]
    assert large <= found[1] < math.inf
    if getattr(score, "rank_price", 1.0) == 1.0:  # else a number of the grid is no exact float
        assert [round_up(q, rows, score) for q in found] == found


def test_infinite_and_zero_stay() -> None:
    for score in SCORES:
        assert [round_up(q, 100, score) for q in (math.inf, -math.inf, 0.0)] == [math.inf, -math.inf, 0.0]


@pytest.mark.parametrize(("rows", "most"), [(15, 1), (150, 1 / 4), (650, 1 / 8), (5000, 1 / 32)])
def test_the_steps_follow_from_the_number_of_rows(rows: int, most: float) -> None:
    q = np.random.default_rng(0).random(2000)
    near = np.minimum(q, 1 - q)
    steps = np.array([round_up(one, rows) for one in q]) - q
    assert most / 4 < (steps / near).max() <= most
    # Few numbers are left between 1/4 and 3/4: 8 at 150 rows.
    left = {round_up(one, rows) for one in np.linspace(0.25, 0.75, 4000)[1:]}
    assert len(left) == 2 * max(1, round(1 / most))


def test_ranks_and_what_a_rank_adds_stay() -> None:
    assert [round_up(float(k), 20, fc.TopK()) for k in range(1, 40)] == list(range(1, 40))
    crowd = [1 + 0.001 * k for k in range(1, 30)]
    assert [round_up(q - 1e-6, 150, fc.RAPS()) for q in crowd] == pytest.approx(crowd, abs=1e-6)
    for q in (1.9000000000000001, 7.875000000000001, 7.950000000000001):  # just above a number of the grid
        assert round_up(q, 150, fc.SAPS(weight=0.2)) >= q
    assert round_up(9.0, 150, fc.Residual()) == 9.0
    assert round_up(9.1, 150, fc.Residual()) == 10.0


def scored(rows: int, score: fc.Score | fc.RegressionScore) -> tuple[Floats, Any]:
    rng = np.random.default_rng(rows)
    if isinstance(score, fc.Score):
        probs = rng.dirichlet([0.4] * 4, rows).astype(np.float32)
        labels = np.array([rng.choice(4, p=row / row.sum()) for row in probs.astype(float)])
        return score.evaluate(probs, labels), labels
    return rng.normal(1, 30, rows) if score.lower_share else np.abs(rng.normal(0, 30, rows)), rng.integers(0, 4, rows)


def sites_of(rows: int, score: Any) -> list[fc.Summary]:
    scores, labels = scored(rows, score)
    return [
        fc.Summary.of_scores(scores[k::2], kind="exact", score=score, site="ab"[k], labels=labels[k::2], classes=4)
        if isinstance(score, fc.LAC)
        else fc.Summary.of_scores(scores[k::2], kind="exact", score=score, site="ab"[k])
        for k in range(2)
    ]


def grouped(rows: int) -> list[fc.Summary]:
    scores, labels = scored(rows, fc.LAC())
    groups = {"sex": np.where(np.arange(rows) % 3, "F", "M")}
    return [fc.Summary.of_scores(scores, kind="exact", score=fc.LAC(), site="a", groups=groups, labels=labels)]


def losses(rows: int) -> list[fc.Summary]:
    scores, _ = scored(rows, fc.LAC())
    grid = np.arange(1, 501) / 500
    return [fc.LossSummary.of_losses((scores[:, None] > grid).astype(float), thresholds=grid, site="a")]


CASES: dict[str, Any] = {
    "one threshold": lambda n: (sites_of(n, fc.APS()), {"alpha": 0.1}),
    "by class": lambda n: (sites_of(n, fc.LAC()), {"alpha": 0.1, "guarantee": fc.ByClass()}),
    "by group and class": lambda n: (grouped(n), {"alpha": 0.1, "guarantee": fc.ByGroup(fc.ByClass())}),
    "the classes play the sites": lambda n: (sites_of(n, fc.LAC()), {"alpha": 0.1, "guarantee": fc.Prevalence()}),
    "numbers": lambda n: (sites_of(n, fc.Residual()), {"alpha": 0.1}),
    "two ends": lambda n: (sites_of(n, fc.Signed()), {"alpha": 0.1}),
    "losses": lambda n: (losses(n), {"risk": 0.1}),
    "PAC": lambda n: (sites_of(n, fc.APS()), {"alpha": 0.1, "guarantee": fc.PAC()}),
}
every_case = pytest.mark.parametrize("case", CASES)


def values(content: Any) -> set[float]:
    """Return all floats of a file."""
    if isinstance(content, dict):
        return {q for one in content.values() for q in values(one)}
    if isinstance(content, list):
        return {q for one in content for q in values(one)}
    return {content} if isinstance(content, float) else set()


@every_case
@pytest.mark.parametrize("rows", [12, 150, 1000])
def test_a_predictor_is_never_below_the_exact_one_and_holds_no_score(case: str, rows: int) -> None:
    sites, asked = CASES[case](rows)
    with maybe_infeasible():
        rounded, exact = (fc.calibrate(sites, **asked, exact=exact) for exact in (False, True))
    assert (exact.certificate.exact, rounded.certificate.exact) == (True, False)
    assert "exact" not in rounded.certificate.to_dict()
    assert np.all(np.asarray(rounded.certificate.limit) >= np.asarray(exact.certificate.limit))
    assert rounded.certificate.coverage_at_least == exact.certificate.coverage_at_least
    if case == "two ends":
        assert rounded.thresholds["lower"] <= exact.thresholds["lower"]
    for alpha in (0.01, 0.05, 0.07, 0.1, 0.3):
        if case == "losses":
            limit = as_limit(alpha, rounded.risk.bound)
            assert rounded.curve.threshold(limit) >= exact.curve.threshold(limit)
            continue
        with maybe_infeasible():
            ours, theirs = (one.threshold_at(alpha) for one in (rounded, exact))
        widened = [-1, 1] if case == "two ends" else 1
        assert np.all(np.multiply(widened, ours) >= np.multiply(widened, theirs))
    points = {float(q) for site in sites for q in getattr(site, "points", ())} if case != "losses" else set()
    assert len(points & values(exact.content())) >= (1 if points and rows > 12 else 0)
    # So close to 1 a score has few digits of its own.
    assert not {q for q in points & values(rounded.content()) if 1e-5 < abs(q - 1) != 1}
    assert fc.verify(rounded, sites) == []
    assert fc.verify(exact, sites) == []


@pytest.mark.parametrize("rows", [63, 64, 640, 5000])
def test_the_curve_has_one_more_alpha_for_every_64_rows(rows: int) -> None:
    sites, asked = CASES["numbers"](rows)
    curve = fc.calibrate(sites, **asked).curve
    kept = {int((1 - alpha) * ALPHA_UNIT) for alpha in ALPHAS[: 1 + rows // ROWS_AN_ALPHA]}
    stated = set(curve.promised.tolist())
    assert stated <= kept
    assert int(0.9 * ALPHA_UNIT) in stated or curve.threshold(as_alpha(0.1)) == curve.threshold(as_alpha(0.05))
    assert len(stated) >= min(len(kept) - 1, 9)  # some are infinite, or have the same threshold as the next


def test_the_most_that_is_covered_is_said_to_be_of_exact_thresholds() -> None:
    sites, asked = CASES["one threshold"](150)
    rounded, exact = (fc.calibrate(sites, **asked, exact=exact).certificate for exact in (False, True))
    assert rounded.coverage_at_most == exact.coverage_at_most < 1
    assert (text.before_rounding(rounded), text.before_rounding(exact)) == (", before thresholds are rounded up", "")


def test_a_limit_on_losses_is_at_one_of_few_thresholds() -> None:
    sites, asked = CASES["losses"](150)
    rounded, exact = (fc.calibrate(sites, **asked, exact=exact) for exact in (False, True))
    assert (rounded.curve.thresholds == exact.curve.thresholds).all()
    assert all(one >= other for one, other in zip(rounded.curve.promised, exact.curve.promised, strict=True))
    assert sorted(set(rounded.curve.promised)) == [5 * 10**13, 10**14, 10**15]
    limits = np.linspace(0.02, 0.6, 100)
    few, many = ({fc.calibrate(sites, risk=one, exact=exact).threshold for one in limits} for exact in (False, True))
    assert len(few) <= 48 < len(many)
