"""One transaction: decide which outcomes count, then apply rows and outcomes to streams and the detector in time order.

A stream is all rows, or those of a site, a group or a class with a limit of its own. An event is an answered row or an
outcome. Rows without an outcome count as covered at the time of each outcome, so the evidence is based on the outcomes
known at that time. Batches do not matter: the state equals that of calling `Monitor.update` with single outcomes in
order.

Until the outcome arrives, the bits of a set or the two ends of an interval are stored; for losses nothing is stored.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedconformal._base.arrays import Booleans, Floats, Integers
from fedconformal._base.groups import group_rows
from fedconformal._base.names import abbreviate, first_duplicate, name_key
from fedconformal.certificates.text import ClassNames, class_called
from fedconformal.errors import InputError
from fedconformal.monitoring import schema
from fedconformal.monitoring.change import StoredDetector
from fedconformal.monitoring.messages import LAST_DAY, day_of
from fedconformal.monitoring.monitor import Monitor, verdict_of

Kind = Literal["sets", "intervals", "losses"]

WHOLE, SITE, GROUP, CLASS = "all", "site", "group", "class"
"""Kinds of streams."""
DAY = 86_400
LONGEST_ID = 256
WIDEST = 1e280
"""Width from which an interval counts as unbounded; the sum over all rows is finite."""
LATEST = (LAST_DAY + 1) * DAY
"""The end of the year 9999, in seconds since 1970."""
THERE = "SELECT id, digest FROM rows WHERE id IN (SELECT value FROM json_each(?))"
ROWS = "SELECT id, time, streams, held, outcome FROM rows WHERE id IN (SELECT value FROM json_each(?))"
EARLY = "SELECT id, time, outcome FROM early WHERE id IN (SELECT value FROM json_each(?))"
STREAMS = "SELECT * FROM streams WHERE number IN (SELECT value FROM json_each(?))"
UPDATE = (
    "UPDATE streams SET known = ?, misses = ?, waiting = ?, sizes = ?, alarm_at = ?, alarm_day = ? WHERE number = ?"
)


@dataclass(frozen=True, kw_only=True)
class Predicted:
    """Answered rows in any order, with times in seconds since 1970.

    `sets` are (n, J) booleans, or `ends` are (n, 2) ends of intervals; neither if outcomes are losses. `scores` are
    those of the top labels, if known. `digests` identify the rows: a repeated row with the same id and digest counts
    once.
    """

    ids: Sequence[str]
    times: Floats
    sets: Booleans | None = None
    ends: Floats | None = None
    scores: Floats | None = None
    sites: Sequence[str | None] | None = None
    groups: Mapping[str, Sequence[str | None]] = field(default_factory=dict)
    digests: Sequence[bytes] | None = None

    def some(self, places: Sequence[int]) -> Predicted:
        """Return some of the rows."""

        def taken(column: Any) -> Any:
            if isinstance(column, np.ndarray):
                return column[np.array(places, dtype=np.int64)]
            return None if column is None else [column[place] for place in places]

        columns = {name: taken(column) for name, column in vars(self).items() if name != "groups"}
        return Predicted(**columns, groups={name: taken(column) for name, column in self.groups.items()})

    @property
    def kind(self) -> Kind:
        """The kind of the answers."""
        return "sets" if self.sets is not None else "intervals" if self.ends is not None else "losses"

    @property
    def sizes(self) -> Floats:
        """Number of labels in each set, or width of each interval; a width without bound counts as 0."""
        if self.sets is not None:
            return np.asarray(self.sets.sum(axis=1), dtype=np.float64)
        if self.ends is None:
            return np.zeros(len(self.ids))
        width = self.ends[:, 1] - self.ends[:, 0]
        return np.where(width < WIDEST, np.maximum(width, 0.0), 0.0)


@dataclass(frozen=True, kw_only=True)
class Outcomes:
    """True labels as class indices, true numbers, or losses divided by their bound."""

    ids: Sequence[str]
    times: Floats
    values: Floats

    def __len__(self) -> int:
        return len(self.ids)


NO_OUTCOMES = Outcomes(ids=(), times=np.empty(0), values=np.empty(0))


def check_ids(ids: Sequence[str], times: Floats, what: str) -> None:
    """Refuse repeated and unprintable ids, and times before 1970."""
    if len(set(ids)) < len(ids):
        raise InputError(f"the id {abbreviate(first_duplicate(ids))} is there twice; give each once", where=what)
    if not all(ids) or max(map(len, ids), default=0) > LONGEST_ID or not "".join(ids).isprintable():
        odd = next(row_id for row_id in ids if not 0 < len(row_id) <= LONGEST_ID or not row_id.isprintable())
        raise InputError(f"the id {abbreviate(odd)!r} is empty, too long, or cannot be printed", where=what)
    if not ((times >= 0) & (times < LATEST)).all():
        raise InputError("a time is not one since 1970", where=what)


def packed(rows: Predicted) -> list[bytes]:
    """Encode the stored part of each row."""
    if rows.ends is not None:
        return [end.tobytes() for end in np.ascontiguousarray(rows.ends, dtype="<f8")]
    if rows.sets is None:
        return [b""] * len(rows.ids)
    bits = np.packbits(rows.sets, axis=1)
    data, width = bits.tobytes(), bits.shape[1]
    return [data[start : start + width] for start in range(0, len(data), width)]


def unpacked(held: Sequence[bytes], width: int) -> Booleans:
    """Decode the sets of rows."""
    bits = np.frombuffer(b"".join(held), dtype=np.uint8).reshape(len(held), -(-width // 8))
    return np.unpackbits(bits, axis=1, count=width).astype(np.bool_)


def missed(kind: Kind, held: Sequence[bytes], values: Floats, width: int) -> Floats:
    """Return the loss of each row, from its stored part and its outcome.

    >>> rows = Predicted(ids=["p", "q"], times=np.zeros(2), sets=np.array([[True, False], [True, True]]))
    >>> missed("sets", packed(rows), np.array([1.0, 1.0]), 2)
    array([1., 0.])
    """
    if kind == "losses" or not len(held):
        return np.asarray(values, dtype=np.float64)
    if kind == "intervals":
        ends = np.frombuffer(b"".join(held), dtype="<f8").reshape(-1, 2)
        return ((values < ends[:, 0]) | (values > ends[:, 1])).astype(np.float64)
    inside = unpacked(held, width)[np.arange(len(held)), values.astype(np.int64)]
    return (~inside).astype(np.float64)


class Counts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Numbers of added rows and outcomes, by fate."""

    rows: int = 0
    counted: int = 0
    repeated: int = 0
    conflicting: int = 0
    early: int = 0
    late: int = 0
    unscored: int = 0
    purged: int = 0
    purged_waiting: int = 0

    def plus(self, other: Counts) -> Counts:
        """Return the sum of two counts."""
        return Counts(**{name: getattr(self, name) + getattr(other, name) for name in self.__struct_fields__})


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Fixed settings of a watch: predictor, basis of the limit and error probabilities."""

    kind: Kind
    predictor: str
    """The SHA-256 of the predictor."""
    basis: str
    false_alarm: float
    failure: float
    families: int
    """Number of families of streams and detectors, each with an equal part of `false_alarm`."""
    site: str | None = None

    @property
    def each(self) -> float:
        """False alarm probability of a family."""
        return self.false_alarm / self.families


@dataclass(frozen=True, kw_only=True)
class StreamState(Monitor):
    """The monitor of a stream in the file of a watch.

    >>> quiet = StreamState(limit=0.2, known=900, misses=90.0)
    >>> loud = StreamState(limit=0.2, known=10, misses=9.0, alarm_at=9, alarm_day=20773)
    >>> quiet.verdict, loud.verdict, loud.called
    ('holds', 'alarm', 'all rows')
    """

    number: int = 0
    kind: str = WHOLE
    name: str = ""
    sizes: float = 0.0
    alarm_day: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        day_of(self.alarm_day or 0)  # raises in a damaged file

    @classmethod
    def from_row(cls, row: Sequence[Any]) -> StreamState:
        """Return the state in a row of the table of streams."""
        return cls(**dict(zip((f.name for f in fields(cls)), row, strict=True)))

    @cached_property
    def verdict(self) -> str:
        """State: "alarm", "holds" or "too early"."""
        return verdict_of(self.limit, alarm=self.alarm, known=self.known, upper=lambda: self.interval[1])

    @property
    def called(self) -> str:
        """Name of the stream in a sentence."""
        if self.kind == WHOLE:
            return "all rows"
        return self.name if "=" in self.name else f"{self.kind} {self.name}"


class Events(NamedTuple):
    """Events in order: days, whether each is an outcome, losses and set sizes."""

    days: Integers
    known: Booleans
    missed: Floats
    sizes: Floats

    def some(self, index: Any) -> Events:
        """Return some of the events."""
        return Events(*(column[index] for column in self))


DayTally = tuple[int, int, int, float, int, float]
"""Stream, day, and counts at the end of the day."""


def advance(state: StreamState, events: Events, waiting: Integers | None = None) -> tuple[StreamState, list[DayTally]]:
    """Apply events to a stream in order, with the `waiting` rows after each; also return its counts of each day."""
    days, known, missed, sizes = events
    rising = waiting is not None or known.any()  # a row alone only lowers the evidence
    if waiting is None:
        waiting = _running(state.waiting, np.where(known, -1, 1))
    counted = _running(state.known, known.astype(np.int64))
    misses, total = _running(state.misses, missed), _running(state.sizes, sizes)
    alarm_at, alarm_day = state.alarm_at, state.alarm_day
    if alarm_at is None and rising:
        place = state.first_alarm(misses, counted, waiting)
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
    """Return the sequential cumulative sum, so that batches do not affect a single bit."""
    terms = added.copy()
    terms[0] += start
    return np.add.accumulate(terms)


class Settled(NamedTuple):
    """An outcome that counts now, with the streams and the stored part of its row."""

    id: str
    time: float
    value: float
    streams: str
    held: bytes


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """Rows, outcomes and streams in the database of a watch; every call is part of a transaction."""

    connection: sqlite3.Connection
    detector: StoredDetector
    settings: Settings
    labels: ClassNames

    def states(self, numbers: Sequence[int]) -> dict[int, StreamState]:
        """Read streams by their numbers."""
        found = map(StreamState.from_row, schema.looked_up(self.connection, STREAMS, numbers))
        return {state.number: state for state in found}

    def insert(self, rows: Predicted) -> tuple[Predicted, list[str]]:
        """Store rows with new ids, and return them with the streams of each; known ids with other content fail."""
        known = dict(schema.looked_up(self.connection, THERE, rows.ids))
        if known:
            digest_of = dict(zip(rows.ids, rows.digests or (), strict=False))
            other = next((name for name in rows.ids if name in known and digest_of.get(name, b"") != known[name]), None)
            if other is not None:
                advice = ", for another row; give it its own" if rows.digests else "; add each row once"
                again = f"the id {abbreviate(other)} is there already{advice}"
                raise InputError(again, where="rows", code="known-id")
            rows = rows.some([place for place, name in enumerate(rows.ids) if name not in known])
        streams = self._streams(len(rows.ids), rows)
        digests: Sequence[bytes | None] = rows.digests or [None] * len(rows.ids)
        values = zip(rows.ids, rows.times.tolist(), streams, packed(rows), digests, strict=True)
        self.connection.executemany("INSERT INTO rows VALUES (?, ?, ?, ?, NULL, ?)", values)
        return rows, streams

    def _streams(self, count: int, rows: Predicted) -> list[str]:
        """Return the numbers of the streams of each of `count` rows, separated by spaces."""
        if not rows.sites and not rows.groups:
            return [""] * count
        found: list[list[int]] = [[] for _ in range(count)]
        sites = [None if site is None else name_key(site) for site in rows.sites or ()]
        if (own := self.settings.site) is not None:
            other = next((name for name in sites if name not in (None, own)), None)
            if other is not None:
                raise InputError(f"a row is of site {abbreviate(other)}, and the watch is over site {own} alone")
        if numbers := self._numbers(SITE):
            found = [[numbers[site]] if site in numbers else [] for site in sites] or found
        if rows.groups and (numbers := self._numbers(GROUP)):
            for name, index in group_rows(rows.groups, rows=count).items():
                for row in np.arange(count)[index].tolist() if name in numbers else ():
                    found[row].append(numbers[name])
        return [" ".join(map(str, streams)) for streams in found]

    def _numbers(self, kind: str) -> dict[str | None, int]:
        return dict(self.connection.execute("SELECT name, number FROM streams WHERE kind = ?", (kind,)))

    def settle(self, new: Sequence[str], outcomes: Outcomes) -> tuple[list[Settled], dict[str, str]]:
        """Decide which outcomes count now, and store those that precede their row; return the fate of each."""
        early = {name: (time, value) for name, time, value in schema.looked_up(self.connection, EARLY, new)}
        there = {name: row for name, *row in schema.looked_up(self.connection, ROWS, [*outcomes.ids, *early])}
        lacking = [name for name in outcomes.ids if name not in there]
        known = {name: value for name, _, value in schema.looked_up(self.connection, EARLY, lacking)}
        settled, stored, fates = list[Settled](), list[tuple[str, float, float]](), dict[str, str]()

        def count(name: str, time: float, value: float, row: Sequence[Any]) -> None:
            settled.append(Settled(name, max(time, row[0]), value, row[1], row[2] or b""))  # not before its row

        for name, (time, value) in early.items():
            count(name, time, value, there[name])
            known[name] = value
        for name, time, value in zip(outcomes.ids, outcomes.times.tolist(), outcomes.values.tolist(), strict=True):
            row = there.get(name)
            before = known.get(name, None if row is None else row[3])
            if before is not None:
                fates[name] = "repeated" if before == value else "conflicting"
            elif row is not None:
                fates[name] = "counted"
                count(name, time, value, row)
            else:
                fates[name] = "early"
                stored.append((name, time, value))
        for statement, values in (
            ("INSERT INTO early VALUES (?, ?, ?)", stored),
            ("DELETE FROM early WHERE id = ?", [(name,) for name in early]),
            ("UPDATE rows SET outcome = ?, held = NULL WHERE id = ?", [(s.value, s.id) for s in settled]),
        ):
            if values:
                self.connection.executemany(statement, values)
        return settled, fates

    def apply(self, rows: Predicted | None, streams: list[str], outcomes: list[Settled], last: int, width: int) -> int:
        """Update streams, tallies and detector in order of time, rows first, from day `last`; return the last day."""
        count, none = len(streams), np.zeros(len(streams))
        values, held = np.array([outcome.value for outcome in outcomes]), [outcome.held for outcome in outcomes]
        times = np.concatenate([none if rows is None else rows.times, [outcome.time for outcome in outcomes]])
        kinds = np.repeat([0, 1], [count, len(outcomes)])
        order = np.lexsort((kinds, times))
        days = np.maximum(np.floor(np.minimum(times[order], LATEST - 1) / DAY).astype(np.int64), last)
        known, sizes = order >= count, none if rows is None else rows.sizes

        def in_order(of_rows: Floats, of_outcomes: Floats) -> Any:
            return np.concatenate([of_rows, of_outcomes])[order]

        lost = in_order(none, missed(self.settings.kind, held, values, width))
        events = Events(days, known, lost, in_order(sizes, np.zeros(len(values))))
        by_stream: dict[int, list[int]] = {}
        of_event = [*streams, *(outcome.streams for outcome in outcomes)]
        for place, event in enumerate(order.tolist() if any(of_event) else ()):
            for stream in map(int, of_event[event].split()):
                by_stream.setdefault(stream, []).append(place)
        states = self.states([0, *by_stream])
        done = [advance(states[0], events)]
        done += [advance(states[k], events.some(mine)) for k, mine in by_stream.items()]
        if classes := self.states(list(self._numbers(CLASS).values())):
            number = {class_called(label, self.labels): label for label in range(width)}
            truth = in_order(none - 1, values)
            own_sizes = in_order(none, unpacked(held, width).sum(axis=1).astype(np.float64))
            waiting = states[0].waiting + np.cumsum(np.where(known, -1, 1))
            for state in classes.values():
                mine = truth == number[state.name]
                lost_here, sized = (np.where(mine, column, 0.0) for column in (lost, own_sizes))
                done.append(advance(state, Events(days, mine, lost_here, sized), waiting))
        changes = [(*tallies[-1][2:], state.alarm_at, state.alarm_day, state.number) for state, tallies in done]
        self.connection.executemany(UPDATE, changes)
        by_day = [row for _, tallies in done for row in tallies]
        self.connection.executemany("INSERT OR REPLACE INTO tallies VALUES (?, ?, ?, ?, ?, ?)", by_day)
        if rows is not None and rows.scores is not None:
            self.detector.update(rows.scores[order[~known]], days[~known])
        return int(days[-1])
