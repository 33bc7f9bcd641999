"""Scores of numbers through sums: any size, any sign, and never a threshold below the plain one."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedconformal as fc
from fedconformal._base.arrays import Floats
from fedconformal.privacy.dp import release_threshold
from fedconformal.privacy.local_dp import calibrate_locally, noisy_histogram
from fedconformal.privacy.sums import site as at_site
from fedconformal.privacy.sums.coordinator import invite, read, step
from fedconformal.privacy.sums.messages import Join, pack, unpack
from fedconformal.privacy.sums.radix import edges, exponent_of
from fedconformal.summaries import Provenance
from tests.contracts.tools import checks, maybe_infeasible, refused
from tests.privacy.sums_play import calibrate_by_sums


def rows(sites: int, count: int, size: float) -> tuple[dict[str, Floats], dict[str, Floats]]:
    """Return the middle and the lower and upper predictions of some sites, and the values; errors are about `size`."""
    rng = np.random.default_rng(sites * count)
    y = {f"s{k}": size * rng.standard_normal(count) for k in range(sites)}
    return {name: np.stack([one * 0 - size, one * 0 + size], axis=1) for name, one in y.items()}, y


def scored(score: fc.RegressionScore, sites: int = 4, count: int = 300, size: float = 1.0) -> dict[str, Floats]:
    ends, y = rows(sites, count, size)
    columns = {"prediction": ends["s0"][:, 0] * 0, "scale": ends["s0"][:, 0] * 0 + size}
    found = {}
    for name, one in y.items():
        columns |= {"lower": ends[name][:, 0], "upper": ends[name][:, 1]}
        made = [columns[column] for column in score.columns]
        found[name] = score.evaluate(made[0] if len(made) == 1 else np.stack(made, axis=1), one)
    return found


def plain(scores: dict[str, Floats], score: fc.RegressionScore, **asked: Any) -> Any:
    summaries = [fc.Summary.of_scores(part, kind="exact", site=name, score=score) for name, part in scores.items()]
    return fc.calibrate(summaries, exact=True, **asked)


@pytest.mark.parametrize("guarantee", [fc.Mixture(), fc.FCP(), fc.PAC(failure=0.1)], ids=repr)
@pytest.mark.parametrize(
    ("score", "size", "alpha"),
    [(fc.CQR(), 300.0, 0.1), (fc.CQR(), 1e-6, 0.5), (fc.Residual(), 300.0, 0.1), (fc.Normalized(), 300.0, 0.1)],
    ids=repr,
)
def test_the_rank_rule_of_plain_calibration(
    score: fc.RegressionScore, guarantee: fc.Guarantee, size: float, alpha: float
) -> None:
    scores, provenance = scored(score, size=size), Provenance(score=score)
    expected = plain(scores, score, alpha=alpha, guarantee=guarantee)
    assert (expected.threshold < 0) == (score == fc.CQR() and alpha == 0.5)  # half of the values are well inside
    found = calibrate_by_sums(scores, alpha=alpha, guarantee=guarantee, provenance=provenance, reach=8 * size)
    assert found.certificate.promises[0].rank == expected.certificate.promises[0].rank
    assert found.threshold >= expected.threshold
    privacy = found.certificate.privacy
    assert privacy is not None
    assert privacy["precision"]["above"] < expected.threshold
    unit = 1 if score == fc.Normalized() else size
    assert found.threshold - expected.threshold < 0.2 * unit  # 1,200 rows: a cell of less than 50 is not split in eight


@given(
    st.lists(st.lists(st.floats(-1e6, 1e6), min_size=30, max_size=30), min_size=3, max_size=3),
    st.sampled_from([0.001, 1.0, 100.0, 1e9]),
    st.fractions(Fraction(1, 4), Fraction(3, 4), max_denominator=100),
)
@checks(60)
def test_never_below_the_plain_threshold_and_in_its_cell(
    scores: list[list[float]], reach: float, alpha: Fraction
) -> None:
    sites = {f"s{k}": np.array(part) for k, part in enumerate(scores)}
    with maybe_infeasible():
        found = calibrate_by_sums(sites, alpha=alpha, reach=reach, provenance=Provenance(score=fc.CQR()))
        expected = float(plain(sites, fc.CQR(), alpha=alpha).threshold)
    precision = (found.certificate.privacy or {})["precision"]
    assert found.threshold >= expected
    assert found.threshold in edges(exponent_of(reach)) or math.inf in (found.threshold, expected)
    assert precision["above"] is None or precision["above"] < expected


def test_cells_reach_as_far_as_is_said() -> None:
    """Without a reach, cells above 2 are eighths of octaves."""
    scores = scored(fc.Residual(), count=3000, size=300.0)
    expected = plain(scores, fc.Residual()).threshold
    steps = [
        calibrate_by_sums(scores, provenance=Provenance(score=fc.Residual()), reach=reach)
        for reach in (1, 1000, 100_000)
    ]
    off = [found.threshold / expected - 1 for found in steps]
    assert 0.02 < off[0] < 0.125
    assert 0 <= off[1] < 0.005
    assert 0 <= off[2] < 0.012


def test_an_interval_predictor_comes_out() -> None:
    scores = scored(fc.CQR(), size=20.0)
    provenance = Provenance(score=fc.CQR(), model="m")
    found = calibrate_by_sums(scores, provenance=provenance, reach=100)
    again = fc.Predictor.from_bytes(found.to_bytes())
    assert again.certificate.sentence().startswith("The intervals hold the true value")
    ends = again.predict_interval([[-20.0, 20.0]])
    assert np.allclose(ends, [[-20 - found.threshold, 20 + found.threshold]])
    with pytest.warns(fc.InfeasibleWarning, match="every interval is the whole line"):
        calibrate_by_sums({name: part[:2] for name, part in scores.items()}, alpha=0.01, provenance=provenance)


def test_with_noise_the_grid_reaches_as_far() -> None:
    pytest.importorskip("opendp", reason="noise needs opendp")
    scores = scored(fc.Residual(), count=2000, size=300.0)
    found = calibrate_by_sums(scores, provenance=Provenance(score=fc.Residual()), epsilon=2, reach=1000)
    assert plain(scores, fc.Residual(), alpha=0.12).threshold < found.threshold < 1024


def test_two_ends_are_refused() -> None:
    why = "site 'a' has scores of signed, whose intervals need a threshold at each end"
    provenance = Provenance(score=fc.Signed())
    with refused(why):
        calibrate_by_sums({name: [0.1, 0.2] for name in "abc"}, provenance=provenance)
    state, invitation = invite(fc.Mixture(), 0.1)
    site, sent = at_site.join(at_site.new_site("a", [0.1]), invitation)
    join = unpack(sent, Join)
    altered = pack(msgspec.structs.replace(join, provenance=provenance.to_header()), site.signing)
    with refused(why):
        step(state, [read(state, altered)])


@pytest.mark.parametrize("reach", [0, -1.0, math.nan, math.inf, True, "1", 1e300])
def test_bad_reaches(reach: Any) -> None:
    with refused("reach is"):
        calibrate_by_sums({}, reach=reach)


def test_a_reach_does_not_go_with_a_grid() -> None:
    with refused("it does not go with a grid", param="reach"):
        calibrate_by_sums({}, reach=1, epsilon=1, grid=[0.5, math.inf])


def test_noise_gives_no_certificate_for_two_ends() -> None:
    """One threshold at alpha would be the upper end alone, and intervals without a lower end."""
    scores = np.linspace(-1, 1, 5000)
    why = "site 'a' has scores of signed, whose intervals need a threshold at each end"
    with refused(why):
        release_threshold([fc.Summary.of_scores(scores, kind="exact", score=fc.Signed(), site="a")], epsilon=5)
    with refused(why):
        calibrate_locally([noisy_histogram(scores, epsilon=5, site="a", provenance=Provenance(score=fc.Signed()))])
