"""What is watched by itself: all rows, those of a site, a group or a class; and how events move each of them on.

An event is a row that was answered, or an outcome. Rows without an outcome count as covered, also those that wait for
one at the moment of each outcome. So the evidence is that of what is known at that moment, and it does not matter in
which batches events come: the state is that of feeding `Monitor.update` with one outcome after the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedconformal._base.arrays import Booleans, Floats, Integers
from fedconformal.monitoring.monitor import Monitor
from fedconformal.monitoring.period import Tally

WHOLE, SITE, GROUP, CLASS = "all", "site", "group", "class"
"""What streams are of."""


@dataclass(frozen=True, slots=True)
class State:
    """A stream: what is watched, by which limit (None if there is none), and all that came so far."""

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
        """Return the watch over misses; where there is no limit, one whose evidence means nothing."""
        return Monitor(
            limit=0.5 if self.limit is None else self.limit,
            false_alarm=self.false_alarm,
            failure=self.failure,
            known=self.known,
            misses=self.misses,
            waiting=self.waiting,
            alarm_at=self.alarm_at,
        )

    @property
    def tally(self) -> Tally:
        """The counts."""
        return Tally(self.known, self.misses, self.waiting, self.sizes)

    @property
    def values(self) -> tuple[Any, ...]:
        """What changes, for the database."""
        return self.known, self.misses, self.waiting, self.sizes, self.alarm_at, self.alarm_day, self.number


class Events(NamedTuple):
    """Events in their order: the day, whether it is an outcome, how much was missed, what it adds to the sizes."""

    days: Integers
    known: Booleans
    missed: Floats
    sizes: Floats

    def some(self, index: Any) -> Events:
        """Take some of them."""
        return Events(*(column[index] for column in self))


class Moved(NamedTuple):
    """A stream after events, and its counts at the end of each day on which there was one."""

    state: State
    tallies: list[tuple[int, int, int, float, int, float]]


def moved(state: State, events: Events, waiting: Integers | None = None) -> Moved:
    """Let events happen to a stream, in their order.

    `waiting` says how many rows wait after each event, where these are not the stream's own: those of a class are not
    known before their outcomes, so that all rows that wait count as covered rows of it.
    """
    days, known, missed, sizes = events
    if waiting is None:
        waiting = _running(state.waiting, np.where(known, -1, 1))
    counted = _running(state.known, known.astype(np.int64))
    misses, total = _running(state.misses, missed), _running(state.sizes, sizes)
    alarm_at, alarm_day = state.alarm_at, state.alarm_day
    if state.limit is not None and alarm_at is None and (misses > state.limit * (counted + waiting)).any():
        place = state.monitor().first_alarm(misses, counted, waiting)  # elsewhere the evidence is at most one
        if place is not None:
            alarm_at, alarm_day = int(counted[place]), int(days[place])
    ends = [-1] if days[0] == days[-1] else [*np.flatnonzero(days[1:] != days[:-1]).tolist(), -1]
    rows = zip(*(column[ends].tolist() for column in (days, counted, misses, waiting, total)), strict=True)
    tallies = [(state.number, *row) for row in rows]
    _, _, *counts = tallies[-1]
    named = dict(zip(("known", "misses", "waiting", "sizes"), counts, strict=True))
    after = State(
        state.number,
        state.kind,
        state.name,
        state.limit,
        state.false_alarm,
        state.failure,
        alarm_at=alarm_at,
        alarm_day=alarm_day,
        **named,
    )
    return Moved(after, tallies)


def _running(start: float, added: NDArray[Any]) -> NDArray[Any]:
    """Add up one after the other, so that batches do not matter to the last bit."""
    found = added.copy()
    found[0] += start
    summed: NDArray[Any] = np.add.accumulate(found)
    return summed


def parted(cells: Integers, streams: dict[int, tuple[int, ...]]) -> Iterator[tuple[int, Integers]]:
    """Return for each stream where its events are, in their order, from the cell of each event."""
    order = np.argsort(cells, kind="stable")
    starts = np.flatnonzero(np.diff(cells[order], prepend=-1)) if len(order) else np.empty(0, dtype=np.int64)
    found: dict[int, list[Integers]] = {}
    for cell, mine in zip(cells[order][starts].tolist(), np.split(order, starts[1:]), strict=True):
        for stream in streams[cell]:
            found.setdefault(stream, []).append(mine)
    for stream, parts in found.items():
        yield stream, np.sort(np.concatenate(parts)) if parts[1:] else parts[0]
