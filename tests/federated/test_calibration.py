"""The one exchange of a calibration over a network: what a site may say of its scores, and what stops nobody else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.federated.calibration import (
    FORMAT,
    Question,
    Reader,
    calibrate_summaries,
    check_origin,
    reasons_to_refuse,
)
from tests.contracts.tools import refused

QUESTION = Question(model="m", alpha=0.2, kind="exact")
RNG = np.random.default_rng(0)


def answer(site: str, classes: int = 3) -> fc.Summary:
    return QUESTION.answer(RNG.normal(size=(30, classes)), RNG.integers(0, classes, 30), site=site)


def read(summary: fc.Summary) -> fc.Summary:
    return Reader(QUESTION).read(summary.to_bytes(), FORMAT, rows=summary.n, site=summary.sites[0])


def test_answers_say_how_many_classes_there_are_and_how_they_were_scored() -> None:
    found = read(answer("a"))
    assert (found.origin.classes, found.origin.precision) == (3, "float32")
    certificate = calibrate_summaries([found, read(answer("b"))], [], alpha=0.2).certificate
    assert (certificate.labels, certificate.precision, certificate.format) == (3, "float32", 2)


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
        read(fc.summarize([0.5] * 30, "exact", site="a", **said))


def test_a_question_says_that_the_model_was_trained_on_the_sites() -> None:
    question = Question(model="m", kind="exact", trained=True)
    assert Question.from_dict(question.to_dict()) == question
    assert question.answer([[2.0, 0.0], [0.0, 1.0]], [0, 0], site="a").origin.trained
    check_origin(question.origin, question.answer([[2.0, 0.0]], [0], site="a").origin)
    with pytest.raises(fc.InputError, match="for a calibration of its own"):
        check_origin(Question(model="m").origin, question.answer([[2.0, 0.0]], [0], site="a").origin)
