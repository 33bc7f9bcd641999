"""Messages of a site in order, and evidence over sites; what contradicts itself is refused."""

import json
import math
import time

import numpy as np
import pytest
from msgspec.structs import replace

from fedconformal.errors import InputError
from fedconformal.monitoring.combine import CombinedEvidence, Refused, combine, histories_of, standing_out
from fedconformal.monitoring.messages import Period, Stream, Tally
from fedconformal.monitoring.monitor import Monitor
from fedconformal.monitoring.text import chance, sentence, to_dict, to_do
from fedconformal.report.watch import combined_page
from tests.monitoring.streams import PREDICTOR, START, history, messages

DRIFT = [0.1] * 10 + [0.4] * 10


def counted(site: str, *tallies: Tally, failure: float = 0.001, start: int = 0) -> list[Period]:
    """One message a day with these counts at its end."""
    befores = [Tally(), *tallies]
    return [
        Period(PREDICTOR, site, START + start + i, START + start + i, (Stream(0.1, 0.025, failure, before, after),))
        for i, (before, after) in enumerate(zip(befores, tallies, strict=False))
    ]


def evidence(tally: Tally) -> float:
    watch = Monitor(limit=0.1, known=tally.known, misses=tally.misses, waiting=tally.waiting)
    return watch.e_value


def test_over_sites_it_is_the_mean_and_a_site_counts_as_one_before_its_first_message() -> None:
    a, b, c = Tally(50, 9), Tally(80, 20), Tally(60, 6)
    found = combine([*counted("a", a, b), *counted("b", c, start=1)]).all_rows
    assert found.days.tolist() == [START - 1, START, START + 1]
    means = [1.0, (evidence(a) + 1) / 2, (evidence(b) + evidence(c)) / 2]
    np.testing.assert_allclose(np.exp(found.log_mean), means, rtol=1e-12)
    assert found.alarm == START + 1


@pytest.mark.long
def test_false_alarms_over_sites_are_as_rare_as_stated() -> None:
    """Rows are missed exactly as often as the limit allows; an alarm at any of 25 days is false."""
    rng, runs, level, limit = np.random.default_rng(5), 300, 0.2, 0.3
    known, false = np.arange(0.0, 208.0, 8.0), 0
    for _ in range(runs):
        misses = rng.binomial(8, limit, (5, 25)).cumsum(axis=1)
        sites = [history(f"s{k}", known, np.append(0.0, own), limit, level) for k, own in enumerate(misses)]
        false += CombinedEvidence.of("", sites).alarm is not None
    assert false <= runs * level + 2 * math.sqrt(runs * level * (1 - level))


def test_sites_are_named_by_what_their_evidence_is_worth_now() -> None:
    high, gone = Tally(100, 40), Tally(2000, 120)
    found = combine([*counted("was", high, gone), *counted("is", gone, replace(gone, known=2200, misses=130))])
    assert found.all_rows.named == ()
    assert {line.site for line in found.all_rows.doubtful} == {"was"}
    found = combine([*counted("was", high, gone), *counted("is", gone, replace(gone, known=2400, misses=520))])
    assert found.all_rows.named == ("is",)


def test_what_the_limits_may_fail_adds_up() -> None:
    sent = [period for i in range(4) for period in counted(f"s{i}", Tally(50, 4), failure=0.01)]
    found = combine(sent).all_rows
    assert found.failures == pytest.approx(0.04)
    assert found.chance == pytest.approx(0.065)
    assert "probability 0.065 at most (0.025, and 0.04 for limits" in chance(found)
    many = [period for i in range(120) for period in counted(f"s{i}", Tally(50, 4), failure=0.01)]
    assert "add up to 1.2, so nothing is promised" in chance(combine(many).all_rows)


def at_level(level: float, periods: list[Period]) -> list[Period]:
    return [
        replace(one, streams=tuple(replace(stream, false_alarm=level) for stream in one.streams)) for one in periods
    ]


def test_sites_count_by_the_chance_that_they_watch_with() -> None:
    a, b, c = Tally(60, 16), Tally(80, 9), Tally(70, 8)
    found = combine([*at_level(0.01, counted("a", a)), *counted("b", b), *counted("c", c)]).all_rows
    weighed = (0.01 * evidence(a) + 0.025 * evidence(b) + 0.025 * evidence(c)) / 0.06
    assert math.exp(found.now) == pytest.approx(weighed, rel=1e-12)
    assert found.false_alarm == 0.025
    assert found.alarm is None


