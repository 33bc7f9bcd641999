"""Streams: all rows, or those of a site, a group or a class, each with counts and evidence of its own.

An event is a row that was answered, or an outcome. Rows without an outcome count as covered at the moment of each
outcome, so the evidence is that of what is known at that moment. Batches do not matter: the state is that of feeding
`Monitor.update` with one outcome after the other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedconformal._base.arrays import Booleans, Floats, Integers
from fedconformal.monitoring.monitor import MOST_ROWS, Monitor, verdict_of

WHOLE, SITE, GROUP, CLASS = "all", "site", "group", "class"
"""Kinds of streams."""
MOST_SITES, MOST_STREAMS = 100_000, 1000
"""Maximum number of sites in a watch, and of groups in a watch or a message."""

Count = Annotated[int, msgspec.Meta(ge=0, le=MOST_ROWS)]


class Tally(msgspec.Struct, array_like=True, forbid_unknown_fields=True, frozen=True):
    """Rows since the watch began: with a known outcome, missed, without an outcome yet; and the sizes of their sets."""

    known: Count = 0
    misses: int | float = 0
    waiting: Count = 0
    sizes: int | float = 0
    """Labels in all sets, or the widths of all intervals, added up."""

    def __post_init__(self) -> None:
        for name in ("misses", "sizes"):
            value = getattr(self, name)
            if isinstance(value, float) and value.is_integer() and abs(value) <= MOST_ROWS:  # which is shorter
                msgspec.structs.force_setattr(self, name, int(value))
        if not 0 <= self.misses <= self.known or not 0 <= self.sizes < math.inf:
            raise ValueError("more misses than known rows, or sizes that are no sizes")

    def can_become(self, later: Tally) -> bool:
        """Whether later counts could be these: counts since the start never fall."""
        return self.known <= later.known and self.misses <= later.misses and self.sizes <= later.sizes


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
        """One of alarm, holds, too early, no limit."""
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
