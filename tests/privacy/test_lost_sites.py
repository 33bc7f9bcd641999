"""A site that is lost: what that means is said at the moment, and in the certificate."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.certificates.uninformative import explain_uninformative
from fedconformal.privacy.sums import scale
from fedconformal.privacy.sums.certificate import certified
from fedconformal.privacy.sums.messages import Question, unpack
from fedconformal.privacy.sums.radix import BYTES, IN_STEPS
from fedconformal.summaries import Provenance
from tests.privacy.sums_play import calibrate_by_sums, each, opened, took

STEPS: Any = dict(zip(("widths", "least"), IN_STEPS, strict=True))
ALL = "every label will be in every set"


def scores_of(count: int) -> dict[str, np.ndarray]:
    return {f"s{k:02}": np.random.default_rng(k).random(60) for k in range(count)}


@pytest.mark.parametrize(("count", "full"), [(5, True), (8, True), (16, False)])
def test_a_site_lost_before_the_first_sum(count: int, full: bool, caplog: pytest.LogCaptureFixture) -> None:
    """With 5 or 8 sites its share is above alpha: every set will hold every label, and that is said at once."""
    state, question, sites = opened(scores_of(count), **STEPS)
    del sites["s01"]
    answered, answers = each(sites, dict.fromkeys(sites, question))
    assert not caplog.messages
    state, outgoing = took(state, answers)
    assert f"site 's01' is lost and held {1 / count:.1%} of the rows" in caplog.text
    assert "count as above every threshold from now on" in caplog.text
    assert (ALL in caplog.text) == full
    said = len(caplog.messages)
    while outgoing:
        answered, sent = each(answered, outgoing)
        state, outgoing = took(state, sent)
    assert len(caplog.messages) == said  # once is enough
    if full:
        with pytest.warns(fc.InfeasibleWarning, match=rf"s01 \({1 / count:.3g} of the rows\) dropped out"):
            certificate = certified(state).certificate
        assert certificate.threshold == float("inf")
    else:
        certificate = certified(state).certificate
        assert certificate.limit < math.inf
    assert certificate.privacy is not None
    assert [one["share"] for one in certificate.privacy["dropped"]] == [1 / count]


def test_a_site_lost_after_the_first_sum(caplog: pytest.LogCaptureFixture) -> None:
    """Its rows are counted in the first round, so the threshold is finite: the edge of the cell that was reached."""
    state, question, sites = opened(scores_of(5), **STEPS)
    outgoing = dict.fromkeys(sites, question)
    while outgoing:
        if (state.search.number, state.answers) == (1, {}):
            sites.pop("s01", None)
        sites, sent = each(sites, outgoing)
        state, outgoing = took(state, sent)
    assert "site 's01' is lost and held 20.0% of the rows" in caplog.text
    assert "the search stops at the cell that it has reached" in caplog.text
    assert ALL not in caplog.text
    certificate = certified(state).certificate
    plain = np.sort(np.concatenate(list(scores_of(5).values())))[270]  # rank 0.9 * 300 + 1
    assert certificate.limit in scale.edges()[511::512]  # the first round has eight cells
    assert certificate.privacy is not None
    precision = certificate.privacy["precision"]
    assert precision["above"] < plain <= certificate.limit < math.inf
    assert (precision["exact"], precision["stopped"]) == (False, "a site was lost after the first sum")
    assert (certificate.privacy["rounds"], certificate.coverage_at_most) == (1, 1.0)
    assert "after it the search stops at the cell that it has reached" in certificate.statement.caveat


def enough_left(state: Any, left: frozenset[int]) -> bool:
    return bool(state.session.rounds.can_reach(state.session.sizes, left))


def test_what_is_left_is_enough_or_not() -> None:
    state, question, _ = opened(scores_of(10), **STEPS)
    assert unpack(question, Question, state.session.coordinator).number == 0
    everybody = frozenset(range(10))
    assert enough_left(state, everybody)
    assert not enough_left(state, everybody - {3})  # 540 rows, and the rank is 541
    state, *_ = opened({**scores_of(10), "s00": np.full(59, 0.5)}, **STEPS)
    assert math.ceil(0.9 * 599) + 1 == 541
    assert not enough_left(state, everybody - {0})
    state, *_ = opened({**scores_of(10), "s00": np.full(58, 0.5)}, **STEPS)
    assert math.ceil(0.9 * 598) + 1 == 540
    assert enough_left(state, everybody - {0})


def test_shares() -> None:
    state, *_ = opened({"a": np.full(10, 0.5), "b": np.full(20, 0.5), "c": np.full(70, 0.5)}, **STEPS)
    assert [state.session.share(k) for k in range(3)] == [0.1, 0.2, 0.7]


def test_a_full_set_by_rounding_is_explained() -> None:
    """The cell of the threshold ends at 1, the largest score of LAC: every label is in every set."""
    sites = {name: np.r_[np.linspace(0.1, 0.4, 36), np.linspace(0.97, 0.98, 4)] for name in "abc"}
    certificate = calibrate_by_sums(sites, alpha=0.1, provenance=Provenance(score=fc.LAC())).predictor.certificate
    assert certificate.limit == 1.0
    assert "rounded up since its cell has fewer than 50 rows" in str(explain_uninformative(certificate, classes=3))
    exact = calibrate_by_sums(sites, alpha=0.1, provenance=Provenance(score=fc.LAC()), widths=BYTES)
    assert exact.threshold < 0.98
    assert explain_uninformative(exact.predictor.certificate, classes=3) is None
