"""From loss curves to a threshold, its certificate and a predictor that can be checked."""

from __future__ import annotations

import json
import math
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.calibration.risk import RiskCurve
from fedconformal.certificates import text
from fedconformal.certificates.certificate import RiskRecord
from fedconformal.summaries import LossSummary
from tests.contracts.tools import altered, refused

GRID = np.linspace(0, 1, 11)


def sites(count: int = 3, *, bound: float = 1, **about: Any) -> list[LossSummary]:
    rng = np.random.default_rng(0)
    found = []
    for k in range(count):
        rows = np.clip(rng.random((40 + 10 * k, 1)) - GRID * rng.random((40 + 10 * k, 1)), 0, 1) * bound
        found.append(fc.LossSummary.of_losses(rows, thresholds=GRID, bound=bound, site=f"s{k}", **about))
    return found


def test_the_certificate_says_what_is_promised() -> None:
    given = sites(loss=("fnr", (True,)), model="m")
    result = fc.calibrate(given, risk="0.3", safe="take every label")
    found = result.certificate
    assert found.risk == RiskRecord(
        limit=0.3,
        bound=1.0,
        points=11,
        first=0.0,
        last=1.0,
        grid_sha256=found.risk.grid_sha256 if found.risk else "",
        loss=("fnr", (True,)),
        safe="take every label",
    )
    assert (found.status, found.target, found.provenance.model) == ("certified", "3/10", "m")
    assert (found.coverage_at_least, found.coverage_at_most, found.promises[0].rank) == (0.7, 1.0, None)
    assert found.alpha == 0.3
    assert text.sentence(found).startswith(
        "The expected loss is at most 0.3 for a test row from the mixture of the sites"
    )
    assert "fixed beforehand" in found.statement.conditions
    assert 0 < found.slack < 1e-6
    assert result.threshold in GRID.tolist()


def test_the_threshold_is_the_smallest_that_keeps_the_limit() -> None:
    given = sites()
    total = np.sum([one.units for one in given], axis=0).tolist()
    bounds = [(Fraction(units, 2**20) + 1) / 150 for units in total]
    for risk in ("0.2", "0.3", "0.35", "0.4", "0.45"):
        expected = next((t for t, b in zip(GRID.tolist(), bounds, strict=True) if b <= Fraction(risk)), math.inf)
        assert fc.calibrate(given, risk=risk).threshold == expected
    tie = math.ceil(bounds[5] * 10**15)
    exact = fc.calibrate(given, risk=Fraction(tie, 10**15))
    assert exact.threshold == GRID[5]
    assert fc.calibrate(given, risk=Fraction(tie - 1, 10**15)).threshold == GRID[6]
    assert exact.curve.promised[5] == tie


@pytest.mark.parametrize("bound", [0.3, 7.0, 1e5])
def test_a_bound_is_a_unit(bound: float) -> None:
    plain = fc.calibrate(sites(), risk=0.35)
    scaled = fc.calibrate(sites(bound=bound), risk=0.35 * bound)
    assert scaled.threshold == plain.threshold
    assert np.allclose(np.array(scaled.curve.promised, float) / bound, np.array(plain.curve.promised, float), rtol=1e-6)


def test_pooled_sites_count_as_they_are() -> None:
    given = sites()
    apart, together = fc.calibrate(given, risk=0.35), fc.calibrate([fc.pool(given)], risk=0.35)
    assert apart.curve.promised == together.curve.promised
    assert together.certificate.sites == 3
    with refused("are pooled, and every-site needs a summary"):
        fc.calibrate([fc.pool(given)], risk=0.35, guarantee=fc.EverySite())


def test_losses_that_rise_are_tested_from_the_safe_end() -> None:
    """A threshold below one that is too bad is not taken, however good it is by itself."""
    losses = np.tile([0.0, 0.9, 0.1, 0.0], (400, 1))
    site = fc.LossSummary.of_losses(losses, thresholds=[1, 2, 3, 4], rising=True)
    result = fc.calibrate([site], risk=0.3, guarantee=fc.PAC())
    assert result.threshold == 3
    assert result.curve.promised[0] == result.curve.promised[1] > 9 * 10**14


@pytest.mark.parametrize("risk", [0, 1, -0.1, 2, "x", math.nan, [0.1]])
def test_bad_limits_are_refused(risk: Any) -> None:
    with refused("risk is", "expected a number above 0 and below the bound 1"):
        fc.calibrate(sites(), risk=risk)


def test_bad_words_are_refused() -> None:
    bad: list[Any] = ["", "x" * 201, "a\nb", 5]
    for safe in bad:
        with refused("safe is"):
            fc.calibrate(sites(), risk=0.3, safe=safe)
    with refused(param="risk"):
        fc.calibrate(sites(), risk=0.3, alpha=0.2)
    with refused(param="safe"):
        fc.calibrate([fc.Summary.of_scores([0.1])], safe="ask a doctor")


def test_where_no_threshold_is_good_enough() -> None:
    with pytest.warns(fc.InfeasibleWarning, match=r"risk=0\.001 cannot .* \(calibration rows needed: \d+ more in all"):
        few = fc.calibrate(sites(), risk=0.001)
    assert few.threshold == math.inf
    assert few.certificate.coverage_at_least == 0
    assert few.sentence().endswith("so nothing is promised without a safe action.")
    with pytest.warns(
        fc.InfeasibleWarning, match=r"the best one promises 0\.\d+\); take the safe action: ask a doctor"
    ):
        lossy = fc.calibrate(sites(), risk=0.05, safe="ask a doctor")
    assert lossy.sentence().endswith("so take the safe action: ask a doctor.")
    assert fc.verify(lossy, sites(), sealed=True) == []
    (said,) = fc.verify(lossy, sites())  # anybody could have written it
    assert said.startswith("safe: not confirmed")
    with pytest.warns(fc.InfeasibleWarning, match="take the safe action: ask a doctor"):
        assert lossy.threshold_at() == lossy.threshold == math.inf
    with refused("only the safe action is left"):
        lossy.evaluate(np.zeros((3, 11)))
    assert lossy.evaluate([0.1, 0.0]).overall.mean_loss == 0.05


