"""A site fixes the periods that it sends: no two answers differ by a few outcomes, and what is withheld is no zero."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.errors import InputError
from fedconformal.federated.watch import outgoing
from fedconformal.monitoring.combine import combine, histories_of
from fedconformal.monitoring.limits import limits_of
from fedconformal.monitoring.messages import Period
from fedconformal.monitoring.store import Watch
from fedconformal.monitoring.text import to_dict, to_do
from fedconformal.privacy import Policy
from tests.monitoring.watches import START, answered, predictor, started, summaries, true

DAY = 86_400
FIRST = 20_700


def add(watch: Watch, day: int, rows: int, *, missed: int = 0, **about: Any) -> None:
    """Add rows of a day with their outcomes."""
    ids, then = [f"{day}-{k}-{watch.whole().known}" for k in range(rows)], START + day * DAY
    labels = np.where(np.arange(rows) < missed, 2, 0)
    watch.add(answered(ids, time=then, **about), true(ids, labels, time=then + 60))


def days(periods: list[Period]) -> list[tuple[int, int, int]]:
    return [(one.first - FIRST, one.last - FIRST, one.streams[0].new) for one in periods]


def test_a_day_is_sent_once(tmp_path: Path) -> None:
    with started(tmp_path / "w.db") as watch:
        assert watch.sent() == []
        for day in range(6):
            add(watch, day, 20)
        first = watch.send(FIRST + 3)
        assert days(first) == [(0, 3, 80)]
        for last in (FIRST + 2, FIRST + 3):
            with pytest.raises(InputError, match="a period begins on 2026-09-08, and a day is sent once"):
                watch.send(last)
        assert days(watch.send()) == [(0, 3, 80), (4, 5, 40)]
    with Watch.open(tmp_path / "w.db") as watch:  # it remembers
        assert days(watch.send()) == [(0, 3, 80), (4, 5, 40)] == days(watch.sent())
        assert watch.sent()[0] == first[0]
        add(watch, 6, 20)
        add(watch, 7, 20)
        assert days(watch.send(by_day=True)) == [(0, 3, 80), (4, 5, 40), (6, 6, 20), (7, 7, 20)]
        with pytest.raises(InputError, match="9999-12-31: is not over"):
            watch.send(2_932_896)


def test_a_site_sends_no_more_messages_than_are_read(tmp_path: Path) -> None:
    """A row with a wrong date, decades ago, is in one long period with the others."""
    with started(tmp_path / "w.db") as watch:
        add(watch, -FIRST, 2)
        add(watch, 0, 20)
        add(watch, 1, 20)
        (sent,) = watch.send(by_day=True)
        assert (sent.first, sent.last, sent.streams[0].new) == (0, FIRST + 1, 42)
        add(watch, 2, 20)
        assert histories_of(watch.send(by_day=True))[0].known[-1] == 62


def test_without_new_outcomes_nothing_is_sent(tmp_path: Path) -> None:
    with started(tmp_path / "w.db") as watch:
        watch.add(answered(["a"]))
        with pytest.raises(InputError, match="no outcome has come"):
            watch.send(check=lambda new: Policy().check(outgoing(new)))


def test_what_comes_later_counts_on_a_day_that_was_not_sent(tmp_path: Path) -> None:
    """One more outcome of the last day would be the difference between a period's end and the next one's start."""
    with started(tmp_path / "w.db") as watch:
        add(watch, 0, 20)
        (sent,) = watch.send()
        add(watch, 0, 1, missed=1)
        add(watch, 3, 20)
        again, after = watch.send()
        assert again == sent
        assert after.streams[0].before == sent.streams[0].after
        assert (after.first, after.streams[0].new) == (FIRST + 1, 21)
        assert histories_of([again, after])[0].known[-1] == 41


def test_what_must_not_leave_is_not_fixed(tmp_path: Path) -> None:
    def refuse(new: Any) -> None:
        assert days(list(new)) == [(0, 0, 20)]
        raise InputError("no")

    with started(tmp_path / "w.db") as watch:
        add(watch, 0, 20)
        with pytest.raises(InputError, match="no"):
            watch.send(check=refuse)
        assert watch.sent() == []
        assert days(watch.send(check=lambda _: None)) == [(0, 0, 20)]
        assert days(watch.send(check=lambda _: pytest.fail("nothing is new"))) == [(0, 0, 20)]


def test_what_is_withheld_is_not_zero(tmp_path: Path) -> None:
    rule = predictor(fc.EverySite())
    with Watch.start(tmp_path / "w.db", rule, limits_of(rule)) as watch:
        for day, few in enumerate((30, 29, 1)):
            add(watch, day, 30 + few, sites=["a"] * 30 + ["b"] * few)
            watch.send(least=30)
        found = watch.sent()
    assert [(one.site, one.withheld) for one in found] == [
        *(("all sites", False), ("a", False), ("b", False)),
        ("all sites", True),
        *(("all sites", False), ("a", False), ("b", False)),
    ]
    of_b = [one.streams[0] for one in found if one.site == "b"]
    assert [one.new for one in of_b] == [30, 30]  # those of the second day are among the others
    assert of_b[1].before == of_b[0].after
    assert all(stream.new >= 30 for one in found for stream in one.streams)
    together = combine([one for one in found if one.site == "all sites"])
    stated = {"site": "all sites", "days": ["2026-09-05", "2026-09-05"]}
    assert to_dict(together)["withheld"] == [stated]
    assert any("withheld by all sites: there are too few outcomes, not zero" in step for step in to_do(together))


def test_all_rows_but_those_of_a_site_are_counted_too(tmp_path: Path) -> None:
    """One site has a limit, the other has none and is not sent: its outcome is that of all rows without the first."""
    rule = predictor()
    with Watch.start(tmp_path / "w.db", rule, limits_of(rule, summaries=summaries()[:1])) as watch:
        add(watch, 0, 31, sites=["a"] * 30 + ["b"])
        assert [(one.site, one.withheld) for one in watch.send(least=30)] == [("all sites", True)]
        add(watch, 1, 59, sites=["a"] * 30 + ["b"] * 29)
        assert [one.site for one in watch.send(least=30)] == ["all sites", "all sites", "a"]
        assert watch.sent()[-1].streams[0].new == 60
