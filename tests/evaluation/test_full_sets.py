"""Sets that hold every label: counted, with the reason and what would help."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given

import fedconformal as fc
from fedconformal._base.arrays import Floats, Integers
from fedconformal.certificates.certificate import LeftOut
from fedconformal.certificates.text import explain_uninformative as explain
from fedconformal.evaluation import evaluate_sets, full_sets
from tests.contracts.tools import changed, checks, maybe_infeasible, rows_of_probabilities, score_examples

pytestmark = pytest.mark.filterwarnings("ignore::fedconformal.errors.ClassCountsWarning")


def two_classes(rows: int = 400, seed: int = 0, errors: float = 0.2) -> tuple[Floats, Integers]:
    """Draw rows of a two-class model that is wrong in a share `errors` of them."""
    rng = np.random.default_rng(seed)
    sure = rng.uniform(0.55, 0.99, rows)
    probs = np.stack([sure, 1 - sure], axis=1)
    return probs, (rng.random(rows) < errors).astype(np.int64)


def predictor_of(
    score: fc.Score, probs: Any, labels: Any, *, alpha: float = 0.1, guarantee: Any = "mixture"
) -> fc.Predictor:
    """Calibrate at two sites."""
    by_class = isinstance(guarantee, fc.ByClass)
    summaries = [
        fc.Summary.of_scores(
            score.evaluate(probs[k::2], labels[k::2]),
            kind="exact",
            score=score,
            site=f"site-{k}",
            labels=labels[k::2] if by_class else None,
        )
        for k in range(2)
    ]
    with maybe_infeasible():
        return fc.calibrate(summaries, alpha=alpha, guarantee=guarantee)


def test_sets_are_counted() -> None:
    assert full_sets([[True, True, True], [True, True, False], [True, True, True]]) == 2
    assert full_sets(np.zeros((3, 2), dtype=bool)) == 0
    assert full_sets(np.ones((3, 1), dtype=bool)) == 0  # one label is all there is
    assert evaluate_sets(np.ones((3, 1), dtype=bool), [0, 0, 0]).full_sets == 0
    assert evaluate_sets(np.ones((3, 2), dtype=bool), [0, 0, 0]).full_sets == 3


@pytest.mark.parametrize("score", score_examples(), ids=repr)
@given(rows_of_probabilities(most_classes=12))
@checks(60)
def test_no_label_scores_more_than_the_largest(score: fc.Score, probs: Any) -> None:
    most = score.largest(probs.shape[1])
    off = np.abs(probs.sum(axis=1, dtype=np.float64) - 1).max() + probs.shape[1] * 2.0**-40
    assert score.evaluate_all(probs).max() <= (most if isinstance(score, fc.LAC) else most + off)
    assert score.predict_set(probs, most + off, allow_empty=True).all()


@pytest.mark.parametrize("score", score_examples(), ids=repr)
@pytest.mark.parametrize("classes", [2, 3, 10])
def test_some_label_scores_the_largest(score: fc.Score, classes: int) -> None:
    certain = np.eye(classes)[:1]  # its last label has no probability, and all ranks before it
    most = score.evaluate_all(certain).max()
    if isinstance(score, fc.TopK) and score.randomized:  # a share of a step is taken off there too
        assert score.largest(classes) - 1 < most <= score.largest(classes)
    else:
        assert most == score.largest(classes)


@pytest.mark.parametrize("score", [fc.APS(), fc.RAPS(penalty=0.5)])
def test_the_score_is_the_reason_on_two_classes(score: fc.Score) -> None:
    probs, labels = two_classes()
    predictor = predictor_of(score, probs, labels)
    limit = float(predictor.certificate.limit)
    assert limit < math.inf
    assert full_sets(predictor.predict_set(probs)) == len(probs)
    why = explain(predictor.certificate, classes=2) or ""
    assert why.startswith(f"no label can score more than the threshold {limit:.6g} ({score.name}, 2 labels), so every")
    assert "lac gives smaller sets" in why
    lac = predictor_of(fc.LAC(), probs, labels)
    assert lac.evaluate(probs, labels).mean_size < 2
    assert explain(lac.certificate, classes=2) is None


def test_how_close_to_the_largest_score_is_close_enough() -> None:
    aps, lac = (predictor_of(score, *two_classes()).certificate for score in (fc.APS(), fc.LAC()))
    rounded = 1 - 2.0**-40  # off by the rounding of float64
    assert "(aps, 2 labels)" in (explain(aps, rounded, classes=2) or "")
    assert explain(lac, rounded, classes=2) is None  # a label with a probability of 2^-41 is left out
    assert "(aps" not in (explain(aps, 0.999, classes=2, share=0.5) or "")


def test_the_number_of_labels_is_taken_from_the_certificate() -> None:
    certificate = predictor_of(fc.APS(), *two_classes()).certificate
    assert explain(changed(certificate, class_names=None)) is None
    assert "(aps, 2 labels)" in (explain(changed(certificate, class_names=2)) or "")
    assert "(aps, 2 labels)" in (explain(changed(certificate, class_names=["no", "yes"])) or "")


def test_a_model_that_rules_the_truth_out() -> None:
    labels = np.arange(200) % 2
    probs = np.eye(2)[np.where(np.arange(200) % 5, labels, 1 - labels)]
    why = explain(predictor_of(fc.LAC(), probs, labels).certificate, classes=2) or ""
    assert "the model gives the true label no probability at all" in why


def test_a_threshold_below_the_largest_is_no_reason_by_itself() -> None:
    probs, labels = two_classes(errors=0.05)
    certificate = predictor_of(fc.RAPS(), probs, labels).certificate
    assert explain(certificate, classes=2) is None
    assert explain(certificate, classes=2, share=0.4) is None
    said = explain(certificate, classes=2, share=0.625) or ""
    assert said.startswith("the model does not tell the labels of these rows apart well enough for alpha=0.1; ")
    assert "larger alpha" in said


def test_one_label_is_never_full() -> None:
    probs = np.ones((30, 1))
    certificate = predictor_of(fc.APS(), probs, np.zeros(30, dtype=int)).certificate
    assert certificate.threshold == 1.0
    assert explain(certificate, classes=1) is None
    assert explain(certificate, math.inf, classes=1) is None


def test_too_few_scores_say_how_many_are_needed() -> None:
    probs, labels = two_classes(8)
    certificate = predictor_of(fc.LAC(), probs, labels).certificate
    assert certificate.threshold == float("inf")
    assert explain(certificate) == (
        "alpha=0.1 cannot be promised from these scores, so every label is in every set; "
        "calibration scores needed: 2 more in all, at any site"
    )
    other = explain(certificate, alpha=0.05) or ""
    assert "alpha=0.05" in other
    assert "12 more in all" in other
    assert "its curve has few alphas; calibrate for this one" in (explain(certificate, alpha=0.2) or "")
    ends = fc.summarize(np.arange(97.0), np.zeros(97), score="signed", kind="exact")
    with maybe_infeasible():
        two_ends = fc.calibrate([ends], alpha=0.03, guarantee="pac").certificate
    thresholds = (-math.inf, math.inf)
    assert "its curve has few alphas" in (explain(two_ends, thresholds, alpha=0.2) or "")


def test_a_lost_site_is_named() -> None:
    probs, labels = two_classes(8)
    certificate = predictor_of(fc.LAC(), probs, labels).certificate
    lost = [LeftOut(site=f"clinic-{k}", reason="gave no answer within 5 s") for k in range(7)]
    why = explain(changed(certificate, left_out=lost)) or ""
    assert why.endswith(
        "; the scores of these sites are missing: clinic-0 (gave no answer within 5 s), "
        + "".join(f"clinic-{k} (gave no answer within 5 s), " for k in (1, 2, 3))
        + "clinic-4 (gave no answer within 5 s) and 2 more"
    )
    finite = predictor_of(fc.LAC(), *two_classes()).certificate
    assert explain(msgspec.structs.replace(finite, left_out=lost), classes=2) is None


def test_noise_may_be_the_reason() -> None:
    probs, labels = two_classes()
    certificate = changed(predictor_of(fc.LAC(), probs, labels).certificate, threshold="inf", privacy={"epsilon": 0.1})
    assert "a larger epsilon" in (explain(certificate) or "")
    unclear = changed(certificate, privacy=None)
    assert "summaries of the kind exact, would help" in (explain(unclear) or "")


def test_classes_are_named() -> None:
    rng = np.random.default_rng(2)
    probs = rng.dirichlet([4, 3, 2], 300)
    labels = np.array([rng.choice(3, p=p) for p in probs])
    keep = (labels != 2) | (np.arange(len(labels)) < 12)
    predictor = predictor_of(fc.LAC(), probs[keep], labels[keep], guarantee=fc.ByClass())
    held = int(np.count_nonzero(labels[keep] == 2))
    assert explain(predictor.certificate, classes=3) == (
        "alpha=0.1 cannot be promised to class 2, which is in every set; "
        f"class 2: calibration scores needed: {10 - held} more in all, at any site (10 of each class)"
    )
    assert "to the classes 2, 3, 4, which are in every set" in (explain(predictor.certificate, classes=5) or "")
    enough = predictor_of(fc.LAC(), probs, labels, guarantee=fc.ByClass())
    assert explain(enough.certificate, classes=3) is None
    assert "class 3 has 0 calibration scores, and more are needed" in (explain(enough.certificate, classes=4) or "")
    every = predictor_of(fc.LAC(), probs[keep], labels[keep], guarantee=fc.ByClass(fc.EverySite()))
    assert f"class 2 has {held} calibration scores, and more" in (explain(every.certificate, classes=3) or "")


def test_a_class_at_the_largest_score_is_named() -> None:
    probs, labels = two_classes()  # the second class is never the likelier one
    predictor = predictor_of(fc.RAPS(), probs, labels, guarantee=fc.ByClass())
    why = explain(predictor.certificate, classes=2) or ""
    assert predictor.predict_set(probs)[:, 1].all()
    assert why.startswith("class 1 is in every set, as no label can score more than its threshold (raps, 2 labels); ")
    assert "lac gives" in why


def test_noise_that_moves_the_threshold_above_every_score_is_said() -> None:
    """Noisy counts carry no classes, and the highest score of LAC is known without them."""
    certificate = changed(
        predictor_of(fc.LAC(), *two_classes()).certificate, class_names=None, privacy={"epsilon": 0.5}
    )
    said = explain(changed(certificate, threshold=1.8125)) or ""
    assert "no label can score more than the threshold 1.8125 (lac), so every label is in every set" in said
    assert "noise or a public cell moved the threshold" in said
    assert explain(changed(certificate, threshold=0.5)) is None
