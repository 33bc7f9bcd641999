"""Loss curves through sums: the plain threshold, or a larger one, and no more than a few sums of the curve."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedconformal as fc
from fedconformal.privacy import calibrate_privately
from fedconformal.privacy.sums import site as at_site
from fedconformal.privacy.sums.certificate import certified
from fedconformal.privacy.sums.coordinator import invite
from fedconformal.privacy.sums.losses import kept_needed, terms_of
from fedconformal.privacy.sums.messages import Answer, Losses, pack
from fedconformal.privacy.sums.state import decode_state, encode_state
from fedconformal.summaries import LossSummary
from fedconformal.summaries.losses import UNIT
from tests.contracts.tools import checks, maybe_infeasible, refused
from tests.privacy.attack import watching
from tests.privacy.sums_play import each, took

GUARANTEES = [fc.Mixture(), fc.PAC(failure=0.1)]
NUMBERS: Any = [[[1, 0.5, 0.25, 0], [1, 1, 0, 0], [0.5, 0.25, 0, 0]], [[1, 1, 0.5, 0], [1, 0.75, 0.5, 0.25]]]
"""Two sites whose bounds were worked out by hand: 1.1 .9 .45 .25."""


def curves(sites: int, rows: int, points: int, bound: float = 1) -> list[LossSummary]:
    """Losses that fall along a grid, of sites that differ."""
    found = []
    for k in range(sites):
        rng = np.random.default_rng(k)
        rate = rng.gamma(1 + k, 1, size=(rows + k, 1))
        losses = bound * np.clip(rate * np.exp(-4 * np.linspace(0, 1, points)), 0, 1)
        found.append(fc.LossSummary.of_losses(losses, thresholds=np.linspace(0, 1, points), bound=bound, site=f"s{k}"))
    return found


def by_sums(sites: list[LossSummary], risk: Any, **asked: Any) -> fc.Predictor:
    return calibrate_privately(sites, mode="sums", risk=risk, **asked)


@pytest.mark.usefixtures("to_the_last_cell")
@pytest.mark.parametrize("guarantee", GUARANTEES, ids=repr)
@pytest.mark.parametrize(("points", "bound", "risk"), [(1000, 1, 0.1), (37, 5, 0.9), (8, 1, 0.3), (1, 1, 0.99)])
def test_it_is_the_threshold_of_plain_calibration(
    guarantee: fc.Guarantee, points: int, bound: float, risk: float
) -> None:
    sites = curves(4, 60, points, bound)
    with maybe_infeasible():
        plain = fc.calibrate(sites, risk=risk, guarantee=guarantee, exact=True).certificate
        with watching() as seen:
            stated = by_sums(sites, risk, guarantee=guarantee).certificate
    for field in ("threshold", "risk", "status", "coverage_at_least", "coverage_at_most", "target", "alpha"):
        assert getattr(stated, field) == getattr(plain, field)
    assert stated.statement.promise == plain.statement.promise
    assert stated.statement.conditions == plain.statement.conditions
    assert stated.slack == 1.0
    assert "no site's own counts were seen" in stated.statement.caveat
    assert sum(len(total) for _, _, total in seen) <= 8 * math.ceil(max(1, math.log2(points)) / 3)  # not the curve


@pytest.mark.usefixtures("to_the_last_cell")
def test_numbers_by_hand() -> None:
    """Three sites take a session: the second one is parted, which changes nothing. One row more loses all."""
    rows = [NUMBERS[0], NUMBERS[1][:1], NUMBERS[1][1:]]
    sites = [fc.LossSummary.of_losses(part, thresholds=[1, 2, 3, 4], site=f"s{k}") for k, part in enumerate(rows)]
    for t, lost in ((3, Fraction(5, 4)), (4, Fraction(1, 4))):
        at = (lost + 1) / 5
        assert by_sums(sites, at).threshold == fc.calibrate(sites, risk=at, exact=True).threshold == t
    with pytest.warns(fc.InfeasibleWarning, match=r"risk=0.249 cannot be promised"):
        found = by_sums(sites, 0.249)
    assert (found.threshold, found.certificate.coverage_at_least) == (math.inf, 0.0)


@pytest.mark.parametrize("least", [0, 50])
@given(
    st.lists(
        st.lists(st.lists(st.sampled_from([0, 0.1, 0.25, 1 / 3, 1]), min_size=5, max_size=5), min_size=1, max_size=6),
        min_size=3,
        max_size=4,
    ),
    st.fractions(Fraction(1, 10), Fraction(9, 10), max_denominator=60),
)
@checks(30)
def test_never_below_the_plain_threshold(least: int, rows: list[list[list[float]]], risk: Fraction) -> None:
    sites = [
        fc.LossSummary.of_losses(-np.sort(-np.array(part), axis=1), thresholds=range(5), site=f"s{k}")
        for k, part in enumerate(rows)
    ]
    with maybe_infeasible(), pytest.MonkeyPatch.context() as patch:
        patch.setattr("fedconformal.privacy.sums.radix.LEAST", least)
        found = by_sums(sites, risk).threshold
        expected = float(fc.calibrate(sites, risk=risk, exact=True).threshold)
    assert found >= expected if least else found == expected


def test_the_target_is_the_least_that_is_enough() -> None:
    for guarantee in GUARANTEES:
        target = kept_needed(guarantee, [20, 30, 50], Fraction(1, 5))
        _, promise = guarantee.grouped([20, 30, 50], UNIT)
        enough, less = promise(np.array([[target, target - 1]]))
        assert enough >= Fraction(4, 5) > less
    assert kept_needed(fc.Mixture(), [20, 30, 50], Fraction(1, 5)) == (80 + 1) * UNIT
    assert kept_needed(fc.Mixture(), [2, 3], Fraction(1, 100)) == 5 * UNIT + 1  # more than there is


def test_a_risk_predictor_comes_out_and_a_lost_site_stops_the_search() -> None:
    summaries = curves(5, 60, 200)
    sites = {one.sites[0]: at_site.site_from(one) for one in summaries}
    expected = fc.calibrate(summaries, risk=0.12, exact=True).threshold
    state, invitation = invite(fc.Mixture(), losses=terms_of(summaries, 0.12))
    outgoing = dict.fromkeys(sites, invitation)
    while outgoing:
        sites = {name: decode_state(encode_state(one)) for name, one in sites.items()}
        if state.search.number == 1 and state.expects is Answer:
            sites.pop("s3", None)
        sites, sent = each(sites, outgoing)
        state, outgoing = took(state, sent)
    found = fc.Predictor.from_bytes(certified(state).to_bytes())
    assert found.certificate.privacy is not None
    precision = found.certificate.privacy["precision"]
    assert (state.search.number, precision["stopped"]) == (1, "a site was lost after the first sum")
    assert precision["above"] < expected < found.threshold < 1
    assert found.curve.promised[0] == 10**15
    assert "The expected loss is at most 0.1" in found.sentence()


def test_sites_that_do_not_go_together_are_refused() -> None:
    sites = curves(3, 20, 9)
    grid = sites[0].grid
    for losses, about, why in (
        (np.zeros((5, 8)), {"thresholds": np.linspace(0, 1, 8)}, "do not go together: grid"),
        (np.zeros((5, 9)), {"thresholds": grid, "bound": 2}, "do not go together: bound 1.0 against 2.0"),
        (np.zeros((5, 9)), {"thresholds": grid, "rising": True}, "has losses that may rise along the grid"),
    ):
        with refused(why):
            by_sums([*sites, fc.LossSummary.of_losses(losses, site="other", **about)], 0.1)
    with refused("site 'a' has scores, and the session is for losses"):
        at_site.join(at_site.new_site("a", [0.5]), invite(fc.Mixture(), losses=terms_of(sites, 0.1))[1])
    with refused("site 's0' has losses, and the session is for scores"):
        at_site.join(at_site.site_from(sites[0]), invite(fc.Mixture(), 0.1)[1])
    with refused("risk is for loss curves", param="risk"):
        by_sums([], 0.1)


@pytest.mark.parametrize(
    ("guarantee", "why"),
    [
        (fc.EverySite(), "every-site needs every site's own counts"),
        (fc.FCP(), "fcp is no promise on losses"),
        (fc.NewSite(), "new-site needs every site's own counts"),
        (fc.LearnThenTest(), "learn-then-test needs the losses at every threshold"),
    ],
    ids=repr,
)
def test_guarantees_that_one_sum_does_not_serve(guarantee: fc.Guarantee, why: str) -> None:
    with refused(why):
        by_sums(curves(4, 20, 9), 0.1, guarantee=guarantee)


def test_rows_are_known_by_their_number_whatever_is_summed() -> None:
    """A site that was in sums of scores is not in sums of losses of the same rows with others."""
    (one,) = curves(1, 20, 9)
    by_losses, by_scores = at_site.site_from(one), at_site.new_site("s0", np.zeros(20))
    assert (by_losses.size, by_scores.size) == (20, 20)
    assert set(at_site.known_by(by_losses)) & set(at_site.known_by(by_scores))
    assert at_site.renewed(by_losses).size == 20


def test_a_part_of_the_grid_in_which_few_rows_change_is_not_split_in_eight() -> None:
    sites = curves(4, 60, 1000)  # 246 rows
    with watching() as seen:
        found = by_sums(sites, 0.1)
    privacy = found.certificate.privacy or {}
    precision = privacy["precision"]
    assert (precision["least"], precision["stopped"]) == (50, "its cell has fewer than 50 rows")
    assert precision["above"] < float(fc.calibrate(sites, risk=0.1, exact=True).threshold) < found.threshold
    assert len(seen) == privacy["rounds"] < 4
    for (_, search, total), (_, after, parts) in pairwise(seen):
        split = total[after.digits & 7]
        assert int(split) == int(parts.sum())  # what is split is what was found
        assert int(split) << after.joined >= 50 * UNIT
        assert search.joined == 0


GRID = np.arange(9.0).tobytes()


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"epsilon": 1.0}, "for losses and for noise"),  # a policy would take it for noise
        ({"losses": Losses(math.nan, 1.0, GRID)}, "risk is nan"),
        ({"losses": Losses(0.1, math.inf, GRID)}, "bound is inf"),
        ({"losses": Losses(0.1, 1.0, b"")}, "thresholds"),
        ({"losses": Losses(0.1, 1.0, GRID[:-3])}, "the grid is not one of numbers"),
        ({"losses": Losses(0.1, 1.0, GRID[::-1])}, "thresholds"),
        ({"guarantee": '{"name": "fcp"}'}, "fcp is no promise on losses"),
    ],
)
def test_hostile_invitations(fields: dict[str, Any], why: str) -> None:
    sites = curves(1, 20, 9)
    state, _ = invite(fc.Mixture(), losses=terms_of(sites, 0.1))
    altered = pack(msgspec.structs.replace(state.invite, **fields), state.signing)
    with refused(why):
        at_site.join(at_site.site_from(sites[0]), altered)
