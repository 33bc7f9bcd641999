"""Streams: all rows, or those of a site, a group or a class, each with counts and evidence of its own.

An event is a row that was answered, or an outcome. Rows without an outcome count as covered at the moment of each
outcome, so the evidence is that of what is known at that moment. Batches do not matter: the state is that of feeding
`Monitor.update` with one outcome after the other.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedconformal._base.arrays import Booleans, Floats, Integers
from fedconformal.errors import InputError
from fedconformal.monitoring.change import StoredDetector
from fedconformal.monitoring.messages import ALL_SITES, MOST_STREAMS, Period, Stream, Tally, day_of
from fedconformal.monitoring.monitor import Monitor, verdict_of

WHOLE, SITE, GROUP, CLASS = "all", "site", "group", "class"
"""Kinds of streams."""
MOST_SITES = 100_000
"""Maximum number of sites in a watch."""


@dataclass(frozen=True)
class StreamState:
    """Limit of a stream (None if there is none), and its counts so far.

    >>> quiet = StreamState(0, "all", "", 0.2, 0.05, 0.0, known=900, misses=90.0)
    >>> loud = StreamState(0, "all", "", 0.2, 0.05, 0.0, 10, 9.0, alarm_at=9, alarm_day=20773)
    >>> quiet.verdict, loud.verdict, loud.called
    ('holds', 'alarm', 'all rows')
    """

    number: int
    kind: str
    name: str
    limit: float | None
    false_alarm: float
    failure: float
    known: int = 0
    misses: float = 0.0
    waiting: int = 0
    sizes: float = 0.0
    alarm_at: int | None = None
    alarm_day: int | None = None

    def monitor(self) -> Monitor:
        """Return the monitor of misses; without a limit, its evidence means nothing."""
        shared = {one.name: getattr(self, one.name) for one in fields(Monitor)}
        return Monitor(**shared | {"limit": 0.5 if self.limit is None else self.limit})

    @property
    def tally(self) -> Tally:
        """The counts."""
        return Tally(self.known, self.misses, self.waiting, self.sizes)

    @cached_property
    def interval(self) -> tuple[float, float]:
        """Confidence sequence of the miss rate."""
        return self.monitor().interval

    @cached_property
    def verdict(self) -> str:
        """State: "alarm", "holds", "too early" or "no limit"."""
        alarm = self.alarm_at is not None
        return verdict_of(self.limit, alarm=alarm, known=self.known, upper=lambda: self.interval[1])

    @property
    def called(self) -> str:
        """Name of the stream in a sentence."""
        if self.kind == WHOLE:
            return "all rows"
        return self.name if "=" in self.name else f"{self.kind} {self.name}"

    @property
    def rate(self) -> float | None:
        """Observed miss rate."""
        return self.misses / self.known if self.known else None


class Events(NamedTuple):
    """Events in their order: days, whether each is an outcome, losses, and set sizes."""

    days: Integers
    known: Booleans
    missed: Floats
    sizes: Floats

    def some(self, index: Any) -> Events:
        """Take some of them."""
        return Events(*(column[index] for column in self))


DayTally = tuple[int, int, int, float, int, float]
"""A stream, a day, and the counts at its end."""


def advance(state: StreamState, events: Events, waiting: Integers | None = None) -> tuple[StreamState, list[DayTally]]:
    """Apply events to a stream, in their order; also return its counts at the end of each day with an event.

    `waiting` is the number of rows that wait after each event, where these are not the stream's own: the class of a row
    is unknown before its outcome, so all rows that wait count as covered rows of each class.
    """
    days, known, missed, sizes = events
    rising = waiting is not None or known.any()  # a row alone only lowers the evidence
    if waiting is None:
        waiting = _running(state.waiting, np.where(known, -1, 1))
    counted = _running(state.known, known.astype(np.int64))
    misses, total = _running(state.misses, missed), _running(state.sizes, sizes)
    alarm_at, alarm_day = state.alarm_at, state.alarm_day
    if state.limit is not None and alarm_at is None and rising:
        place = state.monitor().first_alarm(misses, counted, waiting)
        if place is not None:
            alarm_at, alarm_day = int(counted[place]), int(days[place])
    ends = [*np.flatnonzero(days[1:] != days[:-1]).tolist(), -1]
    rows = zip(*(column[ends].tolist() for column in (days, counted, misses, waiting, total)), strict=True)
    tallies: list[DayTally] = [(state.number, *row) for row in rows]
    _, _, last, lost, still, size = tallies[-1]
    return replace(
        state, known=last, misses=lost, waiting=still, sizes=size, alarm_at=alarm_at, alarm_day=alarm_day
    ), tallies


def _running(start: float, added: NDArray[Any]) -> NDArray[Any]:
    """Add up one after the other, so that batches do not matter to the last bit."""
    found = added.copy()
    found[0] += start
    summed: NDArray[Any] = np.add.accumulate(found)
    return summed


Tallies = dict[int, Tally]


class Span(NamedTuple):
    """A period: its first day, its last day, and the first day that groups, classes and sites count from.

    The last is before the period if these were withheld since then; None if they are withheld now. All of them go
    together: the rows of one that is missing would be those of all rows without the others.
    """

    first: int
    last: int
    since: int | None


def observed_days(connection: sqlite3.Connection) -> tuple[int, int] | None:
    """Return the first day and the last day on which anything came."""
    first, last = connection.execute("SELECT min(day), max(day) FROM tallies WHERE stream = 0").fetchone()
    return None if first is None else (first, last)


def messages_of(
    connection: sqlite3.Connection,
    states: Sequence[StreamState],
    detector: StoredDetector,
    predictor: str,
    site: str | None,
    span: Span,
) -> list[Period]:
    """Return the messages of a period: one of all rows, groups and classes, and one of each site.

    Only streams with a limit are included.
    """
    first, last, since = span
    if last < first:
        raise InputError(f"the period ends on {day_of(last)}, before it begins on {day_of(first)}")
    before, after = _tallies(connection, first - 1), _tallies(connection, last)
    before_parts = before if since is None or since == first else _tallies(connection, since - 1)
    together: list[Stream] = []
    found, withheld = [(site or ALL_SITES, together)], False
    for state in states:
        if state.limit is None or (state.kind == SITE and state.number not in after):
            continue
        if state.kind != WHOLE and since is None:
            withheld = True
            continue
        stream = _stream(state, detector, before if state.kind == WHOLE else before_parts, after, last)
        if state.kind != SITE:
            together.append(stream)
        else:
            found.append((state.name, [stream]))
    if len(together) > MOST_STREAMS:
        raise InputError(f"there are more than {MOST_STREAMS} groups, which is more than a message holds")
    digest = bytes.fromhex(predictor)
    return [Period(digest, name, first, last, tuple(streams), withheld) for name, streams in found]


def has_small_parts(found: Sequence[Period], least: int) -> bool:
    """Whether a group, a class or a site has new outcomes and fewer than `least`, or all rows but its own have."""
    whole, *parts = (stream.new for one in found for stream in one.streams)
    return any(0 < few < least for new in parts for few in (new, whole - new))


def _tallies(connection: sqlite3.Connection, day: int) -> Tallies:
    """Return the counts of each stream at the end of a day."""
    query = (
        "SELECT stream, known, misses, waiting, sizes FROM tallies AS t WHERE day = "
        "(SELECT max(day) FROM tallies WHERE stream = t.stream AND day <= ?)"
    )
    return {stream: Tally(*row) for stream, *row in connection.execute(query, (day,))}


def _stream(state: StreamState, detector: StoredDetector, before: Tallies, after: Tallies, last: int) -> Stream:
    return Stream(
        limit=state.limit or 0.0,
        false_alarm=state.false_alarm,
        failure=state.failure,
        before=before.get(state.number, Tally()),
        after=after.get(state.number, Tally()),
        group={WHOLE: "", SITE: "", CLASS: f"class={state.name}"}.get(state.kind, state.name),
        alarm=state.alarm_day if state.alarm_day is not None and state.alarm_day <= last else None,
        changed=detector.changed(last) if state.kind == WHOLE else None,
    )
