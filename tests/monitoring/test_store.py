"""A watch in a file: the same bits as the monitor it stands for, and nothing lost, counted twice or guessed."""

import math
import sqlite3
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.errors import InputError, StoreError
from fedconformal.monitoring.change import ChangeDetector
from fedconformal.monitoring.events import Counts, Outcomes, Predicted, StreamState
from fedconformal.monitoring.limits import limits_of
from fedconformal.monitoring.messages import Tally
from fedconformal.monitoring.monitor import Monitor
from fedconformal.monitoring.store import Watch
from tests.monitoring.watches import CLASSES, START, answered, losses, predictor, rows_of, started, true

DAY = 86_400


def risk_predictor() -> fc.Predictor:
    return fc.calibrate([fc.LossSummary.of_losses(losses(400), thresholds=range(5), site="a")], risk=0.2)


def one_by_one(state: StreamState, events: list[tuple[bool, float]]) -> Monitor:
    """Feed a monitor with one event after the other."""
    found = Monitor(limit=state.limit, false_alarm=state.false_alarm, failure=state.failure)
    for is_outcome, missed in events:
        if is_outcome:
            found = found.update(misses=[missed], waiting=found.waiting - 1)
        else:
            found = found.update(waiting=found.waiting + 1)
    return found


@pytest.mark.parametrize("seed", range(4))
def test_the_state_is_that_of_one_outcome_after_the_other(tmp_path: Path, seed: int) -> None:
    """In any batches, with the file closed in between, to the last bit; losses are floats that round."""
    rng, rows = np.random.default_rng(seed), 300
    losses = rng.beta(1, 1.6, rows)
    asked = START + np.sort(rng.random(rows)) * 30 * DAY
    came = asked + rng.exponential(2 * DAY, rows)
    order = np.lexsort((np.repeat([0, 1], rows), np.concatenate([asked, came])))
    events = [(bool(one >= rows), float(losses[one - rows]) if one >= rows else 0.0) for one in order.tolist()]
    started(tmp_path / "w.db", risk_predictor()).__exit__()
    done = 0
    while done < len(order):
        some = order[done : done + int(rng.integers(1, 80))]
        done += len(some)
        new, known = some[some < rows], some[some >= rows] - rows
        with Watch.open(tmp_path / "w.db") as watch:
            held = Predicted(ids=[f"p{i}" for i in new], times=asked[new])
            watch.add(held, Outcomes(ids=[f"p{i}" for i in known], times=came[known], values=losses[known]))
    with Watch.open(tmp_path / "w.db") as watch:
        state = watch.whole()
        wanted = one_by_one(state, events)
        assert all(getattr(state, name) == value for name, value in vars(wanted).items())
        assert wanted.alarm_at is not None
        place = next(k for k in range(len(events)) if sum(one for one, _ in events[: k + 1]) == wanted.alarm_at)
        assert state.alarm_day == np.concatenate([asked, came])[order[place]] // DAY


def outcome_counts(watch: Watch, outcomes: Outcomes) -> list[int]:
    added = watch.add(None, outcomes)
    return [getattr(added, what) for what in ("counted", "repeated", "conflicting", "early")]


def test_outcomes_count_once(tmp_path: Path) -> None:
    with started(tmp_path / "w.db") as watch:
        watch.add(answered(["p", "q", "r"]))
        for ids, labels, counts in (
            (["p"], [2], [1, 0, 0, 0]),
            (["p"], [2], [0, 1, 0, 0]),
            (["p"], [0], [0, 0, 1, 0]),
            (["z", "q"], [2, 0], [1, 0, 0, 1]),
            (["z"], [2], [0, 1, 0, 0]),
            (["z"], [1], [0, 0, 1, 0]),
        ):
            assert outcome_counts(watch, true(ids, labels, time=START)) == counts
        assert (watch.whole().known, watch.whole().misses, watch.whole().waiting) == (2, 1, 1)
        assert watch.add(answered(["z"])).counted == 1  # its outcome came before
        assert (watch.whole().known, watch.whole().misses, watch.whole().waiting) == (3, 2, 1)
        assert outcome_counts(watch, true(["z"], [2], time=START)) == [0, 1, 0, 0]
        counted = watch.status().counts
    assert counted == Counts(rows=4, counted=3, repeated=3, conflicting=2, early=1)


