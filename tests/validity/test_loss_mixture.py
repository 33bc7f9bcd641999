"""The interval of a mixture's mean loss, from rows of the sites in other shares; and what the plain mean would say."""

from __future__ import annotations

import numpy as np
import pytest

from fedconformal.evaluation.losses import evaluate_losses

SHARES = {"a": 0.9, "b": 0.1}
RISKS = {"a": 0.02, "b": 0.43}
RISK = sum(SHARES[site] * RISKS[site] for site in SHARES)
"""0.061, of a rule that promises 0.1."""

SITES = np.repeat(["a", "b"], [60, 180])
MEANS = np.array([RISKS[site] for site in SITES])


@pytest.mark.parametrize("kind", ["whole rows", "parts"])
def test_the_interval_of_the_mixture_holds_and_the_plain_one_contradicts_a_rule_that_keeps_its_promise(
    kind: str,
) -> None:
    rng = np.random.default_rng(3)
    outside, plain, judged = 0, 0, 0
    for _ in range(30):
        lost = (rng.random(len(MEANS)) < MEANS) if kind == "whole rows" else rng.beta(MEANS, 1 - MEANS)
        found = evaluate_losses(lost, sites=SITES, shares=SHARES)
        outside += not found.judged.low <= RISK <= found.judged.high
        plain, judged = plain + (found.overall.low > 0.1), judged + (found.judged.low > 0.1)
    assert outside <= 1
    assert (plain, judged) == (30, 0)


def test_a_mixture_that_loses_more_than_promised_is_found() -> None:
    lost = np.where(SITES == "a", np.arange(len(SITES)) % 4 == 0, False)  # .225 of the mixture, .0625 of the rows
    found = evaluate_losses(lost, sites=SITES, shares=SHARES)
    assert found.judged.low > 0.1 > found.overall.low


def test_a_site_without_rows_may_lose_nothing_or_all() -> None:
    found = evaluate_losses(np.zeros(500), sites=["b"] * 500, shares=SHARES)
    assert (found.judged.low, found.judged.high > 0.9) == (0, True)
    found = evaluate_losses(np.ones(500), sites=["b"] * 500, shares=SHARES)
    assert 0.09 < found.judged.low <= 0.1 < found.judged.high == 1
    nobody = evaluate_losses(np.ones(500), sites=["c"] * 500, shares=SHARES)
    assert (nobody.judged.rows, nobody.judged.low, nobody.judged.high) == (0, 0, 1)
    assert "no rows of a, b" in nobody.note
    assert "The rows of c do not count" in nobody.note
