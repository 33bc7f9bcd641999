"""A sums session: the plain threshold, and nothing but noise on the way."""

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
from fedconformal._base.arrays import Floats
from fedconformal._base.float_bits import keys_of
from fedconformal.privacy.sums import masks
from fedconformal.privacy.sums import site as at_site
from fedconformal.privacy.sums.certificate import certified
from fedconformal.privacy.sums.coordinator import invite
from fedconformal.privacy.sums.driver import InMemory, run_session
from fedconformal.privacy.sums.messages import Answer, Reveal, unpack
from fedconformal.privacy.sums.radix import BYTES, EXACT, Rounds, Search, SumTarget
from fedconformal.privacy.sums.state import CoordinatorState, SiteState, decode_state, encode_state
from fedconformal.summaries import Provenance
from tests.contracts.tools import alphas, checks, maybe_infeasible, refused, vectors
from tests.privacy.sums_play import SCORES, SHORT, Sites, calibrate_by_sums, each, opened, played, took


@given(st.lists(vectors(6), min_size=3, max_size=4), alphas)
@checks(200)
def test_sums_and_summaries_agree(scores: list[Floats], alpha: Fraction) -> None:
    sites = {f"site-{k}": part for k, part in enumerate(scores)}
    with maybe_infeasible():
        expected = fc.calibrate(
            [fc.Summary.of_scores(s, kind="exact", site=k) for k, s in sites.items()], alpha=alpha, exact=True
        )
        found = calibrate_by_sums(sites, alpha=alpha, widths=BYTES)
    assert found.threshold == expected.threshold
    (ours,), (theirs,) = found.predictor.certificate.promises, expected.certificate.promises
    assert (ours.rank, ours.rank_out_of) == (theirs.rank, theirs.rank_out_of)
    for field in ("coverage_at_least", "coverage_at_most", "target", "status"):
        assert getattr(found.predictor.certificate, field) == getattr(expected.certificate, field)


@pytest.mark.parametrize("guarantee", [fc.FCP(), fc.PAC(failure=0.1)], ids=repr)
def test_other_guarantees(guarantee: fc.Guarantee) -> None:
    summaries = [fc.Summary.of_scores(part, kind="exact", site=name) for name, part in SCORES.items()]
    expected = fc.calibrate(summaries, alpha=0.3, guarantee=guarantee, exact=True)
    assert calibrate_by_sums(SCORES, alpha=0.3, guarantee=guarantee, widths=BYTES).threshold == expected.threshold
    short = calibrate_by_sums(SCORES, alpha=0.3, guarantee=guarantee, widths=SHORT)
    assert 0 <= short.threshold - float(expected.threshold) < 1e-6
    assert short.predictor.certificate.coverage_at_most == 1.0


def test_guarantees_that_need_more_are_refused() -> None:
    with refused("every-site needs every site's own counts"):
        calibrate_by_sums(SCORES, guarantee=fc.EverySite())
    with refused("sums of fewer than 3 hide too little"):
        calibrate_by_sums({"a": [0.1], "b": [0.2]})


def test_the_bytes_are_few() -> None:
    histograms = sum(2**width * 4 for width in EXACT)
    assert histograms == 1024
    found = calibrate_by_sums(SCORES, widths=EXACT)
    assert found.rounds == 16
    assert found.exchanges == 2 + 3 * 16
    assert found.bytes_up < 16 * histograms  # signatures, shares and reveals on top
    assert calibrate_by_sums(SCORES, widths=BYTES).threshold == found.threshold