def test_a_chance_that_was_divided_beforehand_makes_a_sites_own_alarm_one() -> None:
    whole = counted("all sites", Tally(900, 90))
    own = [at_level(0.025 / 10, counted(f"s{i}", Tally(70, 21 if i == 3 else 6))) for i in range(10)]
    assert 400 < evidence(Tally(70, 21)) < 10_000
    found = combine([*whole, *(period for sent in own for period in sent)], one_watch=True)
    assert found.all_rows.false_alarm == pytest.approx(0.05)
    assert found.all_rows.named == ("s3",)
    assert found.alarm
    within = replace(own[4][0], streams=(replace(own[4][0].streams[0], alarm=START, after=Tally(900, 60)),))
    quiet = combine([*whole, *(period for sent in own[5:] for period in sent), within], one_watch=True)
    assert quiet.all_rows.now < 0
    assert quiet.since == START


def test_one_site_drifts() -> None:
    sent = [period for i in range(5) for period in messages(f"clinic-{i}", DRIFT if i == 3 else [0.1] * 20)]
    found = combine(np.random.default_rng(0).permutation(np.array(sent, dtype=object)).tolist())
    assert found.state == "alarm"
    assert found.all_rows.named == ("clinic-3",)
    assert found.all_rows.histories[0].site == "clinic-3"
    assert found.since is not None
    assert START + 10 < found.since < START + 20
    assert "at clinic-3: more rows are missed" in sentence(found)
    facts = to_dict(found)
    assert json.loads(json.dumps(facts, allow_nan=False))["all_rows"]["named_sites"] == ["clinic-3"]
    assert facts["all_rows"]["sites"]["clinic-3"]["alarm_since"] is not None


def test_a_group_stands_out() -> None:
    groups = {"sex=F": 4.0, "sex=M": 1.0}
    found = combine(period for i in range(4) for period in messages(f"c{i}", [0.1] * 20, groups=groups))
    assert found.named_groups == ("sex=F",)
    assert found.all_rows.alarm is None
    assert found.alarm
    assert "in the group sex=F" in sentence(found)


def test_its_own_alarm_alone_leaves_a_site_in_doubt() -> None:
    own = counted("odd", Tally(60, 17))
    assert 40 < evidence(Tally(60, 17)) < 40 * 20
    found = combine([*own, *(period for i in range(20) for period in counted(f"s{i}", Tally(400, 30)))])
    assert found.state == "in doubt"
    assert not found.alarm
    assert "odd (since 2026-01-01)" in sentence(found)
    assert any(step.startswith("Look at odd (since 2026-01-01)") for step in to_do(found))
    assert combine(own).state == "alarm"


def test_holds_or_too_early() -> None:
    few = combine(period for i in range(3) for period in counted(f"s{i}", Tally(20, 1)))
    assert sentence(few).startswith("too early: between 0.3% and 20.6% of rows are missed (60 outcomes at 3 sites)")
    many = combine(counted("a", Tally(1000, 60)))
    assert sentence(many) == "holds: at most 9.3% of rows are missed, and the limit is 10.0% (1,000 outcomes at 1 site)"
    none = combine(counted("a", Tally(0, 0, 50)))
    assert sentence(none) == "too early: no row has an outcome yet at 1 site"
    assert to_do(none)[0].startswith("Send outcomes: 50 rows wait for one.")


def test_a_watch_over_several_sites_counts_its_rows_once() -> None:
    whole = counted("all sites", Tally(1000, 60))
    found = combine([*whole, *counted("a", Tally(400, 20)), *counted("b", Tally(500, 30))], one_watch=True)
    assert found.all_rows.sites == 2
    assert found.all_rows.pooled.known[-1] == 1000
    assert combine(whole).all_rows.sites == 1
    with pytest.raises(InputError, match="each has to name itself when its watch is started"):
        combine([*whole, *counted("all sites", Tally(900, 60))])


def test_silent_sites_are_named_and_a_gap_loses_no_count() -> None:
    whole = counted("a", *(Tally(10 * (i + 1), i) for i in range(10)))
    found = combine([*whole[:3], *whole[5:], *counted("b", Tally(10, 1), Tally(20, 2)), *whole[-1:]])
    assert to_dict(found)["silent"] == ["b"]
    assert found.all_rows.pooled.known[-1] == 120
    assert "Ask b (since 2026-01-02) why no message arrives." in to_do(found)


def test_another_predictor_is_refused_by_name() -> None:
    (other,) = counted("clinic-z", Tally(10, 1))
    with pytest.raises(InputError, match="clinic-z: watches the predictor 000000000000, and others watch 000102030405"):
        combine([*counted("a", Tally(10, 1)), replace(other, predictor=bytes(32))])
    with pytest.raises(InputError, match="no message"):
        combine([])


def test_two_spellings_of_a_name_are_one_site_and_who_is_left_out_is_named() -> None:
    one, two = counted("K\u00f6ln", Tally(10, 1), Tally(20, 2))
    found = combine([one, replace(two, site="Ko\u0308ln ")], refused=[Refused("b", "gave no answer")])
    assert len(found.all_rows.histories) == 1
    assert to_dict(found)["refused"] == [{"site": "b", "reason": "gave no answer"}]
    assert "b is left out, as it gave no answer." in to_do(found)


