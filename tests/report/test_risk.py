"""The report about a limit on a loss."""

from __future__ import annotations

import math

import numpy as np
import pytest

import fedconformal as fc
from fedconformal._base.arrays import Floats
from fedconformal.report import report_page

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
    page = report_page(found, evaluation)
    assert "A limit on the risk across 2 sites" in page
    assert "at most 0.2" in page
    assert f"{found.threshold:.6g}" in page
    assert f"{evaluation.judged.mean_loss:.3f}" in page
    assert "The promised mixture has no rows of clinic-1" in page
    assert "Risk by site" in page
    assert "<b>a</b>" not in page
    assert "FalseNegativeRate()" in page
    assert "Coverage is" not in page
    without_rows = report_page(found)
    assert "Not checked" in without_rows
    assert "Risk by site" not in without_rows


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
    assert said in report_page(found, found.evaluate(np.full(rows, loss)))


def test_the_promise_is_compared_with_its_mixture_and_not_with_the_rows_as_they_came() -> None:
    found, _ = rule()
    clients = np.repeat(["clinic-0", "clinic-1"], [6000, 800])
    page = report_page(found, found.evaluate(np.where(clients == "clinic-0", 0.3, 0.0), sites=clients))
    assert "each site with its promised share" in page  # .15 of the mixture, and .26 of the rows
    assert "at or below the limit" in page
    assert "as the site of each row is not known" in report_page(found, found.evaluate(np.full(9, 0.1)))
    assert "Not checked" in report_page(found, found.evaluate(np.ones(400), sites=["elsewhere"] * 400))


def test_where_nothing_is_promised_the_safe_action_is_named() -> None:
    with pytest.warns(fc.InfeasibleWarning):
        found, _ = rule(0.001)
    assert found.certificate.limit == math.inf
    page = report_page(found)
    assert "Nothing" in page
    assert "every label is predicted, so none is left out" in page
