"""Each guarantee against its formula, written out a second time."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedconformal as fc
from fedconformal._base.arrays import Floats
from fedconformal.guarantees.planning import feasible
from fedconformal.privacy.sums.wanted import weighted_sum
from tests.contracts.tools import alphas, checks, maybe_infeasible, refused, vectors

sites_of_scores = st.lists(vectors(20), min_size=1, max_size=5)


def made(scores: list[Floats], kind: str = "exact") -> list[fc.Summary]:
    return [fc.summarize(part, kind=kind, site=f"s{k}") for k, part in enumerate(scores)]


def at_rank(scores: list[float], rank: int) -> float:
    return sorted(scores)[rank - 1] if rank <= len(scores) else math.inf


def calibrated(scores: list[Floats], alpha: Fraction, guarantee: fc.Guarantee | None = None) -> fc.Calibration:
    with maybe_infeasible():
        return fc.calibrate(made(scores), alpha=alpha, guarantee=guarantee)


def split_conformal(scores: Floats, alpha: Fraction) -> float:
    return at_rank(scores.tolist(), math.ceil((1 - alpha) * (len(scores) + 1)))


@given(sites_of_scores, alphas)
@checks(80)
def test_the_proportional_mixture(scores: list[Floats], alpha: Fraction) -> None:
    result = calibrated(scores, alpha)
    N, K = sum(map(len, scores)), len(scores)
    rank = math.ceil((1 - alpha) * (N + K))
    assert result.threshold == at_rank(np.concatenate(scores).tolist(), rank)
    about = result.certificate
    assert (about.rank, about.rank_out_of, about.clients, about.scores) == (rank, N + K, K, N)
    if result.threshold < math.inf:
        assert about.coverage_at_least == float(Fraction(rank, N + K))
        assert about.coverage_at_most == float(min(Fraction(1), Fraction(rank + K - 1, N + K)))
    assert feasible(fc.Mixture(), alpha, [len(part) for part in scores]) == (alpha >= 1 / (Fraction(N, K) + 1))


@given(sites_of_scores, alphas)
@checks(80)
def test_the_exchangeable_rank(scores: list[Floats], alpha: Fraction) -> None:
    result = calibrated(scores, alpha, fc.Exchangeable())
    N = sum(map(len, scores))
    rank = math.ceil((1 - alpha) * (N + 1))
    assert result.threshold == at_rank(np.concatenate(scores).tolist(), rank)
    assert (result.certificate.rank, result.certificate.rank_out_of) == (rank, N + 1)
    if result.threshold < math.inf:
        band = 1 - alpha, 1 - alpha + Fraction(1, N + 1)
        assert band[0] <= Fraction(result.certificate.target) <= band[1]
        assert result.certificate.coverage_at_most == result.certificate.coverage_at_least


@given(sites_of_scores, alphas, st.data())
@checks(80)
def test_one_client_is_split_conformal(scores: list[Floats], alpha: Fraction, data: st.DataObject) -> None:
    k = data.draw(st.integers(0, len(scores) - 1))
    expected = split_conformal(scores[k], alpha)
    assert calibrated(scores, alpha, fc.OneClient(client=k)).threshold == expected
    assert calibrated(scores, alpha, fc.OneClient(client=f"s{k}")).threshold == expected


@given(sites_of_scores, alphas)
@checks(80)
def test_every_client_is_the_largest_of_the_sites_own(scores: list[Floats], alpha: Fraction) -> None:
    found = calibrated(scores, alpha, fc.EveryClient())
    assert found.threshold == max(split_conformal(part, alpha) for part in scores)
    assert found.certificate.coverage_at_most == 1.0


@given(sites_of_scores, alphas, st.data())
@checks(80)
def test_a_mixture_with_known_weights(scores: list[Floats], alpha: Fraction, data: st.DataObject) -> None:
    parts = data.draw(st.lists(st.integers(0, 8), min_size=len(scores), max_size=len(scores)).filter(any))
    weights = [part / sum(parts) for part in parts]
    shares = [Fraction(repr(weight)) / sum(Fraction(repr(w)) for w in weights) for weight in weights]
    enough = [
        q
        for q in np.concatenate(scores).tolist()
        if sum(
            share * Fraction(int(np.count_nonzero(part <= q)), len(part) + 1)
            for share, part in zip(shares, scores, strict=True)
        )
        >= 1 - alpha
    ]
    result = calibrated(scores, alpha, fc.Mixture(weights=tuple(weights)))
    assert result.threshold == min(enough, default=math.inf)
    assert (result.certificate.rank, result.certificate.rank_out_of) == (None, None)
    assert result.certificate.target == str(1 - alpha)
    if enough:
        wide = 1 - alpha + sum(share / (len(part) + 1) for share, part in zip(shares, scores, strict=True))
        assert result.certificate.coverage_at_most == float(min(Fraction(1), wide))


@given(sites_of_scores, alphas)
@checks(40)
def test_the_uniform_mixture_is_one_of_these(scores: list[Floats], alpha: Fraction) -> None:
    K = len(scores)
    if K in (1, 2, 4):  # 1/K is exact in decimal
        given_ = calibrated(scores, alpha, fc.Mixture(weights=(1 / K,) * K))
        assert calibrated(scores, alpha, fc.Mixture(weights="uniform")).threshold == given_.threshold


def test_a_cap_that_nobody_exceeds_changes_nothing() -> None:
    rng = np.random.default_rng(1)
    scores = [rng.normal(size=n) for n in (24, 10, 31)]
    for alpha in (Fraction(1, 10), Fraction(1, 5), Fraction(37, 100)):
        plain = calibrated(scores, alpha).threshold
        assert calibrated(scores, alpha, fc.Mixture(most_scores=31)).threshold == plain
        assert calibrated(scores, alpha, fc.Mixture(most_scores=10**400)).threshold == plain


@given(st.lists(st.integers(1, 2**32), min_size=1, max_size=5), st.integers(1, 100), alphas)
@checks(60)
def test_a_capped_mixture_is_a_weighted_sum(sizes: list[int], cap: int, alpha: Fraction) -> None:
    """So that sites may add up their scores behind masks; up to rounding, to the safe side."""
    found = weighted_sum(fc.Mixture(most_scores=cap), alpha, sizes)
    counted = [min(n, cap) + 1 for n in sizes]
    exact = [Fraction(c, n + 1) for c, n in zip(counted, sizes, strict=True)]
    for weight, other in zip(found.weights, exact, strict=True):
        assert Fraction(weight, found.target) <= other / ((1 - alpha) * sum(counted))


@pytest.mark.parametrize("cap", [0, -1, 1.5, True, "9"])
def test_bad_caps_are_refused(cap: Any) -> None:
    with refused("most_scores is", "whole number"):
        fc.Mixture(most_scores=cap)


@pytest.mark.parametrize("weights", ["uniform", (0.5, 0.5), np.array([0.5, 0.5])], ids=repr)
def test_a_cap_goes_with_proportions(weights: Any) -> None:
    with refused("most_scores goes with weights 'proportional'"):
        fc.Mixture(weights=weights, most_scores=9)


def test_equal_sites_make_the_uniform_and_the_proportional_mixture_the_same() -> None:
    rng = np.random.default_rng(0)
    scores = list(rng.normal(size=(4, 24)))
    for alpha in (Fraction(1, 10), Fraction(1, 5), Fraction(37, 100)):
        uniform = calibrated(scores, alpha, fc.Mixture(weights="uniform"))
        assert uniform.threshold == calibrated(scores, alpha).threshold


@pytest.mark.parametrize(
    ("guarantee", "words"),
    [
        (
            fc.Mixture(),
            "so every label is in every set; calibration scores needed: 10 more in all, at any site",
        ),
        (fc.Exchangeable(), "calibration scores needed: 1 more in all, at any site"),
        (fc.OneClient(client="b"), "calibration scores needed: 7 more at site 'b'"),
        (fc.OneClient(client=0), "calibration scores needed: 3 more at site 'a'"),
        (fc.EveryClient(), "calibration scores needed: 3 more at site 'a', 7 more at site 'b'"),
        (fc.Mixture(weights=(0.0, 1.0)), "calibration scores needed: 7 more at site 'b'"),
        (fc.Mixture(weights="uniform"), "calibration scores needed: 3 more at site 'a', 7 more at site 'b'"),
    ],
    ids=repr,
)
def test_the_warning_says_how_many_more_and_where(guarantee: fc.Guarantee, words: str) -> None:
    a, b = fc.summarize(range(6), kind="exact", site="a"), fc.summarize([0.5, 1.5], kind="exact", site="b")
    with pytest.warns(fc.InfeasibleWarning) as caught:
        fc.calibrate([a, b], alpha=0.1, guarantee=guarantee)
    (warning,) = caught
    assert str(warning.message).startswith("alpha=0.1 ")
    assert str(warning.message).endswith(words)
    assert warning.filename == __file__  # it points at the caller


def test_sites_without_names_are_numbered() -> None:
    sites = [fc.summarize([0.5], kind="exact"), fc.summarize(range(30), kind="exact")]
    with pytest.warns(fc.InfeasibleWarning, match="8 more at site '#1'$"):
        fc.calibrate(sites, alpha=0.1, guarantee=fc.EveryClient())


def test_a_long_list_of_sites_is_cut_short() -> None:
    sites = [fc.summarize([0.5], kind="exact") for _ in range(9)]
    with pytest.warns(fc.InfeasibleWarning, match="8 more at site '#5', and likewise at 4 more sites$"):
        fc.calibrate(sites, alpha=0.1, guarantee=fc.EveryClient())


def test_a_numbered_site_is_not_confused_with_a_named_one() -> None:
    sites = [fc.summarize([0.1] * 9, site="#2"), fc.summarize([0.2] * 9)]
    with pytest.raises(fc.InputError, match="some have none"):
        fc.calibrate(sites, alpha=0.5, guarantee=fc.OneClient(client="#2"))


@pytest.mark.parametrize(
    ("guarantee", "message"),
    [
        (fc.OneClient(client="z"), "no site is called 'z'; there are a, b"),
        (fc.OneClient(client=2), "client is 2, expected a site's name or a position from 0 to 1"),
        (fc.OneClient(client=-1), "client is -1"),
        (fc.Mixture(weights=(1.0,)), "weights: 1 were given for 2 sites"),
        (fc.Mixture(weights=(0.5, 0.25, 0.25)), "weights: 3 were given for 2 sites"),
    ],
    ids=repr,
)
def test_a_guarantee_that_does_not_fit_the_sites(guarantee: fc.Guarantee, message: str) -> None:
    sites = [fc.summarize([0.5], site="a"), fc.summarize([0.5], site="b")]
    with pytest.raises(fc.InputError) as caught:
        fc.calibrate(sites, guarantee=guarantee)
    assert message in str(caught.value)


@pytest.mark.parametrize("client", [None, True, 1.5, ["a"], b"a"])
def test_a_client_is_a_name_or_a_position(client: object) -> None:
    with pytest.raises(fc.InputError, match="expected a site's name or its position"):
        fc.OneClient(client=client)  # type: ignore[arg-type]


def test_slack_of_the_summaries_is_in_the_band() -> None:
    rng = np.random.default_rng(3)
    scores = [rng.normal(size=1000), rng.normal(size=400)]
    rough = made(scores, kind="ranks")
    gaps = [summary.gap for summary in rough]
    N, K = 1400, 2
    for guarantee, slack in (
        (fc.Mixture(), Fraction(sum(gaps), N + K)),
        (fc.Exchangeable(), Fraction(sum(gaps), N + 1)),
        (fc.OneClient(client=1), Fraction(gaps[1], 401)),
        (
            fc.Mixture(weights=(0.25, 0.75)),
            Fraction(1, 4) * Fraction(gaps[0], 1001) + Fraction(3, 4) * Fraction(gaps[1], 401),
        ),
        (fc.EveryClient(), max(Fraction(gaps[0], 1001), Fraction(gaps[1], 401))),
    ):
        exact, sent = (fc.calibrate(sites, alpha=0.1, guarantee=guarantee) for sites in (made(scores), rough))
        assert sent.threshold >= exact.threshold
        assert sent.certificate.slack == float(slack) > 0
        assert sent.certificate.target == exact.certificate.target
        assert sent.certificate.coverage_at_least == exact.certificate.coverage_at_least
        if not isinstance(guarantee, fc.EveryClient):
            assert sent.certificate.coverage_at_most == pytest.approx(exact.certificate.coverage_at_most + float(slack))