def test_what_is_refused_leaves_no_trace(tmp_path: Path) -> None:
    with started(tmp_path / "w.db") as watch:
        watch.add(answered(["p"], sites=["a"], groups={"sex": ["F"]}))
        before = sqlite3.connect(tmp_path / "w.db").iterdump()
        lines = list(before)
        for rows, outcomes, words in (
            (answered(["q", "p"], sites=["c", "c"]), true(["q"], 0), "the id p is there already"),
            (answered(["q", "q"]), true([], 0), "the id q is there twice"),
            (answered(["q", ""]), true([], 0), "is empty"),
            (answered(["q"], time=np.nan), true([], 0), "not one since 1970"),
            (answered(["q"]), true(["q"], 3), "3 is not a class from 0 to 2"),
            (answered(["q"]), true(["q"], np.nan), "nan is not a class"),
            (Predicted(ids=["q"], times=np.zeros(1)), true([], 0), "the watch is over sets"),
            (Predicted(ids=["q"], times=np.zeros(1), sets=np.ones((1, 2), dtype=np.bool_)), true([], 0), "2 classes"),
        ):
            with pytest.raises(InputError, match=words):
                watch.add(rows, outcomes)
        assert list(sqlite3.connect(tmp_path / "w.db").iterdump()) == lines
        assert watch.add(answered(["q"], sites=["c"])).rows == 1


def test_days_never_go_back(tmp_path: Path) -> None:
    """A clock that was set back, and outcomes of long ago: counts that were sent once stay as they were."""
    with started(tmp_path / "w.db") as watch:
        watch.add(answered(["p", "q"], time=START + 5 * DAY))
        watch.add(None, true(["p"], 2, time=START + 6 * DAY))
        before = watch.history()[0]
        added = watch.add(answered(["r"], time=START + DAY), true(["q"], 2, time=START + 2 * DAY))
        assert added.late == 1
        same, period = watch.history()
        assert same == before
        assert (period.streams[0].before.known, period.streams[0].after.known) == (0, 2)
        assert watch.status().days == (20_705, 20_706)


def test_an_outcome_is_never_before_its_row(tmp_path: Path) -> None:
    with started(tmp_path / "w.db") as watch:
        watch.add(answered(["p"], time=START + 5 * DAY), true(["p"], 2, time=START))
        assert watch.status().days == (20_705, 20_705)
        watch.add(answered(["q"], time=START + 9 * DAY))
        assert watch.add(None, true(["q"], 2, time=START + 6 * DAY)).late == 0
        assert [one.streams[0].after.known for one in watch.history()] == [1, 1, 1, 1, 2]
    with started(tmp_path / "v.db", limit=0.2) as watch:  # misses come first, and all rows were there before
        ids = [f"p{i}" for i in range(400)]
        watch.add(answered(ids), true(ids, [2] * 60 + [0] * 340))
        assert (watch.whole().misses, watch.whole().alarm_at) == (60, None)


