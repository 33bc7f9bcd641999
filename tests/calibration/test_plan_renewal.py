"""How many new rows restore which promise: one row fewer is not enough, and rows come as they come."""

import itertools

import numpy as np
import pytest

import fedconformal as fc
from fedconformal._base.arrays import as_alpha
from fedconformal.calibration.plan import usual_guarantees
from fedconformal.calibration.plan_renewal import FAILURE, Step, plan_renewal
from fedconformal.calibration.plan_risk import plan_risk
from fedconformal.guarantees.guarantee import feasible
from fedconformal.monitoring.monitor import Monitor
from tests.calibration.test_recalibrate import losses, numbers

SIZES = {"a": 90, "b": 30, "c": 11}
NAMES = list(SIZES)


def predictor(guarantee: fc.Guarantee | str = "mixture") -> fc.Predictor:
    rng = np.random.default_rng(0)
    sites = [fc.Summary.of_scores(rng.random(n), site=name, score=fc.LAC(), kind="exact") for name, n in SIZES.items()]
    return fc.calibrate(sites, guarantee=guarantee)


def enough(guarantee: fc.Guarantee, rows: list[int]) -> bool:
    return min(rows) > 0 and feasible(guarantee.bind(NAMES, rows), as_alpha(0.1), rows)


@pytest.mark.parametrize("rates", [None, [6, 2, 0.7]])
def test_the_fewest_rows_are_enough_and_one_fewer_is_not(rates: list[float] | None) -> None:
    options = {one.guarantee: one for one in plan_renewal(predictor(), rows_per_week=rates).options}
    known = dict(usual_guarantees(NAMES))
    assert options.keys() == known.keys()
    for name, option in options.items():
        if name == "new-site":
            assert option.fewest is None
            assert "sites needed: 6 more" in option.missing
            continue
        assert option.fewest is not None
        rows = option.fewest.rows
        assert enough(known[name], rows)
        if rates is not None:
            weeks = option.fewest.weeks
            assert weeks is not None
            assert rows == [int(rate * weeks + 1e-9) for rate in rates]
            assert not enough(known[name], [int(rate * (weeks - 1) + 1e-9) for rate in rates])
        else:
            fewer = [n - (n > 1) for n in rows]
            assert fewer == rows or not enough(known[name], fewer)


def test_what_is_planned_is_what_comes_of_it() -> None:
    """A calibration with the rows of the plan has the band and the watch's limit that the plan says."""
    rng = np.random.default_rng(1)
    for guarantee in (fc.Mixture(), fc.FCP(), fc.PAC()):
        old = predictor(guarantee)
        option = next(one for one in plan_renewal(old).options if one.as_before)
        for step in filter(None, (option.fewest, option.last_time)):
            fresh = [
                fc.Summary.of_scores(rng.random(n), site=name, score=fc.LAC(), kind="exact")
                for name, n in zip(NAMES, step.rows, strict=True)
            ]
            new = fc.recalibrate(old, fresh, rows="new")
            assert np.isfinite(new.threshold)
            assert new.certificate.coverage_at_most == step.coverage_at_most
            assert Monitor.of(new, failure=FAILURE).limit == step.watch_limit


def test_a_promise_of_ones_own_is_planned_too() -> None:
    options = plan_renewal(predictor(fc.Mixture(weights=[0.5, 0.25, 0.25]))).options
    assert [one.guarantee for one in options if one.as_before] == ["mixture weights=[0.5, 0.25, 0.25]"]
    assert options[0].as_before


def test_rows_that_never_come() -> None:
    options = {one.guarantee: one for one in plan_renewal(predictor(), rows_per_week=[5, 5, 0]).options}
    assert options["every-site"].fewest is None
    assert options["every-site"].missing == "no number of rows that come like this is enough"
    assert options["mixture"].fewest is None  # a site without a row sends no summary
    last = options["every-site"].last_time
    assert isinstance(last, Step)
    assert last.weeks is None


def test_weeks_are_counted_to_the_last_row() -> None:
    last = plan_renewal(predictor(), rows_per_week=[6, 2, 0.7]).options[0].last_time
    assert last is not None
    assert last.weeks == 16  # 11 rows at 0.7 a week take longer than 90 at 6


@pytest.mark.parametrize("rates", [[1, 2], [1, 2, -1], ["a", 1, 1], [1, 2, "nan"]])
def test_rates_that_are_none(rates: list[object]) -> None:
    with pytest.raises(fc.InputError, match="expected 3 numbers from 0, one a site"):
        plan_renewal(predictor(), rows_per_week=rates)


def test_intervals_with_two_ends_and_losses() -> None:
    two = fc.calibrate(numbers(1, fc.Signed()), alpha=0.2)
    found = plan_renewal(two)
    assert found.alpha == 0.1
    assert "each end has its share of alpha" in found.notes[0]
    rule = fc.calibrate(losses(1), risk=0.4)
    renewal = next(one for one in plan_renewal(rule).options if one.as_before)
    assert renewal.fewest is not None
    assert renewal.last_time is not None
    assert renewal.last_time.mean_loss == plan_risk(risk=0.4, sizes=[60, 60])[0].mean_loss
    # In proportion to the rows: B / N is at most .4 from N = 3 on.
    assert sum(renewal.fewest.rows) == 3
    assert renewal.fewest.watch_limit is None


@pytest.mark.filterwarnings("ignore::fedconformal.errors.ClassCountsWarning")
def test_by_class_says_what_a_class_takes() -> None:
    rng = np.random.default_rng(2)
    labels = np.fromiter(itertools.cycle([0, 1]), dtype=np.int64, count=200)
    site = fc.Summary.of_scores(rng.random(200), site="a", score=fc.LAC(), labels=labels)
    found = plan_renewal(fc.calibrate([site], guarantee=fc.ByClass(fc.Mixture())))
    assert found.notes[0].startswith("by class or by group, every class or group takes 10 scores in all")
    assert not any(one.as_before for one in found.options)