def test_a_session_goes_on_from_its_written_states() -> None:
    """Coordinator and sites are written and read again between any two steps, also while a lost site is recovered."""

    def again(state: CoordinatorState, sites: Sites) -> tuple[CoordinatorState, Sites]:
        read = {name: decode_state(encode_state(site), SiteState) for name, site in sites.items()}
        return decode_state(encode_state(state), CoordinatorState), read

    expected = played(SCORES, lambda _n, _s: True, lambda _n, s: s != "g", widths=SHORT)
    state, question, sites = opened(SCORES, SHORT)
    outgoing = dict.fromkeys(sites, question)
    while outgoing:
        state, sites = again(state, sites)
        if state.expects is Reveal:
            sites.pop("g", None)
        moved, sent = each(sites, outgoing)
        state, outgoing = took(again(state, sites)[0], sent)
        sites |= moved
    assert state.search == expected.search
    assert state.dropped == expected.dropped == {6: "after its answer in round 1"}
    for kind, other in ((SiteState, state), (CoordinatorState, sites["a"])):
        with refused("this is not a state of a sums session"):
            decode_state(encode_state(other), kind)


def test_a_predictor_comes_out() -> None:
    found = calibrate_by_sums(SCORES, provenance=fc.Summary.of_scores([0.1], score=fc.LAC()).provenance)
    predictor = fc.Predictor.from_bytes(found.predictor.to_bytes())
    assert predictor.certificate.limit == found.threshold
    assert "no site's own counts were seen" in predictor.certificate.statement.caveat
    assert predictor.predict_set([[0.7, 0.2, 0.1]]).shape == (1, 3)
    with pytest.warns(
        fc.InfeasibleWarning, match="every label is in every set; calibration scores needed: 97 more in all"
    ):
        infinite = calibrate_by_sums({name: [0.5] for name in "abc"}, alpha=0.01)
    assert infinite.predictor.certificate.threshold == float("inf")
    assert infinite.predictor.curve.threshold(Fraction(1, 100)) == math.inf


def test_masked_counts_are_uniform_bytes() -> None:
    """Three sites that hold the same few scores, many sessions: every byte value is equally common."""
    seen = []
    for _ in range(40):
        state, question, sites = opened({name: np.full(5, 0.5) for name in "abc"}, (8, 8))
        for site in sites.values():
            message = unpack(at_site.answer(site, question)[1], Answer, state.session.signing)
            seen.append(np.frombuffer(message.counts, dtype=np.uint8))
    observed = np.bincount(np.concatenate(seen), minlength=256)
    assert stats.chisquare(observed).pvalue > 1e-6
    columns = np.stack(seen)  # and the counts are nowhere: not even where all of the scores are
    hot = columns.reshape(len(seen), -1, 4)[:, :, 0]
    assert stats.chisquare(np.bincount(hot.ravel() >> 4, minlength=16)).pvalue > 1e-6
    # The same test sees counts that are not masked.
    assert stats.chisquare(observed + np.bincount(np.zeros(2000, dtype=np.int64), minlength=256)).pvalue < 1e-6


def test_neighbours_are_mutual_and_at_random() -> None:
    for count in (3, 4, 7, 100, 101, 102, 103, 250):
        names = tuple(f"s{k}" for k in range(count))
        found = [masks.circle_of(names, b"x").near(k) for k in range(count)]
        for k, near in enumerate(found):
            assert len(set(near)) == len(near) == min(count - 1, 100) or count == 102
            assert k not in near
            assert all(k in found[j] for j in near)
        if count > 103:
            assert found != [masks.circle_of(names, b"y").near(k) for k in range(count)]


@pytest.mark.parametrize("dtype", ["<u4", "<u8"])
def test_masks_are_added_word_by_word(dtype: str) -> None:
    keys, words = [bytes([k]) * 32 for k in range(5)], np.dtype(dtype)
    apart = [masks.masks_of([key], 37, words) for key in keys]
    assert np.array_equal(masks.masks_of(keys, 37, words), np.sum(apart, axis=0, dtype=words))
    assert np.array_equal(masks.masks_of([], 37, words), np.zeros(37, dtype=words))


