"""The page of a promise on losses, and which rows to answer: by a certificate, or by a heuristic."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

import fedconformal as fc
from fedconformal._base.arrays import Floats, Integers
from fedconformal.report import LabelledRows, report_page, risk_page

RNG = np.random.default_rng(0)
GRID = np.arange(21) / 20
LOSS = fc.FalseNegativeRate()


def rule(risk: float = 0.2, name: str = "clinic") -> tuple[fc.Predictor, Floats]:
    truth = RNG.random((200, 5)) < 0.5
    losses = LOSS.evaluate(np.clip(0.4 * truth + 0.6 * RNG.random(truth.shape), 0, 1), truth, thresholds=GRID)
    sites = [fc.LossSummary.of_losses(losses[k::4], thresholds=GRID, loss=LOSS, site=f"{name}-{k}") for k in range(2)]
    return fc.calibrate(sites, risk=risk), losses[2::4]


def test_the_page_says_limit_threshold_and_risk_by_site() -> None:
    found, losses = rule()
    evaluation = found.evaluate(losses, sites=np.array(["<b>a</b>", "clinic-0"] * 25))
    page = risk_page(found, evaluation)
    assert "A limit on the risk across 2 sites" in page
    assert "at most 0.2" in page
    assert f"{found.threshold:.6g}" in page
    assert f"{evaluation.judged.mean_loss:.3f}" in page
    assert "The promised mixture has no rows of clinic-1" in page
    assert "Promised risk against the threshold" in page
    assert "Risk by site" in page
    assert "<b>a</b>" not in page
    assert "FalseNegativeRate()" in page
    assert "Coverage is" not in page


@pytest.mark.parametrize(
    ("loss", "rows", "said"),
    [
        (0.0, 400, "All of that is at or below the limit."),
        (0.0, 2, "The limit is inside this interval, so these cases are too few to tell."),
        (1.0, 400, "That is above the limit"),
    ],
)
def test_it_says_whether_the_rows_tell(loss: float, rows: int, said: str) -> None:
    found, _ = rule()
    assert said in risk_page(found, found.evaluate(np.full(rows, loss)))


def test_the_promise_is_compared_with_its_mixture_and_not_with_the_rows_as_they_came() -> None:
    found, _ = rule()
    clients = np.repeat(["clinic-0", "clinic-1"], [6000, 800])
    page = risk_page(found, found.evaluate(np.where(clients == "clinic-0", 0.3, 0.0), sites=clients))
    assert "each site with its promised share" in page  # .15 of the mixture, and .26 of the rows
    assert "at or below the limit" in page
    assert "as the site of each row is not known" in risk_page(found, found.evaluate(np.full(9, 0.1)))
    assert "Not checked" in risk_page(found, found.evaluate(np.ones(400), sites=["elsewhere"] * 400))


def test_without_rows_it_is_not_checked() -> None:
    page = risk_page(rule()[0])
    assert "Not checked" in page
    assert "Risk by site" not in page


def test_where_nothing_is_promised_the_safe_action_is_named() -> None:
    with pytest.warns(fc.InfeasibleWarning):
        found, _ = rule(0.001)
    assert found.certificate.limit == math.inf
    page = risk_page(found)
    assert "Nothing" in page
    assert "every label is predicted, so none is left out" in page


def rows(count: int) -> tuple[Floats, Integers]:
    """Half of the rows are sure and right, the others are not sure and often wrong."""
    sure = RNG.random(count) < 0.5
    top = np.where(sure, 0.98, 0.6)
    probs = np.stack([top, (1 - top) / 2, (1 - top) / 2], axis=1)
    return probs, np.where(sure, 0, RNG.integers(0, 3, count)).astype(np.int64)


def test_easy_rows_are_answered_by_certificate_or_said_to_be_by_a_heuristic() -> None:
    loss = fc.SelectiveError(limit=0.1)
    probs, labels = rows(1500)
    sites = [
        fc.LossSummary.of_losses(
            loss.evaluate(probs[k::3], labels[k::3], thresholds=GRID), thresholds=GRID, loss=loss, rising=True
        )
        for k in range(3)
    ]
    answers = fc.calibrate(sites, risk=0.1, guarantee=fc.LearnThenTest())
    assert 0.6 < answers.threshold <= 0.98
    test = LabelledRows(probs=probs[:300], labels=labels[:300])
    site = fc.Summary.of_scores(fc.LAC().evaluate(probs, labels), score=fc.LAC())
    sets = fc.calibrate([site])
    plain = report_page(sets, sets.evaluate(test.probs, test.labels), rows=test)
    assert "A heuristic" in plain
    assert "Certified:" not in plain
    page = report_page(sets, sets.evaluate(test.probs, test.labels), rows=test, answers=answers)
    assert "<b>Certified:</b> answer a row if the largest probability is at least" in page
    assert "The share of answers that are wrong, among the rows that are answered, is at most 0.1" in page
    [share] = re.findall(r"On these rows: ([\d.]+)% are answered, 0.0% of these answers are wrong", page)
    assert float(share) == pytest.approx(100 * (test.probs.max(axis=1) > 0.9).mean(), abs=0.1)
    assert "to be right" not in page
    with pytest.raises(fc.InputError, match="expected a selective error"):
        report_page(sets, sets.evaluate(test.probs, test.labels), rows=test, answers=rule()[0])
