"""Predictors for a place with another mix of classes: the formula, files, words, refusals, evaluation, commands."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedconformal as fc
from fedconformal._base.arrays import ALPHA_UNIT, Floats
from fedconformal.calibration.search import in_units
from fedconformal.federated.questions import ScoreQuestion
from fedconformal.report import report_page
from fedconformal.summaries.strata import StratifiedSummary
from tests.contracts.tools import (
    alphas,
    altered,
    changed,
    checks,
    coverage_at,
    maybe_infeasible,
    one_curve,
    refused,
    vectors,
)
from tests.evaluation.certified import said
from tests.guarantees.plain_fractions import corners, of_mixtures

pytestmark = pytest.mark.filterwarnings("ignore::fedconformal.errors.ClassCountsWarning")

FIRST, SECOND = [0.1, 0.2, 0.4, 0.7], [0.05, 0.15, 0.25, 0.35, 0.45, 0.55, 0.65, 0.75, 0.85]
NAMES = ("benign", "malignant")
ALPHA = Fraction(28, 100)
SHARES: dict[str, Any] = {"benign": 0.3, "malignant": 0.7}
EXAMPLES = list(fc.Prevalence.examples())


def sites(parts: int = 2, kind: str = "exact", **about: Any) -> list[fc.Summary]:
    """Deal the rows of the two classes to some sites, one by one."""
    scores, labels = np.array(FIRST + SECOND), np.repeat([0, 1], [len(FIRST), len(SECOND)])
    about = {"score": fc.LAC(), "classes": NAMES, **about}
    return [
        fc.Summary.of_scores(scores[k::parts], kind=kind, labels=labels[k::parts], site="abc"[k], **about)
        for k in range(parts)
    ]


def calibrated(guarantee: fc.Guarantee, alpha: Any = ALPHA) -> fc.Predictor:
    return fc.calibrate(sites(), alpha=alpha, guarantee=guarantee, exact=True)


def test_the_figures_of_the_derivation() -> None:
    """0.3 * 4/4 + 0.7 * 7/9 - 0.7/9 = 23/30; the box has 251/360 there, too little. Without the price it were 0.65."""
    known = calibrated(fc.Prevalence(SHARES))
    assert known.threshold == 0.7
    assert coverage_at(one_curve(known), 0.7) == Fraction(in_units(Fraction(23, 30)), ALPHA_UNIT)
    assert known.certificate.coverage_at_least == 0.72
    assert known.certificate.coverage_at_most == pytest.approx(0.72 + 2 * 0.7 / 9)
    box = calibrated(fc.Prevalence({"benign": (0.2, 0.5)}))
    assert (box.threshold, box.certificate.coverage_at_most) == (0.75, 1.0)
    assert calibrated(fc.Prevalence()).threshold == 0.75
    assert known.certificate.provenance.class_scores == [4, 9]
    assert known.certificate.promises[0].rank is None


def test_the_slack_is_the_share_of_scores_that_summaries_leave_out() -> None:
    """A summary of ranks bounds the counts; in classes of equal weight, the sum of the gaps is the slack."""
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1], 600)
    site = fc.Summary.of_scores(rng.random(1200), labels=labels, score=fc.LAC(), classes=NAMES, site="a")
    promise = fc.calibrate([site], alpha=0.1, guarantee=fc.Prevalence(SHARES)).certificate.promises[0]
    assert isinstance(site, StratifiedSummary)
    gaps = [part.gap for part in site.groups[None].values()]
    assert promise.slack == pytest.approx(0.3 * gaps[0] / 600 + 0.7 * gaps[1] / 600)
    assert promise.slack > 0


def test_one_share_and_bounds_beside() -> None:
    guarantee = fc.Prevalence({0: 0.5, 1: (0.1, 0.2)})
    assert guarantee.bind((), [9, 9, 9]) == fc.WorstCase(box=((0.5, 0.1, 0.0), (0.5, 0.2, 1.0)))


def plainly_promised(shares: Any, counts: list[int], sizes: list[int]) -> Fraction:
    """Write the formula out a second time: the least over the corners of the box, in fractions."""
    if shares is None:
        return min(Fraction(m, n + 1) for m, n in zip(counts, sizes, strict=True))
    known = not any(isinstance(share, tuple) for _, share in shares)
    bounds = [dict(shares).get(name, 0.0 if known else (0.0, 1.0)) for name in "abc"]
    pairs = [one if isinstance(one, tuple) else (one, one) for one in bounds]
    lower, upper = ([Fraction(str(end)) for end in ends] for ends in zip(*pairs, strict=True))
    return of_mixtures(corners(lower, upper), counts, sizes)


@pytest.mark.parametrize("guarantee", EXAMPLES, ids=repr)
@given(st.lists(vectors(12), min_size=3, max_size=3), alphas, st.integers(0, 99))
@checks(40)
def test_the_threshold_is_the_smallest_that_promises_enough(
    guarantee: fc.Prevalence, scores: list[Floats], alpha: Fraction, seed: int
) -> None:
    sizes = [len(part) for part in scores]
    values, labels = np.concatenate(scores), np.repeat([0, 1, 2], sizes)
    place = np.random.default_rng(seed).integers(0, 3, len(values))
    kinds = ("exact", "ranks", "exact")  # of as few scores, both are exact
    made = [
        fc.Summary.of_scores(
            values[place == k], kind=kinds[k], labels=labels[place == k], site="xyz"[k], classes=list("abc")
        )
        for k in np.unique(place)
    ]
    enough = [
        q
        for q in np.unique(values).tolist()
        if plainly_promised(guarantee.shares, [int(np.count_nonzero(part <= q)) for part in scores], sizes) >= 1 - alpha
    ]
    with maybe_infeasible():
        result = fc.calibrate(made, alpha=alpha, guarantee=guarantee, exact=True)
    assert result.threshold == min(enough, default=np.inf)
    assert result.curve.threshold(alpha) == result.threshold


@pytest.mark.parametrize(("shares", "alpha"), [(None, 0.28), (SHARES, 0.01), ({"malignant": (0.5, 0.6)}, 0.28)])
def test_files_sets_and_verification(shares: Any, alpha: float) -> None:
    made = sites()
    with maybe_infeasible():
        predictor = fc.calibrate(made, alpha=alpha, guarantee=fc.Prevalence(shares), exact=True)
        again = fc.Predictor.from_bytes(predictor.to_bytes())
        probs = np.array([[0.9, 0.1], [0.35, 0.65]])
        assert again.to_bytes() == predictor.to_bytes()
        sets, p = again.predict_set(probs, allow_empty=True), again.predict_p(probs)
    assert np.array_equal(sets, p > alpha)
    assert sets.all() == (alpha < 0.1)
    assert fc.verify(again, made[::-1]) == []
    assert fc.verify(again, [made[0], sites(3)[1]])
    for other in ({"class_scores": [5, 8]}, {"guarantee": fc.Prevalence({"benign": 0.4, "malignant": 0.6}).to_dict()}):
        assert fc.verify(altered(again, **other), made)


def test_pooled_sites_and_other_kinds_of_summary() -> None:
    a, b, c = sites(3)
    guarantee = fc.Prevalence(SHARES)
    pooled = fc.calibrate([fc.pool([a, b]), c], alpha=ALPHA, guarantee=guarantee, exact=True)
    assert pooled.threshold == 0.7
    assert pooled.certificate.sites == 3
    estimate = fc.calibrate(sites(kind="tdigest"), alpha=ALPHA, guarantee=guarantee, exact=True).certificate
    assert (estimate.status, estimate.coverage_at_least) == ("estimated", 0.0)


def test_a_certificate_that_does_not_fit_its_guarantee() -> None:
    about = calibrated(fc.Prevalence(SHARES)).certificate
    for fields in ({"class_scores": None}, {"guarantee": fc.Mixture().to_dict()}):
        with refused("the certificate is malformed"):
            changed(about, **fields).parties()


def test_too_few_scores_of_a_class() -> None:
    with pytest.warns(fc.InfeasibleWarning, match=r"needed: 15 more of class 'benign', 10 more of class 'malignant'"):
        result = calibrated(fc.Prevalence(), alpha=0.05)
    assert result.threshold == np.inf
    named = sites(classes=(*NAMES, "unclear"))
    with pytest.warns(fc.InfeasibleWarning, match="3 more of class 'unclear'"):
        assert fc.calibrate(named, alpha=0.3, guarantee=fc.Prevalence(), exact=True).threshold == np.inf
    guarantee = fc.Prevalence({"benign": 0.5, "malignant": 0.3, "unclear": 0.2})  # which adds nothing
    result = fc.calibrate(named, alpha=0.4, guarantee=guarantee, exact=True)
    assert (result.threshold, result.certificate.provenance.class_scores) == (0.7, [4, 9, 0])


@pytest.mark.parametrize(
    ("shares", "problem"),
    [
        ({"benign": 0.9, "malignant": 0.05}, "shares: they sum to 0.95, not 1"),
        ({"benign": 1.1, "malignant": -0.1}, "the share of class benign is 1.1, expected a number from 0 to 1"),
        ({"benign": float("nan"), "malignant": 1}, "the share of class benign is nan"),
        ({"benign": "half", "malignant": 0.5}, "the share of class benign is 'half'"),
        ({"benign": True}, "is True, expected a number"),
        ({"benign": (0.1, 0.2, 0.3)}, "expected a number or two bounds (low, high)"),
        ({"benign": [[0.1], 0.3]}, "the share of class benign is [0.1], expected a number"),  # in a hostile file
        ({"benign": np.array(["a", "b"])}, "the share of class benign is"),
        ({}, "shares: expected a share for each class"),
        (0.5, "shares: expected a share for each class"),
        ({-1: 1.0}, "shares: -1 is not the name of a class, nor its number"),
        ({"0": 0.5, 0: 0.5}, "shares: class 0 is there twice"),
    ],
    ids=repr,
)
def test_bad_shares_are_refused(shares: Any, problem: str) -> None:
    with refused(problem):
        fc.Prevalence(shares)


@pytest.mark.parametrize(
    ("shares", "problem"),
    [
        ({"benign": 0.5, "odd": 0.5}, "shares: no class is called 'odd'; there are benign, malignant"),
        ({0: 0.5, 1: 0.5}, "shares: no class is called '0'; there are benign, malignant"),
        ({"benign": (0.5, 0.2), "malignant": (0, 1)}, "a lower one must not be above its upper one"),
    ],
    ids=repr,
)
def test_shares_that_do_not_fit_the_classes_are_refused(shares: Any, problem: str) -> None:
    made = sites()
    with refused(problem):
        fc.calibrate(made, alpha=ALPHA, guarantee=fc.Prevalence(shares))


def test_numbers_are_names_where_classes_are_called_by_numbers() -> None:
    guarantee = fc.Prevalence({1: 0.25, 3: 0.75})
    assert guarantee.bind(["3", "1"], [5, 5]) == fc.Mixture(weights=(0.75, 0.25))


def test_plain_summaries_and_other_guarantees_around_it_are_refused() -> None:
    with refused(param="by_class"):
        fc.calibrate([fc.Summary.of_scores([0.1])], guarantee=fc.Prevalence(), exact=True)
    with refused("prevalence: a plan knows the sizes of sites, not of classes"):
        fc.plan(alpha=0.1, sizes=[10, 10], guarantees=[fc.Prevalence()])


def test_the_engines_ask_for_summaries_by_class() -> None:
    assert ScoreQuestion.about("m", guarantee=fc.Prevalence()).by_class
    assert not ScoreQuestion.about("m", guarantee=fc.Mixture()).by_class


RNG = np.random.default_rng(0)
RARE = RNG.choice(2, 900, p=(0.9, 0.1))
TRUTH = np.array(NAMES)[RARE]
CHANCE = np.clip(RNG.normal(np.where(RARE == 1, 0.65, 0.2), 0.2), 0, 1)
PROBS = np.stack([1 - CHANCE, CHANCE], axis=1)


def test_evaluation_weighs_the_classes_as_promised() -> None:
    """The test rows are nine to one, the promise is for three to seven."""
    clf = fc.FederatedConformalClassifier(alpha=0.1, guarantee=fc.Prevalence(SHARES), classes=NAMES)
    clf.calibrate({"a": (PROBS[:300], TRUTH[:300]), "b": (PROBS[300:600], TRUTH[300:600])})
    result = clf.predictor.evaluate(PROBS[600:], TRUTH[600:])
    benign, malignant = (group.coverage for group in result.by_class)
    assert result.reweighted is not None
    assert result.reweighted.coverage == pytest.approx(0.3 * benign + 0.7 * malignant)
    assert "provided that a class looks the same" in result.reweighted.sentence
    assert said(result).kind in ("no contradiction", "too few rows to tell")
    assert "assumes that a class looks the same here as at the sites" in said(result).words
    page = report_page(clf.predictor, result)
    assert "if the cases of a right answer look the same everywhere" in page
    assert said(clf.predictor.evaluate(PROBS[600:], np.array(NAMES[::-1])[RARE[600:]])).below


@pytest.mark.parametrize("shares", [None, {"benign": (0.5, 1.0)}], ids=repr)
def test_a_verdict_without_known_shares(shares: Any) -> None:
    clf = fc.FederatedConformalClassifier(alpha=0.2, guarantee=fc.Prevalence(shares), classes=NAMES)
    clf.calibrate({"a": (PROBS[:600], TRUTH[:600])})
    result = clf.predictor.evaluate(PROBS[600:], TRUTH[600:])
    assert result.reweighted is not None
    assert result.reweighted.why_not == "the guarantee prevalence names no single one"
    assert (said(result).kind == "no verdict") == (shares is not None)
    if shares is None:
        assert [part.name for part in said(result).parts] == ["class benign", "class malignant"]
