"""Scores of numbers through sums: any size, any sign, and never a threshold below the plain one."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import numpy as np
import pytest

import fedconformal as fc
from fedconformal._base.arrays import Floats
from fedconformal.privacy.dp import release_threshold
from fedconformal.privacy.local_dp import calibrate_locally, noisy_histogram
from fedconformal.privacy.sums import site as at_site
from fedconformal.privacy.sums.coordinator import invite, read
from fedconformal.privacy.sums.messages import Join, pack, unpack
from fedconformal.summaries import Provenance
from tests.contracts.tools import refused
from tests.privacy.sums_play import calibrate_by_sums


def scored(score: fc.RegressionScore, count: int = 300, size: float = 1.0) -> dict[str, Floats]:
    """Return scores of four sites whose values are about `size` from a prediction of 0, with bands of that width."""
    rng = np.random.default_rng(count)
    column = {"prediction": np.zeros(count), "scale": np.full(count, size), "lower": np.full(count, -size)}
    column["upper"] = -column["lower"]
    outputs = np.stack([column[name] for name in score.columns], axis=1).squeeze()
    return {f"s{k}": score.evaluate(outputs, size * rng.standard_normal(count)) for k in range(4)}


def plain(scores: dict[str, Floats], score: fc.RegressionScore, **asked: Any) -> Any:
    summaries = [fc.Summary.of_scores(part, kind="exact", site=name, score=score) for name, part in scores.items()]
    return fc.calibrate(summaries, exact=True, **asked)


@pytest.mark.parametrize(
    ("score", "size", "alpha", "guarantee"),
    [
        (fc.CQR(), 300.0, 0.1, fc.Mixture()),
        (fc.CQR(), 1e-6, 0.5, fc.FCP()),
        (fc.Residual(), 300.0, 0.1, fc.PAC(failure=0.1)),
        (fc.Normalized(), 300.0, 0.1, fc.Mixture()),
    ],
    ids=repr,
)
def test_the_rank_rule_of_plain_calibration(
    score: fc.RegressionScore, size: float, alpha: float, guarantee: fc.Guarantee
) -> None:
    scores, asked = scored(score, size=size), {"alpha": alpha, "guarantee": guarantee}
    expected = plain(scores, score, **asked)
    assert (expected.threshold < 0) == (score == fc.CQR() and alpha == 0.5)  # half of the values are well inside
    found = calibrate_by_sums(scores, **asked, provenance=Provenance(score=score), reach=8 * size)
    assert found.certificate.promises[0].rank == expected.certificate.promises[0].rank
    unit = 1 if score == fc.Normalized() else size
    assert 0 <= found.threshold - expected.threshold < 0.2 * unit  # cells of few rows are not split


@pytest.mark.parametrize(("reach", "least", "most"), [(1, 0.02, 0.125), (1000, 0, 0.005), (100_000, 0, 0.012)])
def test_cells_reach_as_far_as_is_said(reach: float, least: float, most: float) -> None:
    """Without a reach, cells above 2 are eighths of octaves."""
    scores = scored(fc.Residual(), count=3000, size=300.0)
    found = calibrate_by_sums(scores, provenance=Provenance(score=fc.Residual()), reach=reach)
    assert least <= found.threshold / plain(scores, fc.Residual()).threshold - 1 < most


def test_an_interval_predictor_comes_out() -> None:
    scores, provenance = scored(fc.CQR(), size=20.0), Provenance(score=fc.CQR(), model="m")
    found = fc.Predictor.from_bytes(calibrate_by_sums(scores, provenance=provenance, reach=100).to_bytes())
    assert found.sentence().startswith("The intervals hold the true value")
    q = float(found.threshold)
    assert np.allclose(found.predict_interval([[-20.0, 20.0]]), [[-20 - q, 20 + q]])
    with pytest.warns(fc.InfeasibleWarning, match="every interval is the whole line"):
        calibrate_by_sums({name: part[:2] for name, part in scores.items()}, alpha=0.01, provenance=provenance)


def test_with_noise_the_grid_reaches_as_far() -> None:
    pytest.importorskip("opendp", reason="noise needs opendp")
    scores = scored(fc.Residual(), count=2000, size=300.0)
    found = calibrate_by_sums(scores, provenance=Provenance(score=fc.Residual()), epsilon=2, reach=1000)
    assert plain(scores, fc.Residual(), alpha=0.12).threshold < found.threshold < 1024


def test_two_ends_are_refused() -> None:
    """One threshold at alpha would be the upper end alone, and intervals without a lower end."""
    provenance = Provenance(score=fc.Signed())
    state, invitation = invite(fc.Mixture(), 0.1)
    site, sent = at_site.join(at_site.new_site("a", [0.1]), invitation)
    join = pack(msgspec.structs.replace(unpack(sent, Join), provenance=provenance.to_header()), site.signing)
    exact = fc.Summary.of_scores([0.5], kind="exact", score=fc.Signed(), site="a")
    for use in (
        lambda: at_site.join(at_site.new_site("a", [0.1], provenance), invitation),
        lambda: read(state, join),
        lambda: release_threshold([exact], epsilon=5),
        lambda: calibrate_locally([noisy_histogram([0.5], epsilon=5, site="a", provenance=provenance)]),
    ):
        with refused("site 'a' has scores of signed, whose intervals need a threshold at each end"):
            use()


@pytest.mark.parametrize("reach", [0, math.nan, True, "1", 1e300])
def test_bad_reaches(reach: Any) -> None:
    with refused(param="reach"):
        calibrate_by_sums({}, reach=reach)
    with refused(param="reach"):
        calibrate_by_sums({}, reach=1, epsilon=1, grid=[0.5, math.inf])
