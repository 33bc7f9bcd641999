"""The one exchange of a calibration over a network: what a site may say of its scores, and what stops nobody else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.federated.calibration import (
    FORMAT,
    Outputs,
    ScoreQuestion,
    check_origin,
    reasons_to_refuse,
)
from tests.contracts.tools import refused

QUESTION = ScoreQuestion(model="m", alpha=0.2, kind="exact")
RNG = np.random.default_rng(0)


def answer(site: str, classes: int = 3) -> fc.Summary:
    rows = Outputs(outputs=RNG.normal(size=(30, classes)), truth=RNG.integers(0, classes, 30))
    return QUESTION.summarize(rows, site=site)


def read(summary: fc.Summary) -> fc.Summary:
    sent = {"data": summary.to_bytes(), "format": FORMAT, "rows": summary.n}
    return QUESTION.read(sent, site=summary.sites[0]).summary


def test_answers_say_how_many_classes_there_are_and_how_they_were_scored() -> None:
    found = read(answer("a"))
    assert (found.provenance.classes, found.provenance.precision) == (3, "float32")
    certificate = fc.calibrate([found, read(answer("b"))], alpha=0.2).certificate
    assert (certificate.class_names, certificate.provenance.precision) == (3, "float32")


def test_a_site_with_other_classes_than_most_is_left_out_and_stops_nobody() -> None:
    found = [(site, answer(site, classes)) for site, classes in (("a", 3), ("b", 4), ("c", 3), ("d", 3))]
    assert reasons_to_refuse(found) == [None, "has 4 classes, most others have 3", None, None]
    assert reasons_to_refuse([("a", found[0][1])]) == [None]


@pytest.mark.parametrize(
    "about", [{"calibration": "other", "alpha": 0.2}, {"expires": "2020-01-01"}, {"estimated": True}], ids=str
)
def test_a_site_cannot_end_or_weaken_the_calibration_by_what_it_says(about: dict[str, Any]) -> None:
    said = {"score": QUESTION.score, "model": "m", "temperature": 1.0, **about}
    with refused("sent "):
        read(fc.Summary.of_scores([0.5] * 30, kind="exact", site="a", **said))


ROWS = Outputs(outputs=[[2.0, 0.0], [0.0, 1.0]], truth=[0, 0])


def test_a_question_says_that_the_model_was_trained_on_the_sites() -> None:
    question = ScoreQuestion(model="m", kind="exact", trained=True)
    assert ScoreQuestion.from_dict(question.to_dict()) == question
    found = question.summarize(ROWS, site="a").provenance
    assert found.trained
    check_origin(question.provenance, found)
    with pytest.raises(fc.InputError, match="for a calibration of its own"):
        check_origin(ScoreQuestion(model="m").provenance, found)


NAMED = ScoreQuestion(model="m", kind="exact", classes=("no", "yes"))


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ({"truth": [0, 1]}, "and this site names none"),
        ({"truth": [0, 1], "classes": ["yes", "no"]}, "has the 2 (yes, no) classes, the question has the 2 (no, yes)"),
        ({"truth": ["no", "perhaps"]}, "perhaps"),
    ],
)
def test_a_site_with_other_classes_than_the_question_is_refused_by_itself(rows: dict[str, Any], words: str) -> None:
    with refused(words):
        NAMED.summarize(Outputs(outputs=ROWS.outputs, **rows), site="a")


def test_a_site_with_the_classes_of_the_question_answers() -> None:
    assert ScoreQuestion.from_dict(NAMED.to_dict()) == NAMED
    by_index = NAMED.summarize(Outputs(outputs=ROWS.outputs, truth=[0, 1], classes=["no", "yes"]), site="a")
    by_name = NAMED.summarize(Outputs(outputs=ROWS.outputs, truth=["no", "yes"]), site="a")
    assert by_index.to_bytes() == by_name.to_bytes()
    assert by_name.provenance.classes == ("no", "yes")


def test_a_summary_with_other_classes_than_the_question_is_refused_by_the_coordinator() -> None:
    for classes in (["yes", "no"], None):
        other = ScoreQuestion(model="m", kind="exact").summarize(replace(ROWS, classes=classes), site="a")
        with refused("the question has the 2 (no, yes)"):
            NAMED.read({"data": other.to_bytes(), "format": FORMAT, "rows": 2}, site="a")


def test_probabilities_may_be_zero() -> None:
    probs = np.array([[1.0, 0.0], [0.25, 0.75]])
    question = ScoreQuestion(model="m", kind="exact")
    found = question.summarize(Outputs(outputs=probs, truth=[1, 1], probabilities=True), site="a")
    assert found.count_at_most(0.25) == (1, 1)
    logits = Outputs(outputs=np.log(probs[1:]), truth=[1])
    warm = ScoreQuestion(model="m", kind="exact", temperature=2.0)
    scaled = warm.summarize(Outputs(outputs=probs[1:], truth=[1], probabilities=True), site="a")
    assert scaled.to_bytes() == warm.summarize(logits, site="a").to_bytes()
