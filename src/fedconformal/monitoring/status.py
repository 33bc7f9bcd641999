"""What a watch says now, of all rows and by site and group: a verdict in words, and the numbers behind it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from fedconformal.monitoring.changes import Changes
from fedconformal.monitoring.period import LAST_DAY, day_of
from fedconformal.monitoring.streams import WHOLE, State
from fedconformal.monitoring.verdict import ALARM, HOLDS, verdict_of


@dataclass(frozen=True)
class StreamStatus:
    """What is said of one stream.

    >>> quiet = StreamStatus(State(0, "all", "", 0.2, 0.05, 0.0, known=900, misses=90.0))
    >>> loud = StreamStatus(State(0, "all", "", 0.2, 0.05, 0.0, known=10, misses=9.0, alarm_at=9, alarm_day=20773))
    >>> quiet.words, loud.words
    ('holds', 'alarm since 2026-11-16 (row 9)')
    """

    state: State

    @cached_property
    def interval(self) -> tuple[float, float]:
        """Bound the miss rate at all times at once."""
        return self.state.monitor().interval

    @cached_property
    def verdict(self) -> str:
        """Judge the stream."""
        one = self.state
        alarm = one.alarm_at is not None
        return verdict_of(one.limit, alarm=alarm, known=one.known, most=lambda: self.interval[1])

    @property
    def log_e_value(self) -> float | None:
        """The evidence now, where there is a limit."""
        return None if self.state.limit is None else self.state.monitor().log_e_value

    @property
    def called(self) -> str:
        """What its rows are called."""
        if self.state.kind == WHOLE:
            return "all rows"
        return self.state.name if "=" in self.state.name else f"{self.state.kind} {self.state.name}"

    @property
    def rate(self) -> float | None:
        """How often rows with a known outcome were missed."""
        return self.state.misses / self.state.known if self.state.known else None

    @property
    def words(self) -> str:
        """The verdict, and since when."""
        if self.state.alarm_day is None:
            return self.verdict
        return f"alarm since {day_of(self.state.alarm_day)} (row {self.state.alarm_at})"

    def to_dict(self) -> dict[str, Any]:
        """Describe for JSON."""
        one, day = self.state, self.state.alarm_day
        return {
            "kind": one.kind,
            "name": one.name or None,
            "verdict": self.verdict,
            "limit": one.limit,
            "false_alarm": one.false_alarm,
            "failure": one.failure,
            "known": one.known,
            "misses": one.misses,
            "waiting": one.waiting,
            "miss_rate": self.rate,
            "interval": list(self.interval),
            "log_e_value": self.log_e_value,
            "alarm_day": None if day is None else day_of(day).isoformat(),
            "alarm_at": one.alarm_at,
        }


@dataclass(frozen=True, kw_only=True)
class Change:
    """What a detector of changes says."""

    name: str
    rows: int
    log_e_value: float
    days: tuple[int, int] | None

    @property
    def words(self) -> str:
        """Whether scores have changed, and since when."""
        if self.days is None:
            return f"no change of scores noticed in {self.rows} rows"
        alarm, since = map(day_of, self.days)
        return f"scores have changed since about {since}, noticed on {alarm}"


@dataclass(frozen=True, kw_only=True)
class Status:
    """What a watch says, all of it."""

    streams: list[StreamStatus]
    changes: list[Change]
    counts: dict[str, int]
    closed: bool

    @property
    def verdict(self) -> str:
        """An alarm if any stream has one; else what is said of all rows."""
        return ALARM if any(one.verdict == ALARM for one in self.streams) else self.streams[0].verdict

    @property
    def sentence(self) -> str:
        """Say it for people."""
        raised = [one for one in self.streams if one.verdict == ALARM]
        whole = self.streams[0]
        if raised:
            first = min(raised, key=lambda one: one.state.alarm_day or math.inf)
            more = f", and of {len(raised) - 1} more" if raised[1:] else ""
            return f"The promise is not kept: alarm of {first.called} since {day_of(first.state.alarm_day or 0)}{more}."
        if whole.verdict == HOLDS:
            limit = f"the limit is {whole.state.limit:.4g}"
            return f"The promise holds: at most {whole.interval[1]:.4g} of the rows are missed, {limit}."
        low, high = whole.interval
        known = f"{whole.state.known} outcomes are known, {whole.state.waiting} rows wait"
        return f"It is too early to tell: {known}, and between {low:.4g} and {high:.4g} of the rows are missed."


def status(states: Sequence[State], changes: Changes, counts: dict[str, int], *, closed: bool) -> Status:
    """Say how things are now."""
    found = []
    for name in changes.names():
        detector, days = changes.read(name), changes.at(name, LAST_DAY)[1]
        found.append(Change(name=name, rows=detector.rows, log_e_value=detector.log_e_value, days=days))
    return Status(streams=list(map(StreamStatus, states)), changes=found, counts=counts, closed=closed)