@pytest.mark.parametrize("guarantee", [fc.NewSite(), fc.Mixture(weights="uniform"), fc.EverySite()], ids=repr)
def test_weighted_sums_can_be_taken_apart_and_are_refused(guarantee: fc.Guarantee) -> None:
    """Weights 1/n_k as whole numbers: modulo n_k only the counts of site k are left, as all others are multiples."""
    sizes = (101, 103, 107, 109)
    scores = {f"site-{n}": np.random.default_rng(n).random(n) for n in sizes}
    rounds = Rounds((16,), SumTarget(target=1, most=sum(sizes)))
    own = [rounds.histogram(Search(), keys_of(part)).astype(object) for part in scores.values()]
    weights = [math.prod(sizes) // n for n in sizes]
    total = sum(weight * histogram for weight, histogram in zip(weights, own, strict=True))
    for n, weight, histogram in zip(sizes, weights, own, strict=True):
        assert np.array_equal(total * pow(weight, -1, n) % n, histogram)
    with refused("or weighs sites apart, and sums hide them"):
        calibrate_by_sums(scores, alpha=0.3, guarantee=guarantee)


NAMED = ("benign", "malignant")


def session(*provenances: Provenance, alpha: float = 0.3, **noise: Any) -> CoordinatorState:
    sites = [
        at_site.new_site(f"site-{k}", np.random.default_rng(k).random(40), provenance)
        for k, provenance in enumerate(provenances)
    ]
    kept = [decode_state(encode_state(one), SiteState) for one in sites]
    return run_session(lambda: invite(fc.Mixture(), alpha, BYTES, **noise), InMemory(kept))


def test_a_predictor_from_sums_knows_its_classes_and_its_calibration() -> None:
    purpose: dict[str, Any] = {"calibration": "spring", "alpha": "0.3", "expires": "2999-01-01"}
    named = Provenance(score=fc.LAC(), classes=NAMED, precision="float32", **purpose)
    state = session(Provenance(score=fc.LAC(), classes=2, precision="float32", **purpose), named, named)
    certificate = certified(decode_state(encode_state(state), CoordinatorState)).certificate
    assert certificate.class_names == list(NAMED)
    assert (certificate.provenance.calibration, certificate.provenance.expires) == ("spring", "2999-01-01")
    assert certificate.provenance.precision == "float32"
    predictor = certified(state)
    with refused("3 columns"):
        predictor.predict_set([[0.2, 0.3, 0.5]])


@pytest.mark.parametrize(
    ("provenances", "why"),
    [
        (
            (Provenance(classes=2), Provenance(classes=2), Provenance(classes=3)),
            "'site-0' and site 'site-2'.*: classes 2 against",
        ),
        (
            (Provenance(), Provenance(classes=2), Provenance(classes=3)),
            "'site-1' and site 'site-2'.*: classes 2 against 3",
        ),
        (
            (Provenance(classes=NAMED), Provenance(classes=NAMED[::-1]), Provenance()),
            "benign, malignant against malignant, benign",
        ),
        (
            (Provenance(calibration="a"), Provenance(calibration="a"), Provenance(calibration="b")),
            "calibration a against b",
        ),
        ((Provenance(model="a"), Provenance(model="a"), Provenance()), "model a against None"),
    ],
)
def test_sites_that_say_different_things_are_refused_by_name(provenances: tuple[Provenance, ...], why: str) -> None:
    with pytest.raises(fc.InputError, match=why):
        session(*provenances)


def test_a_site_joins_only_for_the_alpha_and_the_days_of_its_summary() -> None:
    with refused("site 'site-0' was summarised for a calibration at alpha 0.1, not at 0.3"):
        session(*[Provenance(calibration="a", alpha="0.1")] * 3)
    with refused("the summary of site 'site-0' expired on 2001-01-01"):
        session(*[Provenance(calibration="a", expires="2001-01-01")] * 3)


def test_what_no_theorem_covers_is_estimated_from_sums_too() -> None:
    certificate = certified(session(Provenance(), Provenance(estimated=True), Provenance())).certificate
    assert (certificate.status, certificate.coverage_at_least) == ("estimated", 0.0)
