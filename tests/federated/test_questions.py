"""What a site may say over a network: replies that are not what was asked for are refused by the question itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec
import numpy as np
import pandas as pd
import pytest

import fedconformal as fc
from fedconformal.federated.ask import MAX_QUESTION, Record, decode, failure
from fedconformal.federated.calibration import TemperatureQuestion, deviations
from fedconformal.federated.evaluation import Counts, EvaluationQuestion, PredictorQuestion
from fedconformal.federated.questions import Outputs, ScoreQuestion, check_provenance
from fedconformal.federated.sums import SumsStep
from fedconformal.federated.watch import WatchQuestion, watch
from fedconformal.monitoring.messages import read_periods, write_periods
from fedconformal.privacy import Policy
from fedconformal.summaries import Provenance
from tests.contracts.tools import refused
from tests.monitoring.streams import PREDICTOR, START, messages

QUESTION = ScoreQuestion(model="m", alpha=0.2, kind="exact")
RNG = np.random.default_rng(0)


def summary(site: str = "a", classes: int = 3) -> fc.Summary:
    rows = Outputs(outputs=RNG.normal(size=(30, classes)), truth=RNG.integers(0, classes, 30))
    return QUESTION.summarize(rows, site=site)


def read(found: fc.Summary) -> fc.Summary:
    return QUESTION.read(found.to_bytes(), site="a")


def like(**others: Any) -> fc.Summary:
    about: dict[str, Any] = {"score": QUESTION.score, "model": "m", "temperature": 1.0, "site": "a", "kind": "exact"}
    return fc.Summary.of_scores([0.5] * 30, **about | others)


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (like(score=fc.APS()), "sent scores of other origin: score"),
        (like(score=fc.RAPS(penalty=0.5)), "sent scores of other origin: score"),
        (like(temperature=3.0), "sent scores of other origin: temperature"),
        (like(model="other"), "sent scores of other origin: model"),
        (like(calibration="other", alpha=0.2), "sent "),
        (like(expires="2020-01-01"), "sent "),
        (like(estimated=True), "sent "),
        (like(kind="ranks"), "sent a summary of the kind ranks, expected exact"),
        (like(site="b"), "is a and sent a summary of site 'b'"),
        (fc.pool([like(), like(site="b")]), "sent a summary of"),
    ],
)
def test_a_summary_of_something_else_is_refused(found: fc.Summary, why: str) -> None:
    with refused(why):
        read(found)


@pytest.mark.parametrize(
    "question",
    [
        QUESTION,
        ScoreQuestion.about("m", score=fc.RAPS(penalty=0.5), guarantee=fc.ByGroup(fc.ByClass(fc.Mixture()))),
        SumsStep(message=b"FCM1", scores=QUESTION),
        TemperatureQuestion(points=(1.0, 2.0)),
        WatchQuestion(predictor=PREDICTOR),
        PredictorQuestion(predictor=b"{}"),
    ],
    ids=lambda question: type(question).__name__,
)
def test_a_question_is_read_as_it_was_written_and_nothing_else_is(question: Record) -> None:
    kind, sent = type(question), question.to_bytes()
    assert decode(sent, kind) == question
    fields = msgspec.msgpack.decode(sent)
    fewer = {name: value for name, value in fields.items() if name not in ("message", "model", "points", "predictor")}
    for bad in (
        sent[:-1],
        sent + b"\0",
        b"",
        msgspec.msgpack.encode(fields | {"more": 1}),
        msgspec.msgpack.encode(fewer),
    ):
        with refused("the question cannot be read"):
            decode(bad, kind)
    with refused("the question is not in its canonical form"):
        decode(msgspec.msgpack.encode(dict(reversed(fields.items()))), kind)
    with refused("not bytes"):
        decode(sent.hex(), kind)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"described": '{"name": "best"}'}, "no score is called 'best'"),
        ({"described": '{"name": "raps", "more": 1}'}, "has the parameters ['more']"),
        ({"described": "lac"}, "cannot be read"),
        ({"described": "[" * 10**5}, "cannot be read"),
        ({"temperature": 1e300}, "temperature is 1e+300, expected a number from 0.05 to 20"),
        ({"alpha": "0.1"}, "Expected `float`, got `str`"),
        ({"classes": ["a", 1]}, "Expected `str`, got `int`"),
    ],
)
def test_a_hostile_question_is_refused_with_a_reason(fields: dict[str, Any], why: str) -> None:
    honest = msgspec.msgpack.decode(QUESTION.to_bytes())
    with refused(why):
        decode(msgspec.msgpack.encode(honest | fields), ScoreQuestion)


def test_a_question_is_bounded() -> None:
    with refused(f"more than {MAX_QUESTION}"):
        decode(bytes(MAX_QUESTION + 1), ScoreQuestion)
    with refused("Expected `array` of length <= 100"):
        decode(TemperatureQuestion(points=(1.0,) * 101).to_bytes(), TemperatureQuestion)


def test_a_site_with_other_classes_than_most_is_left_out_and_stops_nobody() -> None:
    found = [summary(classes=classes).provenance for classes in (3, 4, 3, 3)]
    assert deviations(found) == [None, "has 4 classes, most others have 3 classes", None, None]
    assert deviations(found[:1]) == [None]
    rounded = [Provenance(score=fc.Residual(), precision=one) for one in ("float32", None, "float32")]
    why = "has predictions in float64, most others have predictions in float32"
    assert deviations(rounded) == [None, why, None]


ROWS = Outputs(outputs=[[2.0, 0.0], [0.0, 1.0]], truth=[0, 0])
NAMED = ScoreQuestion(model="m", kind="exact", classes=("no", "yes"))


def test_a_question_says_that_the_model_was_trained_on_the_sites() -> None:
    question = ScoreQuestion(model="m", kind="exact", trained=True)
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


def test_columns_are_read_by_name_and_counts_too() -> None:
    """In calibration and evaluation alike, whether the outputs are logits or probabilities."""
    logits = RNG.normal(size=(40, 2))
    truth = logits.argmax(axis=1)
    by_index = NAMED.summarize(Outputs(outputs=logits, truth=truth, classes=["no", "yes"]), site="a")
    assert by_index.provenance.classes == ("no", "yes")
    question = EvaluationQuestion(predictor=fc.calibrate([by_index]).to_bytes())
    summaries, counts, names = {by_index.to_bytes()}, set(), np.array(["no", "yes"])[truth]
    for outputs, given in ((logits, False), (fc.softmax(logits), True)):
        for table in (outputs, pd.DataFrame(outputs[:, ::-1], columns=["yes", "no"])):
            rows = Outputs(outputs=table, truth=names, probabilities=given)
            summaries.add(NAMED.summarize(rows, site="a").to_bytes())
            counts.add(question.answer(rows, site="a", model="m", policy=Policy()))
    counts.add(question.answer(Outputs(outputs=logits, truth=truth), site="a", model="m", policy=Policy()))
    assert (len(summaries), len(counts)) == (1, 1)
    with refused("has the 2 (yes, no) classes, the question has the 2 (no, yes)"):
        question.answer(
            Outputs(outputs=logits, truth=truth, classes=["yes", "no"]), site="a", model="m", policy=Policy()
        )


def test_a_summary_with_other_classes_than_the_question_is_refused_by_the_coordinator() -> None:
    for classes in (["yes", "no"], None):
        other = ScoreQuestion(model="m", kind="exact").summarize(replace(ROWS, classes=classes), site="a")
        with refused("the question has the 2 (no, yes)"):
            NAMED.read(other.to_bytes(), site="a")


def test_probabilities_may_be_zero() -> None:
    probs = np.array([[1.0, 0.0], [0.25, 0.75]])
    question = ScoreQuestion(model="m", kind="exact")
    found = question.summarize(Outputs(outputs=probs, truth=[1, 1], probabilities=True), site="a")
    assert found.count_at_most(0.25) == (1, 1)
    for answer in (partial(question.answer, site="a"), TemperatureQuestion(points=(1.0,)).answer):
        with refused("every row is a distribution; pass probabilities=True"):
            answer(Outputs(outputs=probs, truth=[1, 1]), model="m", policy=Policy())
    logits = Outputs(outputs=np.log(probs[1:]), truth=[1])
    warm = ScoreQuestion(model="m", kind="exact", temperature=2.0)
    scaled = warm.summarize(Outputs(outputs=probs[1:], truth=[1], probabilities=True), site="a")
    assert scaled.to_bytes() == warm.summarize(logits, site="a").to_bytes()


def test_another_model_than_the_one_that_is_asked_about() -> None:
    with refused("is not the one in the question"):
        QUESTION.answer(ROWS, site="a", model="other", policy=Policy())


def test_counts_that_no_rows_can_have_are_refused() -> None:
    predictor = fc.calibrate([summary(site) for site in "ab"], alpha=0.2)
    question = EvaluationQuestion(predictor=predictor.to_bytes())
    rows = Outputs(outputs=RNG.normal(size=(9, 3)), truth=RNG.integers(0, 3, 9))
    sent = question.answer(rows, site="a", model="m", policy=Policy())
    found = question.read(sent, site="a")
    assert found.rows == 9
    for bad in ({"rows": 0}, {"covered": 10}, {"correct": -1}, {"unbounded": 10}, {"size": -1.0}, {"size": np.inf}):
        with refused("rows cannot have"):
            question.read(msgspec.structs.replace(found, **bad).to_bytes(), site="a")
    for bad in ({"rows": 9.0}, {"size": 3}, {"more": 1}):
        with refused("the answer "):
            question.read(msgspec.msgpack.encode(msgspec.structs.asdict(found) | bad), site="a")
    with refused("sent 1 bytes, expected none"):
        PredictorQuestion(predictor=b"").read(b"x", site="a")


def test_counts_as_shares() -> None:
    found = Counts.total([Counts(rows=2, covered=1, size=4.0, unbounded=0, correct=1)] * 2)
    sets = {"rows": 4, "coverage": 0.5, "mean_size": 2.0, "accuracy": 0.5, "full_sets": 0}
    assert found.to_dict() == sets


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        ([[1.0, np.nan, 1.0]], "a sum is not finite"),
        ([[1.0, 1.0, -1.0]], "a curvature negative"),
        ([], "sent sums at 0 points, expected 1"),
        ([[1.0, 1.0]], "Expected `array` of length 3"),
        ([[1, 1.0, 1.0]], "canonical"),
    ],
)
def test_sums_for_the_temperature_that_cannot_be_are_refused(sent: Any, why: str) -> None:
    question = TemperatureQuestion(points=(1.0,))
    honest = question.answer(Outputs(outputs=[[0.0, 0.0]], truth=[1]), model="m", policy=Policy())
    assert question.read(honest, site="a").tolist() == [[np.log(2), 0.0, 0.0]]
    with refused(why):
        question.read(msgspec.msgpack.encode(sent), site="a")


def test_the_temperature_is_fitted_to_columns_and_labels_by_name() -> None:
    logits = RNG.normal(size=(40, 2))
    truth = np.array(["no", "yes"])[RNG.integers(0, 2, 40)]
    question = TemperatureQuestion(points=(0.5, 2.0), classes=("no", "yes"))

    def sums(outputs: Any, **rows: Any) -> Any:
        return question.read(question.answer(Outputs(outputs=outputs, **rows), model="m", policy=Policy()), site="a")

    expected = sums(logits, truth=(truth == "yes").astype(int))
    frame = pd.DataFrame(logits[:, ::-1], columns=["yes", "no"])
    probs = fc.softmax(logits.astype(np.float64))
    assert sums(frame, truth=truth).tolist() == expected.tolist()
    assert sums(probs, truth=truth, probabilities=True) == pytest.approx(expected)
    assert np.isfinite(sums(np.eye(2), truth=["yes", "no"], probabilities=True)).all()  # a forest says zero
    with refused("has the 2 (yes, no) classes, the question has the 2 (no, yes)"):
        sums(logits, truth=truth, classes=["yes", "no"])


WATCH = WatchQuestion(predictor=PREDICTOR)
PERIODS = messages("a", [0.1] * 4)


def sent(change: Callable[[Any], Any]) -> bytes:
    return write_periods([change(one) for one in PERIODS])


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
        (b"\x09\0\0\0abc", "ends within a message"),
    ],
    ids=["predictor", "site", "contradiction", "cut"],
)
def test_messages_of_a_watch_are_read_strictly(reply: bytes, why: str) -> None:
    assert read_periods(sent(lambda one: one)) == WATCH.read(sent(lambda one: one), site="a") == PERIODS
    with refused(why):
        WATCH.read(reply, site="a")


def test_no_site_speaks_for_all_sites() -> None:
    """Its counts would stand for those of all sites, in the file of all messages."""
    with refused("all sites is the name of a watch over several sites"):
        WATCH.read(sent(lambda one: msgspec.structs.replace(one, site="all sites")), site="all sites")


def test_a_watch_is_of_a_predictor() -> None:
    for bad in ("", "00", "zz" * 32):
        with refused(param="predictor"):
            watch(None, bad)  # type: ignore[arg-type]


def test_a_site_cannot_speak_to_the_terminal() -> None:
    assert failure('  File "a.py"\n    go()\nRuntimeError: \x1b[31mred\x07') == "RuntimeError: \\x1b[31mred\\x07"