SPECS = ["mixture", "mixture:uniform", "every-site", "worst-case:0.1", "new-site", "one-site:s1", "robust:1", "pac:0.1"]


@pytest.mark.parametrize("guarantee", SPECS)
def test_a_predictor_can_be_saved_and_verified(guarantee: str, tmp_path: Path) -> None:
    given = sites(calibration="june", expires="2999-01-31")
    rule = fc.calibrate(given, risk=0.45, guarantee=guarantee, exact=True)
    rule.save(tmp_path / "rule.json")
    again = fc.load(tmp_path / "rule.json")
    assert type(again) is fc.Predictor
    assert again.to_bytes() == rule.to_bytes()
    assert fc.verify(again, given) == []
    assert fc.verify(again, given[::-1]) == []
    assert fc.verify(again, given[:2]) == ["the certified summary of site 's2' was not given"]
    assert again.threshold == rule.certificate.limit
    for risk in (0.4, 0.45, 0.6):
        expected = fc.calibrate(given, risk=risk, guarantee=guarantee, exact=True).threshold
        assert again.threshold_at(risk) == expected or guarantee == "one-site:s1"


def test_a_changed_certificate_is_noticed() -> None:
    given = sites()
    rule = fc.calibrate(given, risk=0.45)
    other = RiskRecord(limit=0.45, bound=1.0, points=11, first=0.0, last=1.0, grid_sha256="0" * 64)
    for change in ({"risk": other}, {"target": "1/2"}):
        (problem,) = fc.verify(altered(rule, **change), given)
        assert re.match(rf"{next(iter(change))}(\.\w+)?: the certificate states", problem)


def test_new_rows_are_compared_with_the_promise() -> None:
    rule = fc.calibrate(sites(), risk=0.45)
    at = int(np.searchsorted(GRID, rule.threshold))
    rng = np.random.default_rng(1)
    losses = np.clip(rng.random((200, 1)) - GRID * rng.random((200, 1)), 0, 1)
    found = rule.evaluate(losses, sites=["a", "b"] * 100)
    assert found.overall.mean_loss == pytest.approx(losses[:, at].mean())
    assert found.overall.low < found.overall.mean_loss < found.overall.high
    assert [group.name for group in found.by_site] == ["a", "b"]
    assert found.by_site[0].mean_loss == pytest.approx(losses[::2, at].mean())
    assert found == rule.evaluate(losses[:, at], sites=["a", "b"] * 100)
    assert json.dumps(found.to_dict())
    for bad, words in (
        (losses[:, :3], "losses: have 3 columns for 11 thresholds"),
        (losses[:, 0] + 1, "expected a loss from 0 to the bound 1"),
        ([np.nan], "losses: row 0 is nan"),
        ([], "expected one loss per row"),
    ):
        with refused(words):
            rule.evaluate(bad)


@pytest.mark.parametrize("loss", [fc.SelectiveError(limit=0.3), ("selective-error", (0.3,))])
def test_a_loss_that_need_not_fall_is_not_one_that_falls_by_luck(loss: Any) -> None:
    """No calibration row's loss rises, since each right answer is a sure one; a new row's may."""
    probs, truth = [[0.9, 0.1]] * 50 + [[0.6, 0.4]] * 5, [0] * 50 + [1] * 5
    losses = fc.SelectiveError(limit=0.3).evaluate(probs, truth, thresholds=[0.5, 0.7])
    site = fc.LossSummary.of_losses(losses, thresholds=[0.5, 0.7], loss=loss)
    with refused("these losses may rise along the grid, and mixture needs losses that fall"):
        fc.calibrate([site], risk=0.3)
    assert fc.calibrate([site], risk=0.3, guarantee=fc.LearnThenTest(walks=1)).threshold == 0.5


def test_two_calls_and_an_evaluation_of_scores_and_truth() -> None:
    rng = np.random.default_rng(2)
    truth = rng.random((120, 8)) < 0.3
    scores = np.clip(0.5 * truth + 0.5 * rng.random(truth.shape), 0, 1)
    site = fc.summarize(scores[:100], truth[:100], loss="false-negative-rate", site="a")
    rule = fc.calibrate([site], risk=0.2)
    found = rule.evaluate(scores[100:], truth[100:], sites=["a"] * 20)
    losses = fc.FalseNegativeRate().evaluate(scores[100:], truth[100:], thresholds=[rule.threshold])[:, 0]
    assert found == rule.evaluate(losses, sites=["a"] * 20)
    assert rule.evaluate(scores[100:], truth[100:], alpha=0.4).overall.mean_loss >= found.overall.mean_loss
    with refused("does not name its loss"):
        fc.calibrate(sites(), risk=0.5).evaluate(scores, truth)
    with pytest.warns(fc.InfeasibleWarning):
        never = fc.calibrate([site], risk=0.001)
    with refused("only the safe action is left"):
        never.evaluate(scores, truth)


def test_a_limit_is_kept_to_the_last_unit() -> None:
    at, above = (RiskCurve(np.array([0.5]), (risk,)) for risk in (10**14, 10**14 + 1))
    assert (at.threshold(Fraction(1, 10)), above.threshold(Fraction(1, 10))) == (0.5, math.inf)