def test_periods_fit_together(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    with started(tmp_path / "w.db") as watch:
        for day in range(10):
            ids = [f"{day}-{k}" for k in range(20)]
            watch.add(answered(ids, time=START + day * DAY, hold=rng.random(20) < 0.5))
            watch.add(None, true(ids[:15], rng.integers(0, 3, 15), time=START + day * DAY + 60))
        days, whole = watch.history(), watch.whole()
        assert [one.streams[0].after for one in days[:-1]] == [one.streams[0].before for one in days[1:]]
        assert [one.first for one in days] == [one.last for one in days] == list(range(20_700, 20_710))
        last = days[-1].streams[0]
        assert last.after == Tally(whole.known, whole.misses, whole.waiting, whole.sizes)
        assert last.monitor().log_e_value == whole.log_e_value
        assert last.alarm == whole.alarm_day is not None
        assert days[0].predictor.hex() == watch.settings.predictor
        watch.add(answered(["late"], time=START + 119 * DAY))
        assert [one.last - one.first for one in watch.history()] == [1] * 60
    with started(tmp_path / "v.db") as watch, pytest.raises(InputError, match="nothing was added so far"):
        watch.send()


def test_sites_are_watched_by_themselves(tmp_path: Path) -> None:
    rng, rows = np.random.default_rng(0), 400
    rule = predictor(fc.EverySite())
    ids, sites = [f"p{k}" for k in range(rows)], ["a" if k % 2 else "b" for k in range(rows)]
    bad = np.array([site == "b" for site in sites]) & (rng.random(rows) < 0.6)
    with Watch.start(tmp_path / "w.db", rule, limits_of(rule)) as watch:
        watch.add(answered(ids, sites=sites, groups={"sex": ["F"] * rows}), true(ids, np.where(bad, 2, 0)))
        watch.add(answered(["other"], sites=["c"]))  # which has no limit, and counts among all rows
        found = {one.called: one for one in watch.status().streams}
        assert {name: one.verdict for name, one in found.items()} == {
            "all rows": "alarm",
            "site a": "holds",
            "site b": "alarm",
        }
        assert (found["site b"].known, found["all rows"].waiting) == (200, 1)
        assert found["site b"].false_alarm == 0.025 / 2 / 2  # two families, and two sites in this one
        assert watch.status().verdict == "alarm"
        assert [(one.site, len(one.streams)) for one in watch.history()] == [("all sites", 1), ("a", 1), ("b", 1)]


@pytest.mark.filterwarnings("ignore::fedconformal.errors.ClassCountsWarning")
def test_all_rows_that_wait_count_as_covered_rows_of_each_class(tmp_path: Path) -> None:
    """The class of a row is not known before its outcome; three misses of a class say nothing while hundreds wait."""
    probs, labels = rows_of(0, 900)
    said: dict[str, Any] = {"score": fc.LAC(), "classes": CLASSES, "site": "a"}
    sent = fc.summarize(probs, np.array(CLASSES)[labels], by_class=True, **said)
    rule = fc.calibrate([sent], alpha=0.1, guarantee=fc.ByClass())
    with Watch.start(tmp_path / "w.db", rule, limits_of(rule)) as watch:
        ids = [f"p{k}" for k in range(300)]
        watch.add(answered(ids))
        watch.add(None, true(ids[:10], 2))
        found = {one.name: one for one in watch.status().streams}["unsure"]
        assert (found.known, found.misses, found.waiting) == (10, 10, 290)
        assert found.verdict == "too early"
        for k in range(10, 300, 29):  # after enough of these it is clear that others are not of that class
            watch.add(None, true(ids[k : k + 29], 0))
        found = {one.name: one for one in watch.status().streams}["unsure"]
        assert (found.waiting, found.verdict, found.alarm_at) == (0, "alarm", 10)
        assert [one.group for one in watch.history()[0].streams] == ["", *(f"class={name}" for name in CLASSES)]


def test_purged_rows_stay_waiting(tmp_path: Path) -> None:
    with started(tmp_path / "w.db") as watch:
        watch.add(answered(["patient-17", "q"], time=START), true(["patient-17"], 2))
        watch.add(answered(["r"], time=START + 9 * DAY))
        assert watch.purge(20_705) == Counts(purged=2, purged_waiting=1)
        assert b"patient-17" not in b"".join(path.read_bytes() for path in tmp_path.iterdir())
        assert (watch.whole().known, watch.whole().waiting) == (1, 2)
        assert outcome_counts(watch, true(["q"], [2], time=START + 10 * DAY))[3] == 1
        assert (watch.whole().known, watch.whole().misses, watch.whole().waiting) == (1, 1, 2)
        assert watch.status().counts.purged_waiting == 1
        with pytest.raises(
            InputError, match="patient-17 was answered before 2026-09-09, and rows from before that day"
        ):
            watch.add(answered(["patient-17", "q"], time=START), true(["patient-17"], 2))
        assert (watch.whole().known, watch.whole().misses, watch.whole().waiting) == (1, 1, 2)


def test_only_the_bits_of_a_set_are_kept_and_only_until_the_outcome(tmp_path: Path) -> None:
    with started(tmp_path / "w.db") as watch:
        scores = np.full((2, 3), 0.123456789)
        watch.add(answered(["p", "q"], scores=scores), true(["p"], 2))
    with sqlite3.connect(tmp_path / "w.db") as raw:
        held = dict(raw.execute("SELECT id, held FROM rows"))
    assert held == {"p": None, "q": b"\x80"}
    assert stat.S_IMODE((tmp_path / "w.db").stat().st_mode) == 0o600


def test_a_commit_waits_for_the_disk(tmp_path: Path) -> None:
    started(tmp_path / "w.db").__exit__()
    with Watch.open(tmp_path / "w.db") as watch:
        raw = watch._connection
        found = [raw.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous")]
    assert found == ["wal", 2]


def test_changes_of_scores_are_noticed(tmp_path: Path) -> None:
    """Through the file, in batches, the same bits as the detector itself."""
    rule = predictor()
    new, _ = rows_of(6, 400)
    new[200:] = np.sort(new[200:], axis=1)[:, ::-1] ** 3 + 1e-3
    new[200:] /= new[200:].sum(axis=1, keepdims=True)
    before, after = (rule.score.evaluate_all(one.astype(np.float32)).min(axis=1) for one in (rows_of(5, 500)[0], new))
    Watch.start(tmp_path / "w.db", rule, limits_of(rule), scores=before).__exit__()
    for start in range(0, 400, 37):
        with Watch.open(tmp_path / "w.db") as watch:
            some = slice(start, start + 37)
            days = START + np.arange(400.0)[some] // 20 * DAY
            ids = [f"p{k}" for k in range(400)[some]]
            watch.add(Predicted(ids=ids, times=days, sets=rule.predict_set(new[some]), scores=after[some]))
    with Watch.open(tmp_path / "w.db") as watch:
        found = watch.detector.read()
        assert found is not None
        daily = wanted = ChangeDetector(before, random_state=found.random_state)
        wanted = wanted.update(after)
        assert np.array_equal(found.scores, wanted.scores)
        assert (found.rows, found.bets) == (wanted.rows, wanted.bets)
        *before, last = [one.streams[0].changed for one in watch.history()]
        states = [(daily := daily.update(after[k : k + 20])) for k in range(0, 400, 20)]
        noticed = next(day for day, one in enumerate(states) if one.log_e_value >= -math.log(0.025 / 2))
        assert last == 20_700 + noticed
        assert before == [None] * noticed + [last] * (19 - noticed)
        assert "Scores have changed" in watch.status().scores
        assert watch.add(answered(["z"], time=START + 30 * DAY)).unscored == 1


def test_all_families_of_alarms_share_the_error(tmp_path: Path) -> None:
    rule, seeds = predictor(fc.EverySite()), set()
    for name in "vw":
        path = tmp_path / name
        Watch.start(path, rule, limits_of(rule), scores=np.zeros(50), false_alarm=0.03).__exit__()
        with Watch.open(path) as watch:
            rates = {one.kind: one.false_alarm for one in watch.status().streams}
            assert rates == {"all": 0.01, "site": 0.005}  # and the detector
            assert watch.detector.enough == pytest.approx(np.log(100))
            detector = watch.detector.read()
            assert detector is not None
            seeds.add(detector.random_state)
    assert len(seeds) == 2  # watches break ties by draws of their own


def test_intervals_hold_their_ends(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rule = fc.calibrate([fc.Summary.of_scores(rng.random(200), score=fc.Residual(), site="a")])
    ends = np.array([[0.0, 1.0], [0.0, 1.0], [0.0, 1.0], [-np.inf, 1.0], [0.0, 1.7e308], [0.0, 1.7e308]])
    with Watch.start(tmp_path / "w.db", rule, limits_of(rule)) as watch:
        ids = ["p", "q", "r", "s", "t", "u"]
        values = np.array([0.0, 1.0, np.nextafter(1.0, 2), -9.0, 1.0, 1.0])
        watch.add(Predicted(ids=ids, times=np.zeros(6), ends=ends), Outcomes(ids=ids, times=np.zeros(6), values=values))
        assert watch.whole().misses == 1
        assert watch.send()[0].streams[0].after.sizes == 3.0


def test_other_files_are_refused_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "w.db"
    started(path).__exit__()
    with pytest.raises(InputError, match="exists already"):
        started(path)
    with pytest.raises(InputError, match="there is no such file"):
        Watch.open(tmp_path / "none.db")
    (tmp_path / "text.db").write_text("id,label\n" * 1000)
    with pytest.raises(StoreError, match="is not the file of a watch"):
        Watch.open(tmp_path / "text.db")


def test_a_full_disk_is_said_and_nothing_is_lost(tmp_path: Path) -> None:
    with started(tmp_path / "w.db") as watch:
        watch.add(answered(["p"]), true(["p"], 2))
        raw: Any = watch._connection
        (pages,) = raw.execute("PRAGMA page_count").fetchone()
        raw.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(StoreError, match="the disk is full; make room and try again"):
            watch.add(answered([f"q{k}" for k in range(20_000)]))
        assert (watch.whole().known, watch.whole().waiting) == (1, 0)
        raw.execute("PRAGMA max_page_count = 1000000")
        watch.add(answered([f"q{k}" for k in range(20_000)]))
        assert watch.whole().waiting == 20_000


def test_a_watch_over_one_site_takes_no_others(tmp_path: Path) -> None:
    rule = predictor(fc.EverySite())
    with Watch.start(tmp_path / "w.db", rule, limits_of(rule, site="a"), site="a") as watch:
        with pytest.raises(InputError, match="a row is of site b, and the watch is over site a alone"):
            watch.add(answered(["p"], sites=["b"]))
        watch.add(answered(["p"], sites=["a"]))
        assert watch.history()[0].site == "a"