def test_what_a_site_says_of_its_scores_is_shown_as_its_word() -> None:
    (period,) = counted("a", Tally(900, 30))
    stream = replace(period.streams[0], changed=START)
    found = combine([replace(period, streams=(stream,))])
    assert "Ask a what changed: it reports that its scores differ, detected on 2026-01-01." in to_do(found)
    assert to_dict(found)["all_rows"]["sites"]["a"]["scores_changed"] == "2026-01-01"


def test_the_name_of_all_sites_replaces_no_counts() -> None:
    honest = [period for i in range(3) for period in counted(f"s{i}", Tally(400, 100))]
    found = combine([*honest, *counted("all sites", Tally(10**6, 0))])
    assert found.state == "alarm"
    assert found.all_rows.pooled.known[-1] == 1200
    assert [one.site for one in found.refused] == ["all sites"]


def test_one_site_that_claims_many_rows_does_not_make_the_promise_hold() -> None:
    honest = [period for i in range(3) for period in counted(f"s{i}", Tally(20, 1))]
    found = combine([*honest, *counted("liar", Tally(10**6, 0))])
    assert found.state == "too early"
    assert to_do(found)[0].startswith("Without liar the others do not show yet that the promise holds")
    large = [*honest, *counted("large", Tally(10**6, 0)), *counted("another", Tally(10**6, 10**4))]
    assert combine(large).state == "holds"


@pytest.mark.parametrize("stated", [{}, {"limit": 0.9999}, {"false_alarm": 0.9}], ids="".join)
def test_no_site_makes_the_promise_hold_by_what_it_states(stated: dict[str, float]) -> None:
    """Not even with fewer outcomes than the others, or with a limit or a probability of its own."""
    honest = [period for i in range(3) for period in counted(f"s{i}", Tally(200, 13))]
    (liar,) = counted("liar", Tally(500, 0))
    found = combine([*honest, replace(liar, streams=(replace(liar.streams[0], **stated),))])
    assert (found.all_rows.pooled.state, found.state, found.all_rows.decisive) == ("holds", "too early", "liar")


@pytest.mark.long
def test_many_invented_sites_take_a_moment() -> None:
    invented = [replace(counted(f"s{i}", Tally(9, 1))[0], first=START + i, last=START + i) for i in range(2000)]
    start = time.process_time()
    found = combine(invented)
    page = combined_page(found)
    assert time.process_time() - start < 10
    assert len(page) < 2**25
    assert found.all_rows.pooled.known[-1] == 18_000


def test_any_sizes_have_a_finite_sum() -> None:
    found = combine([period for site in "abc" for period in counted(site, Tally(9, 1, sizes=1.7e308))])
    assert math.isfinite(found.all_rows.pooled.sizes[-1])


def test_few_sites_are_named_wrongly() -> None:
    """90 of 100 sites keep the promise: of those that are named, at most a tenth is wrong on average."""
    rng, wrong, right = np.random.default_rng(0), [], []
    for _ in range(1000):
        # exp(m x - m^2 / 2) is one on average for normal x, and large if its mean is m.
        draws = rng.normal(size=100) + np.repeat([3.0, 0.0], [10, 90])
        named = [int(name) for name in standing_out({str(i): 3 * x - 4.5 for i, x in enumerate(draws)})]
        wrong.append(sum(i >= 10 for i in named) / max(1, len(named)))
        right.append(sum(i < 10 for i in named))
    assert np.mean(wrong) < 0.1
    assert np.mean(right) > 2
    naive = [i for i, x in enumerate(draws) if 3 * x - 4.5 >= math.log(10)]
    assert len(naive) > len(named)


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
    assert line.coverage == pytest.approx(0.9)


def test_a_message_may_be_written_before_its_last_day_is_over() -> None:
    (line,) = histories_of([sent(0, 0, NONE, SOME), sent(1, 1, Tally(120, 12, 0, 170), MORE)])
    assert line.known.tolist() == [0, 120, 200]


@pytest.mark.parametrize(
    "other",
    [
        sent(1, 1, Tally(100, 8, 3, 140), MORE),
        sent(0, 0, NONE, Tally(100, 8, 3, 140)),
        sent(-3, 0, NONE, Tally(101, 9, 3, 141)),
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
        with pytest.raises(InputError, match=r"states an alarm on 2026-01-(04|11), which its counts rule out"):
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


def test_too_many_messages_are_refused() -> None:
    with pytest.raises(InputError, match="5001 messages, at most 5000"):
        histories_of([sent(0, 0, NONE, SOME)] * 5001)
