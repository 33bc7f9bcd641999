"""Predictors that promise every class by itself: sets, p-values, files, verification, the page."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.report import report_page
from tests.contracts.tools import refused, score_examples, strata_examples

pytestmark = pytest.mark.filterwarnings(
    "ignore::fedconformal.errors.ClassCountsWarning", "ignore::fedconformal.errors.InfeasibleWarning"
)

CLASSES = 4
SITES = ("a", "b", "c")


def rows(seed: int, count: int = 150) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet(np.ones(CLASSES), count)
    labels = np.array([rng.choice(CLASSES - 1, p=p[:-1] / p[:-1].sum()) for p in probs])  # the last is never seen
    return probs, labels


def sites(score: fc.Score, kind: str = "ranks") -> list[fc.Summary]:
    found = []
    for seed, site in enumerate(SITES):
        probs, labels = rows(seed)
        scores = score.evaluate(probs, labels)
        found.append(fc.Summary.of_scores(scores, kind=kind, labels=labels, score=score, site=site, alpha=0.1))
    return found


def made(score: fc.Score, guarantee: fc.Guarantee, kind: str = "ranks") -> fc.Predictor:
    return fc.calibrate(sites(score, kind), alpha=0.2, guarantee=fc.ByClass(guarantee), exact=True)


TEST_PROBS, TEST_LABELS = rows(9, 80)
EXAMPLES = strata_examples()


@pytest.mark.parametrize("guarantee", EXAMPLES, ids=repr)
def test_sets_p_values_and_files_agree(guarantee: fc.Guarantee) -> None:
    predictor = made(fc.RAPS(), guarantee)
    p = predictor.predict_p(TEST_PROBS)
    scores = fc.RAPS().evaluate_all(TEST_PROBS)
    for alpha in (0.05, 0.2, 0.5):
        limits = predictor.threshold_at(alpha)
        assert isinstance(limits, np.ndarray)
        sets = predictor.predict_set(TEST_PROBS, alpha=alpha, allow_empty=True)
        assert np.array_equal(sets[:, : len(limits)], scores[:, : len(limits)] <= limits)
        assert sets[:, len(limits) :].all()  # the class that nobody has seen
        assert np.array_equal(p > alpha, sets)
    again = fc.Predictor.from_bytes(predictor.to_bytes())
    assert again.to_bytes() == predictor.to_bytes()
    assert repr(again) == repr(predictor)
    assert np.array_equal(again.predict_set(TEST_PROBS), predictor.predict_set(TEST_PROBS))
    assert fc.verify(again, sites(fc.RAPS())[::-1]) == []


def test_the_theorem_of_the_paper_is_refused() -> None:
    given = sites(fc.LAC())
    with refused("fcp has no thresholds for classes or groups"):
        fc.calibrate(given, alpha=0.2, guarantee=fc.ByClass(fc.FCP()))


@pytest.mark.parametrize("score", score_examples(), ids=str)
def test_every_score(score: fc.Score) -> None:
    predictor = made(score, fc.Mixture(), kind="exact")
    sets = predictor.predict_set(TEST_PROBS, alpha=[0.1, 0.3])
    assert sets.shape == (*TEST_PROBS.shape, 2)
    assert (sets[..., 1] <= sets[..., 0]).all()


def test_each_class_alone_gives_the_same_threshold() -> None:
    limits = made(fc.LAC(), fc.OneSite(site="b"), kind="exact").certificate.limit
    assert isinstance(limits, np.ndarray)
    probs, labels = rows(1)
    for label, limit in enumerate(limits.tolist()):
        alone = fc.Summary.of_scores(fc.LAC().evaluate(probs, labels)[labels == label], kind="exact", site="b")
        assert limit == fc.calibrate([alone], alpha=0.2, guarantee=fc.OneSite(site="b"), exact=True).threshold


def test_the_certificate_lists_the_classes() -> None:
    about = made(fc.LAC(), fc.Mixture()).certificate
    assert about.status == "certified"
    assert [record.class_index for record in about.promises] == [0, 1, 2]
    assert sum(record.scores for record in about.promises) == about.scores == 450
    assert about.thresholds == {str(record.class_index): record.threshold for record in about.promises}
    assert about.threshold == max(about.thresholds.values())
    for record in about.promises:
        assert record.rank is not None
        assert record.rank_out_of == record.scores  # (m - 1) / N_c
        assert record.coverage_at_least >= 0.8
    assert "given the true label, whichever it is" in about.sentence()
    assert fc.calibrate(sites(fc.LAC()), alpha=0.1).certificate.by is None
    assert made(fc.LAC(), fc.Mixture(), "tdigest").certificate.coverage_at_least == 0


def test_estimates_stay_estimates() -> None:
    predictor = made(fc.LAC(), fc.Mixture(), kind="tdigest")
    assert predictor.certificate.status == "estimated"
    assert all(record.coverage_at_least == 0 for record in predictor.certificate.promises)


@pytest.mark.parametrize("field", ["promises", "guarantee", "statement"])
def test_a_changed_certificate_is_noticed(field: str) -> None:
    content = json.loads(made(fc.LAC(), fc.Mixture()).to_bytes())
    other = json.loads(made(fc.LAC(), fc.PAC(), "exact").to_bytes())
    content["certificate"][field] = other["certificate"][field]
    with pytest.raises(fc.InputError, match="altered"):
        fc.Predictor.from_bytes(json.dumps(content).encode())


def test_another_guarantee_is_not_confirmed() -> None:
    problems = fc.verify(made(fc.LAC(), fc.Mixture()), sites(fc.LAC(), "exact"))
    assert problems
    found = made(fc.LAC(), fc.Mixture())
    plain = fc.calibrate(sites(fc.LAC()), alpha=0.2)
    assert fc.verify(plain, sites(fc.LAC())) == []
    assert found.certificate.guarantee["name"] == "by-class"


@pytest.mark.parametrize("guarantee", EXAMPLES, ids=repr)
def test_a_class_between_that_nobody_has(guarantee: fc.Guarantee) -> None:
    gap = [
        fc.Summary.of_scores(np.linspace(0, 1, 60), labels=np.repeat([0, 2], 30), site=site, score=fc.LAC())
        for site in SITES
    ]
    predictor = fc.calibrate(gap, alpha=0.2, guarantee=fc.ByClass(guarantee))
    limits = predictor.certificate.limit
    assert isinstance(limits, np.ndarray)
    assert limits[1] == np.inf
    assert predictor.predict_set([[0.9, 0.0, 0.1]])[0, 1]
    assert fc.verify(predictor, gap) == []


def test_pooled_sites_serve_equal_weights_only() -> None:
    pooled = [fc.pool(sites(fc.LAC())[:2]), sites(fc.LAC())[2]]
    apart = fc.calibrate(sites(fc.LAC()), alpha=0.2, guarantee=fc.ByClass()).certificate.limit
    together = fc.calibrate(pooled, alpha=0.2, guarantee=fc.ByClass()).certificate.limit
    assert np.array_equal(apart, together)
    with refused("came pooled", "mixture"):
        fc.calibrate(pooled, alpha=0.2, guarantee=fc.ByClass(fc.Mixture(weights="uniform")))


def test_summaries_without_classes_are_refused() -> None:
    with refused("by_class=True"):
        fc.calibrate([fc.Summary.of_scores([0.1, 0.2])], guarantee=fc.ByClass())


@pytest.mark.filterwarnings("default::fedconformal.errors.InfeasibleWarning")
def test_classes_with_too_few_scores_are_named() -> None:
    few = fc.Summary.of_scores([0.1] * 8 + [0.2], labels=[0] * 7 + [1] * 2, score=fc.LAC())
    with pytest.warns(fc.InfeasibleWarning, match=r"to the classes 0, 1, which are in every set; class 0: .* 17 more"):
        result = fc.calibrate([few], alpha=0.04, guarantee=fc.ByClass())
    predictor = result
    with pytest.warns(fc.InfeasibleWarning, match="17 more in all"):
        assert predictor.predict_set([[0.9, 0.1]]).all()


def test_the_classifier_does_it_too() -> None:
    given = {site: rows(seed) for seed, site in enumerate(SITES)}
    classifier = fc.FederatedConformalClassifier(
        score=fc.RAPS(), alpha=0.2, guarantee=fc.ByClass(), kind="ranks"
    ).calibrate(given)
    direct = fc.calibrate(sites(fc.RAPS()), alpha=0.2, guarantee=fc.ByClass()).certificate.limit
    # It rounds probabilities to float32, and knows of a class that nobody has seen.
    assert classifier.threshold_ == pytest.approx([*np.asarray(direct), np.inf], rel=1e-6)
    evaluation = classifier.evaluate(TEST_PROBS, TEST_LABELS)
    assert all(group.coverage > 0.6 for group in evaluation.by_class)


def test_the_page_shows_the_classes() -> None:
    predictor = made(fc.LAC(), fc.Mixture())
    page = report_page(predictor, predictor.evaluate(TEST_PROBS, TEST_LABELS))
    assert "Coverage by class" in page
    assert "Every class by itself" in page
    assert "mixture by class" in page


def test_too_few_columns_are_refused() -> None:
    predictor = made(fc.LAC(), fc.Mixture())
    with refused("2 classes"):
        predictor.predict_set([[0.5, 0.5]])
    with refused("2 classes"):
        predictor.predict_p([[0.5, 0.5]])


def test_very_many_classes_are_absent() -> None:
    gap = [fc.Summary.of_scores(np.linspace(0, 1, 30), labels=[4000] * 30, site=site, score=fc.LAC()) for site in SITES]
    found = fc.calibrate(gap, alpha=0.2, guarantee=fc.ByClass(fc.EverySite()))
    records = found.certificate.promises
    assert [record.class_index for record in records] == list(range(4001))
    assert {record.threshold for record in records[:-1]} == {"inf"}
    assert records[-1].limit < 1


@pytest.mark.parametrize("last", [2**20 - 1, 4200])
def test_a_short_message_does_not_become_a_long_certificate(last: int) -> None:
    """90 bytes that name a class near 2^20 became a certificate of 214 MB."""
    site = fc.Summary.of_scores([0.5], kind="exact", labels=[last], score=fc.LAC())
    assert len(site.to_bytes()) < 100
    tracemalloc.start()
    with refused(f"names class {last}, and only 1 classes have scores; number the classes from 0"):
        fc.calibrate([fc.Summary.from_bytes(site.to_bytes())], guarantee=fc.ByClass())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**20


def test_classes_that_are_stated_are_all_there() -> None:
    site = fc.Summary.of_scores([0.5] * 30, kind="exact", labels=[0] * 30, score=fc.LAC(), classes=3)
    certificate = fc.calibrate([site], alpha=0.2, guarantee=fc.ByClass()).certificate
    assert [one.threshold for one in certificate.promises] == [0.5, "inf", "inf"]
    other = fc.Summary.of_scores([0.5] * 30, kind="exact", labels=[3] * 30, score=fc.LAC(), classes=3)
    with refused("has scores of class 3, and there are 3 classes"):
        fc.calibrate([other], alpha=0.2, guarantee=fc.ByClass())
