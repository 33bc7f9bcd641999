"""A plan of limits on losses: what it says is what a calibration of such losses gives."""

from fractions import Fraction

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.calibration.plan_risk import plan_risk
from fedconformal.errors import InputError

SIZES = [200, 50, 20]


def calibrated(mean: float, guarantee: fc.Guarantee) -> float:
    sites = [
        fc.LossSummary.of_losses(np.full((n, 1), mean), thresholds=[0.5], site=f"#{k + 1}") for k, n in enumerate(SIZES)
    ]
    return float(fc.calibrate(sites, risk=0.1, guarantee=guarantee, safe="ask").threshold)


@pytest.mark.parametrize(
    ("name", "guarantee"),
    [
        ("mixture", fc.Mixture()),
        ("mixture uniform", fc.Mixture(weights="uniform")),
        ("every-site", fc.EverySite()),
        ("pac 0.05", fc.PAC()),
        ("one-site #2", fc.OneSite(site="#2")),
    ],
)
def test_the_room_that_is_left_is_the_room_of_a_calibration(name: str, guarantee: fc.Guarantee) -> None:
    found = {option.guarantee: option for option in plan_risk(risk=0.1, sizes=SIZES)}[name]
    assert found.feasible
    assert found.mean_loss is not None
    assert calibrated(found.mean_loss - 2e-6, guarantee) == 0.5
    with pytest.warns(fc.InfeasibleWarning):
        assert calibrated(found.mean_loss + 2e-6, guarantee) == np.inf


def test_a_bound_only_scales() -> None:
    plain, scaled = (plan_risk(risk=0.1 * bound, sizes=SIZES, bound=bound) for bound in (1, 8))
    assert [one.least_limit * 8 for one in plain] == pytest.approx([one.least_limit for one in scaled])
    assert [one.feasible for one in plain] == [one.feasible for one in scaled]
    least = {one.guarantee: one.least_limit for one in plain}
    assert least["mixture"] == pytest.approx(float(Fraction(1, 270)))


def test_bad_sizes_are_refused() -> None:
    with pytest.raises(InputError, match="2 names were given for 3 sites"):
        plan_risk(risk=0.1, sizes=SIZES, sites=["a", "b"])
