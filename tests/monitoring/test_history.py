"""The messages of one site, in order: evidence from counts, and what contradicts itself is refused."""

import math

import numpy as np
import pytest
from msgspec.structs import replace

from fedconformal.errors import InputError
from fedconformal.monitoring.combine import histories_of
from fedconformal.monitoring.messages import Period, Stream, Tally
from tests.monitoring.streams import PREDICTOR, START, messages


def sent(first: int, last: int, before: Tally, after: Tally, **others: object) -> Period:
    stream = Stream(0.1, 0.025, 0.0, before, after, **others)  # type: ignore[arg-type]
    return Period(PREDICTOR, "clinic-a", START + first, START + last, (stream,))


NONE, SOME, MORE = Tally(), Tally(100, 9, 3, 140), Tally(200, 20, 1, 280)


def test_evidence_and_intervals_are_those_of_the_monitor() -> None:
    periods = messages("clinic-a", [0.1, 0.3, 0.2, 0.1], groups={"sex=F": 1.0})
    for line, number in zip(histories_of(periods[::-1]), (0, 1), strict=True):
        low, high = line.intervals()
        for i, period in enumerate(periods):
            watch = period.streams[number].monitor()
            assert line.log_e[i + 1] == pytest.approx(watch.log_e_value, abs=1e-12)
            below, above = watch.interval
            np.testing.assert_allclose([low[i + 1], high[i + 1]], [1 - above, 1 - below], atol=1e-12)
        assert line.days.tolist() == [START - 1, START, START + 1, START + 2, START + 3]


def test_a_message_that_comes_twice_counts_once_and_a_longer_one_may_hold_two() -> None:
    parts = [sent(0, 0, NONE, SOME), sent(1, 1, SOME, MORE)]
    whole = sent(0, 1, NONE, MORE)
    (line,) = histories_of([*parts, parts[0], whole])
    assert line.known.tolist() == [0, 100, 200]
    assert line.rows == 201
    assert line.coverage == pytest.approx(0.9)


def test_a_message_may_be_written_before_its_last_day_is_over() -> None:
    (line,) = histories_of([sent(0, 0, NONE, SOME), sent(1, 1, Tally(120, 12, 0, 170), MORE)])
    assert line.known.tolist() == [0, 120, 200]


@pytest.mark.parametrize(
    "other",
    [
        sent(1, 1, Tally(100, 8, 3, 140), MORE),
        sent(0, 0, NONE, Tally(100, 8, 3, 140)),
        sent(1, 1, Tally(99, 9, 4, 140), MORE),
        sent(-3, 0, NONE, Tally(101, 9, 3, 141)),
        sent(2, 2, Tally(90, 9, 3, 140), MORE),
        sent(2, 2, Tally(200, 8, 3, 140), MORE),
        sent(2, 2, Tally(100, 9, 0, 139), MORE),
    ],
)
def test_contradictions_are_refused(other: Period) -> None:
    with pytest.raises(InputError, match=r"^clinic-a: messages disagree about the end of 2026-01-0\d \(") as error:
        histories_of([sent(0, 0, NONE, SOME), other])
    assert error.value.code == "contradiction"


def test_another_limit_is_refused() -> None:
    stream = replace(sent(1, 1, SOME, MORE).streams[0], limit=0.2)
    with pytest.raises(InputError, match=r"clinic-a: messages of two watches, with the limits 0.1 and 0.2") as error:
        histories_of([sent(0, 0, NONE, SOME), replace(sent(1, 1, SOME, MORE), streams=(stream,))])
    assert error.value.code == "two-watches"


def test_an_alarm_is_worked_out_and_not_taken_from_the_site() -> None:
    (line,) = histories_of([sent(0, 0, NONE, Tally(100, 40)), sent(1, 1, Tally(100, 40), Tally(1000, 90))])
    assert line.now < 0
    assert line.alarm == START  # which the site does not say, and which is gone later
    assert line.state == "alarm"


def test_an_alarm_within_a_period_counts_if_the_counts_allow_it() -> None:
    quiet = Tally(1000, 90)
    (line,) = histories_of([sent(0, 9, NONE, quiet, alarm=START + 3)])
    assert line.log_e.max() < -math.log(0.025)
    assert line.alarm == START + 3
    for day, after in ((START + 3, Tally(1000, 1)), (START + 10, quiet)):
        with pytest.raises(InputError, match=r"says that its alarm is of 2026-01-(04|11), which its counts rule out"):
            histories_of([sent(0, 9, NONE, after, alarm=day)])
    late = [sent(0, 9, NONE, quiet), sent(10, 19, quiet, Tally(1010, 95), alarm=START + 12)]
    with pytest.raises(InputError, match="rule out"):
        histories_of(late)


def test_too_early_until_the_whole_interval_is_on_one_side() -> None:
    for tally, state in (
        (Tally(100, 5), "too early"),
        (Tally(1000, 50), "holds"),
        (Tally(1000, 50, 1000), "too early"),  # rows that wait count as missed here
        (Tally(0, 0, 100), "too early"),
        (Tally(100, 11), "too early"),
    ):
        (line,) = histories_of([sent(0, 0, NONE, tally)])
        assert line.state == state


def test_too_many_messages_are_refused_and_many_rows_are_not() -> None:
    with pytest.raises(InputError, match="5001 messages, at most 5000"):
        histories_of([sent(0, 0, NONE, SOME)] * 5001)
    (line,) = histories_of([sent(0, 0, NONE, Tally(2**50, 2**40))])
    assert math.isfinite(line.now)
    assert line.state == "holds"
