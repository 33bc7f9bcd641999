"""Masks at sites as unlike as hospitals: one rule for all breaks the limit at several, EverySite at none.

A smaller form of benchmarks/risk_sites.py: fewer images and splits.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import fedconformal as fc
from fedconformal._base.arrays import Floats
from fedconformal.errors import HeavySiteWarning
from tests.validity.masks import federation

RISK, SPLITS = 0.1, 40
GRID = np.arange(101) / 100
LOSS = fc.FalseNegativeRate()


@pytest.fixture(scope="module")
def risks() -> dict[str, Floats]:
    """Return the mean loss at each site over splits, for both rules."""
    rng, made = np.random.default_rng(0), federation(20, 300)
    known = [LOSS.evaluate(site.scores, site.truth, thresholds=GRID) for site in made]
    rules: dict[str, fc.Guarantee] = {"pooled": fc.Mixture(), "every": fc.EverySite()}
    found = {rule: np.zeros(len(made)) for rule in rules}
    for _ in range(SPLITS):
        orders = [rng.permutation(len(losses)) for losses in known]
        sites = [
            fc.LossSummary.of_losses(losses[order[: site.calibrating]], thresholds=GRID, loss=LOSS)
            for losses, order, site in zip(known, orders, made, strict=True)
        ]
        for rule, guarantee in rules.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", HeavySiteWarning)
                threshold = float(fc.calibrate(sites, risk=RISK, guarantee=guarantee, exact=True).threshold)
            column = int(np.searchsorted(GRID, min(1.0, threshold)))
            for k, (losses, order) in enumerate(zip(known, orders, strict=True)):
                found[rule][k] += losses[order[made[k].calibrating :], column].mean() / SPLITS
    return found


@pytest.mark.long
def test_one_rule_for_all_breaks_the_limit_at_several_sites(risks: dict[str, Floats]) -> None:
    assert (risks["pooled"] > RISK).sum() >= 5
    assert risks["pooled"].max() > 2 * RISK


@pytest.mark.long
def test_every_site_keeps_it_at_each(risks: dict[str, Floats]) -> None:
    assert risks["every"].max() <= RISK
