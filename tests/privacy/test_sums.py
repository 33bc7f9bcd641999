"""A sums session: the plain threshold rounded up, and nothing but noise on the way."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import fedconformal as fc
from fedconformal._base.arrays import Floats, keys_of
from fedconformal.privacy import calibrate_privately
from fedconformal.privacy.sums import masks
from fedconformal.privacy.sums import site as at_site
from fedconformal.privacy.sums.coordinator import invite
from fedconformal.privacy.sums.driver import InMemory, certify_session, run_session
from fedconformal.privacy.sums.messages import Answer, unpack
from fedconformal.privacy.sums.radix import Rounds, Search, edges
from fedconformal.privacy.sums.state import CoordinatorState, decode_state, encode_state
from fedconformal.summaries import Provenance
from tests.contracts.tools import alphas, checks, maybe_infeasible, refused, vectors
from tests.privacy.sums_play import SCORES, calibrate_by_sums, opened, rounded


@pytest.mark.usefixtures("to_the_last_cell")
@pytest.mark.parametrize("guarantee", [fc.Mixture(), fc.FCP(), fc.PAC(failure=0.1)], ids=repr)
@given(st.lists(vectors(6), min_size=3, max_size=4), alphas)
@checks(25)
def test_sums_and_summaries_agree(guarantee: fc.Guarantee, scores: list[Floats], alpha: Fraction) -> None:
    sites = [fc.Summary.of_scores(s, kind="exact", site=f"site-{k}") for k, s in enumerate(scores)]
    with maybe_infeasible():
        expected = fc.calibrate(sites, alpha=alpha, guarantee=guarantee, exact=True)
        found = calibrate_privately(sites, mode="sums", alpha=alpha, guarantee=guarantee)
    assert found.threshold == rounded(float(expected.threshold))
    (ours,), (theirs,) = found.certificate.promises, expected.certificate.promises
    assert (ours.rank, ours.rank_out_of) == (theirs.rank, theirs.rank_out_of)
    for field in ("coverage_at_least", "target", "status"):
        assert getattr(found.certificate, field) == getattr(expected.certificate, field)


@pytest.mark.parametrize(
    "guarantee", [fc.EverySite(), fc.OneSite(site=0), fc.Robust(liars=1), fc.ByClass(fc.Mixture())], ids=repr
)
def test_guarantees_that_need_more_are_refused(guarantee: fc.Guarantee) -> None:
    with refused(param="guarantee"):
        calibrate_by_sums(SCORES, guarantee=guarantee)
    with refused("a sum needs at least 3"):
        calibrate_by_sums({"a": [0.1], "b": [0.2]})


def test_a_state_is_read_strictly() -> None:
    _, _, sites = opened()
    data = encode_state(sites["a"])
    assert decode_state(data) == sites["a"]
    for bad in (b"", data[:-1], data + b"x"):
        with refused("this is not a state of a sums session"):
            decode_state(bad)


def test_a_predictor_comes_out() -> None:
    found = calibrate_by_sums(SCORES, provenance=Provenance(score=fc.LAC()))
    predictor = fc.Predictor.from_bytes(found.to_bytes())
    assert predictor.certificate.limit == found.threshold
    assert "no site's own counts were seen" in predictor.certificate.statement.caveat
    assert predictor.predict_set([[0.7, 0.2, 0.1]]).shape == (1, 3)
    with pytest.warns(
        fc.InfeasibleWarning, match="every label is in every set; calibration scores needed: 97 more in all"
    ):
        infinite = calibrate_by_sums({name: [0.5] for name in "abc"}, alpha=0.01)
    assert infinite.certificate.threshold == float("inf")
    assert infinite.curve.threshold(Fraction(1, 100)) == math.inf


def test_masked_counts_are_uniform_bytes() -> None:
    """Three sites that hold the same few scores, many sessions: every byte value is equally common."""
    seen = []
    for _ in range(60):
        state, question, sites = opened({name: np.full(5, 0.5) for name in "abc"})
        for site in sites.values():
            message = unpack(at_site.answer(site, question)[1], Answer, state.session.signing)
            seen.append(np.frombuffer(message.counts, dtype=np.uint8))
    observed = np.bincount(np.concatenate(seen), minlength=256)
    assert stats.chisquare(observed).pvalue > 1e-6
    # The same test sees counts that are not masked.
    assert stats.chisquare(observed + np.bincount(np.zeros(200, dtype=np.int64), minlength=256)).pvalue < 1e-6


def test_neighbours_are_mutual_and_at_random() -> None:
    def circle(count: int, secret: bytes) -> list[list[int]]:
        order, places = masks.circle_of(tuple(f"s{k}" for k in range(count)), secret)
        return [masks.near(order, place) for place in places]

    for count in (3, 4, 7, 100, 101, 102, 103, 250):
        found = circle(count, b"x")
        for k, near in enumerate(found):
            assert len(set(near)) == len(near) == min(count - 1, 100) or count == 102
            assert k not in near
            assert all(k in found[j] for j in near)
        if count > 103:
            assert found != circle(count, b"y")


@pytest.mark.parametrize("dtype", ["<u4", "<u8"])
def test_masks_are_added_word_by_word(dtype: str) -> None:
    keys, words = [bytes([k]) * 32 for k in range(5)], np.dtype(dtype)
    apart = [masks.masks_of([key], 37, words) for key in keys]
    assert np.array_equal(masks.masks_of(keys, 37, words), np.sum(apart, axis=0, dtype=words))
    assert np.array_equal(masks.masks_of([], 37, words), np.zeros(37, dtype=words))


@pytest.mark.parametrize("guarantee", [fc.NewSite(), fc.Mixture(weights="uniform")], ids=repr)
def test_weighted_sums_can_be_taken_apart_and_are_refused(guarantee: fc.Guarantee) -> None:
    """Weights 1/n_k as whole numbers: modulo n_k only the counts of site k are left, as all others are multiples."""
    sizes = (101, 103, 107, 109)
    scores = {f"site-{n}": np.random.default_rng(n).random(n) for n in sizes}
    rounds = Rounds(edges(), target=1, rows=sum(sizes))
    own = [rounds.histogram(Search(), keys_of(part)).astype(object) for part in scores.values()]
    weights = [math.prod(sizes) // n for n in sizes]
    total = sum(weight * histogram for weight, histogram in zip(weights, own, strict=True))
    for n, weight, histogram in zip(sizes, weights, own, strict=True):
        assert np.array_equal(total * pow(weight, -1, n) % n, histogram)
    with refused(param="guarantee"):
        calibrate_by_sums(scores, alpha=0.3, guarantee=guarantee)


NAMED = ("benign", "malignant")


def session(*provenances: Provenance, alpha: float = 0.3) -> CoordinatorState:
    sites = [
        at_site.new_site(f"site-{k}", np.random.default_rng(k).random(40), provenance)
        for k, provenance in enumerate(provenances)
    ]
    return run_session(lambda: invite(fc.Mixture(), alpha), InMemory(sites))


def test_a_predictor_from_sums_knows_its_classes_and_its_calibration() -> None:
    purpose: dict[str, Any] = {"calibration": "spring", "alpha": "0.3", "expires": "2999-01-01"}
    named = Provenance(score=fc.LAC(), classes=NAMED, precision="float32", **purpose)
    state = session(Provenance(score=fc.LAC(), classes=2, precision="float32", **purpose), named, named)
    predictor = certify_session(state)
    found = predictor.certificate.provenance
    assert found.class_names == list(NAMED)
    assert (found.calibration, found.expires, found.precision) == ("spring", "2999-01-01", "float32")
    with refused("3 columns"):
        predictor.predict_set([[0.2, 0.3, 0.5]])


A, B = Provenance(classes=2), Provenance(classes=3)


@pytest.mark.parametrize(
    ("provenances", "why"),
    [
        ((A, A, B), "'site-0' and site 'site-2'.*: classes 2 against"),
        ((Provenance(), A, B), "'site-1' and site 'site-2'.*: classes 2 against 3"),
        ((*[Provenance(calibration="a")] * 2, Provenance(calibration="b")), "calibration a against b"),
        ((*[Provenance(model="a")] * 2, Provenance()), "model a against None"),
        ([Provenance(calibration="a", alpha="0.1")] * 3, "site 'site-0' was .* at alpha 0.1, not at 0.3"),
        ([Provenance(calibration="a", expires="2001-01-01")] * 3, "summary of site 'site-0' expired on 2001-01-01"),
    ],
)
def test_sites_that_say_different_things_are_refused_by_name(provenances: tuple[Provenance, ...], why: str) -> None:
    with pytest.raises(fc.InputError, match=why):
        session(*provenances)


def test_estimated_scores_give_an_estimate_from_sums_too() -> None:
    certificate = certify_session(session(Provenance(), Provenance(estimated=True), Provenance())).certificate
    assert (certificate.status, certificate.coverage_at_least) == ("estimated", 0.0)
