"""What a site may say over a network: replies that are not what was asked for are refused by the question itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest

import fedconformal as fc
from fedconformal.federated.ask import MAX_BYTES, failure
from fedconformal.federated.calibration import unusual
from fedconformal.federated.evaluation import EvaluationQuestion
from fedconformal.federated.questions import FORMAT, Outputs, ScoreQuestion, check_provenance
from fedconformal.federated.temperature import TemperatureQuestion
from fedconformal.federated.watch import WatchQuestion
from fedconformal.monitoring.messages import read_periods, write_periods
from fedconformal.privacy import Policy
from tests.contracts.tools import refused
from tests.monitoring.streams import PREDICTOR, START, messages

QUESTION = ScoreQuestion(model="m", alpha=0.2, kind="exact")
RNG = np.random.default_rng(0)


def summary(site: str = "a", classes: int = 3) -> fc.Summary:
    rows = Outputs(outputs=RNG.normal(size=(30, classes)), truth=RNG.integers(0, classes, 30))
    return QUESTION.summarize(rows, site=site)


def read(found: fc.Summary, **others: Any) -> fc.Summary:
    return QUESTION.read({"data": found.to_bytes(), "format": FORMAT, **others}, site="a")


def like(**others: Any) -> fc.Summary:
    about: dict[str, Any] = {"score": QUESTION.score, "model": "m", "temperature": 1.0, "site": "a", "kind": "exact"}
    return fc.Summary.of_scores([0.5] * 30, **about | others)


def test_answers_say_how_many_classes_there_are_and_how_they_were_scored() -> None:
    found = read(summary())
    assert (found.provenance.classes, found.provenance.precision) == (3, "float32")


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (like(score=fc.APS()), "sent scores of something else: score"),
        (like(score=fc.RAPS(penalty=0.5)), "sent scores of something else: score"),
        (like(temperature=3.0), "sent scores of something else: temperature"),
        (like(model="other"), "sent scores of something else: model"),
        (like(calibration="other", alpha=0.2), "sent "),
        (like(expires="2020-01-01"), "sent "),
        (like(estimated=True), "sent "),
        (like(kind="ranks"), "sent a summary of the kind ranks, asked for was exact"),
        (like(site="b"), "is a and sent a summary of site 'b'"),
        (fc.pool([like(), like(site="b")]), "sent a summary of"),
    ],
)
def test_a_summary_of_something_else_is_refused(found: fc.Summary, why: str) -> None:
    with refused(why):
        read(found)


SENT = like().to_bytes()


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        ({"data": SENT[:-9], "format": FORMAT}, "truncated or altered"),
        ({"data": "FCS1", "format": FORMAT}, "no message in the format fcs1, as bytes"),
        ({"data": SENT, "format": "fcs9"}, "no message in the format fcs1"),
        ({"data": SENT}, "no message in the format fcs1"),
        ({"data": SENT, "format": FORMAT, "loss": 0.5}, "no message in the format fcs1"),
        ({"data": b"FCS1R" + bytes(MAX_BYTES - 5), "format": FORMAT}, "checksum"),
        ({"data": b"FCS1R" + bytes(MAX_BYTES - 4), "format": FORMAT}, f"more than {MAX_BYTES}"),
    ],
    ids=["truncated", "text", "format", "no format", "more", "cap", "too large"],
)
def test_a_reply_that_is_none_is_refused(reply: dict[str, Any], why: str) -> None:
    with refused(why):
        QUESTION.read(reply, site="a")


def test_a_site_with_other_classes_than_most_is_left_out_and_stops_nobody() -> None:
    found = [summary(classes=classes).provenance for classes in (3, 4, 3, 3)]
    assert unusual(found) == [None, "has 4 classes, most others have 3", None, None]
    assert unusual(found[:1]) == [None]


ROWS = Outputs(outputs=[[2.0, 0.0], [0.0, 1.0]], truth=[0, 0])
NAMED = ScoreQuestion(model="m", kind="exact", classes=("no", "yes"))


def test_a_question_says_that_the_model_was_trained_on_the_sites() -> None:
    question = ScoreQuestion(model="m", kind="exact", trained=True)
    assert ScoreQuestion.from_dict(question.to_dict()) == question
    found = question.summarize(ROWS, site="a").provenance
    assert found.trained
    check_provenance(question.provenance, found)
    with refused("for a calibration of its own"):
        check_provenance(ScoreQuestion(model="m").provenance, found)


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
            NAMED.read({"data": other.to_bytes(), "format": FORMAT}, site="a")


def test_probabilities_may_be_zero() -> None:
    probs = np.array([[1.0, 0.0], [0.25, 0.75]])
    question = ScoreQuestion(model="m", kind="exact")
    found = question.summarize(Outputs(outputs=probs, truth=[1, 1], probabilities=True), site="a")
    assert found.count_at_most(0.25) == (1, 1)
    logits = Outputs(outputs=np.log(probs[1:]), truth=[1])
    warm = ScoreQuestion(model="m", kind="exact", temperature=2.0)
    scaled = warm.summarize(Outputs(outputs=probs[1:], truth=[1], probabilities=True), site="a")
    assert scaled.to_bytes() == warm.summarize(logits, site="a").to_bytes()


def test_another_model_than_the_one_that_is_asked_about() -> None:
    with refused("is not the one that is asked about"):
        QUESTION.answer(ROWS, site="a", model="other", policy=Policy())


def test_counts_that_no_rows_can_have_are_refused() -> None:
    predictor = fc.calibrate([summary(site) for site in "ab"], alpha=0.2)
    question = EvaluationQuestion(predictor)
    rows = Outputs(outputs=RNG.normal(size=(9, 3)), truth=RNG.integers(0, 3, 9))
    sent = question.answer(rows, site="a", model="m", policy=Policy())
    assert question.read(sent, site="a").rows == 9
    for bad in ({"rows": 0}, {"covered": 10}, {"correct": -1}, {"unbounded": 10}, {"size": -1.0}, {"size": np.inf}):
        with refused("rows cannot have"):
            question.read(sent | bad, site="a")
    for bad in ({"rows": 9.0}, {"size": 3}, {"more": 1}):
        with refused("expected rows, covered, size, unbounded, correct"):
            question.read(sent | bad, site="a")


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ({"slope": [np.nan]}, "a sum is not finite"),
        ({"curvature": [-1.0]}, "a curvature negative"),
        ({"loss": []}, "at every point"),
        ({"loss": 1.0}, "at every point"),
        ({"more": 1.0}, "at every point"),
    ],
)
def test_sums_for_the_temperature_that_cannot_be_are_refused(bad: dict[str, Any], why: str) -> None:
    question = TemperatureQuestion((1.0,))
    sent = question.answer([[0.0, 0.0]], [1], model="m", policy=Policy())
    with refused(why):
        question.read(sent | bad, site="a")


WATCH = WatchQuestion(predictor=PREDICTOR.hex())
PERIODS = messages("a", [0.1] * 4)


def sent(change: Callable[[Any], Any]) -> dict[str, Any]:
    return {"data": write_periods([change(one) for one in PERIODS]), "format": "fcw1"}


def contradicted(period: Any) -> Any:
    """Take a miss from the first message only, which the next one contradicts."""
    if period.first > START:
        return period
    stream = period.streams[0]
    after = msgspec.structs.replace(stream.after, known=stream.after.known + 9)
    return msgspec.structs.replace(period, streams=(msgspec.structs.replace(stream, after=after),))


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (sent(lambda one: msgspec.structs.replace(one, predictor=bytes(32))), "watches the predictor 0000000000"),
        (sent(lambda one: msgspec.structs.replace(one, site="b")), "is a and sent messages of b"),
        (sent(contradicted), "messages disagree about the end of 2026-01-01"),
        ({"data": b"\x09\0\0\0abc", "format": "fcw1"}, "ends within a message"),
        ({"data": "text", "format": "fcw1"}, "no message in the format fcw1"),
    ],
    ids=["predictor", "site", "contradiction", "cut", "text"],
)
def test_messages_of_a_watch_are_read_strictly(reply: dict[str, Any], why: str) -> None:
    assert read_periods(sent(lambda one: one)["data"]) == WATCH.read(sent(lambda one: one), site="a") == PERIODS
    with refused(why):
        WATCH.read(reply, site="a")


def test_new_messages_must_not_contradict_earlier_ones() -> None:
    with refused("a: messages disagree"):
        WatchQuestion.about(PREDICTOR.hex(), messages("a", [0.5] * 3, seed=9)).read(sent(lambda one: one), site="a")
    again = WatchQuestion.about(PREDICTOR.hex(), PERIODS[:2])
    assert again.read(sent(lambda one: one), site="a") == PERIODS
    for bad in ("", "00", "zz" * 32):
        with refused("names no predictor"):
            WatchQuestion(predictor=bad)


def test_a_site_cannot_speak_to_the_terminal() -> None:
    assert failure('  File "a.py"\n    go()\nRuntimeError: \x1b[31mred\x07') == "RuntimeError: \\x1b[31mred\\x07"
