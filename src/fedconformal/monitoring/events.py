"""One transaction: decide which outcomes count, then apply rows and outcomes to streams and the detector in time order.

Of a set its bits are kept until the outcome comes; of an interval its two ends; of an answer with a loss nothing.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from fedconformal._base.arrays import Booleans, Floats, Integers
from fedconformal._base.names import abbreviate, first_duplicate
from fedconformal.certificates.text import ClassNames, class_called
from fedconformal.errors import InputError
from fedconformal.monitoring import schema
from fedconformal.monitoring.change import StoredDetector
from fedconformal.monitoring.streams import CLASS, Events, StreamIndex, advance

Kind = Literal["sets", "intervals", "losses"]

DAY = 86_400
LONGEST_ID = 256
LATEST = 2_932_897 * DAY
"""The end of the year 9999, in seconds since 1970."""
THERE = "SELECT id, digest FROM rows WHERE id IN (SELECT value FROM json_each(?))"
ROWS = "SELECT id, time, streams, held, outcome FROM rows WHERE id IN (SELECT value FROM json_each(?))"
EARLY = "SELECT id, time, outcome FROM early WHERE id IN (SELECT value FROM json_each(?))"
UPDATE = (
    "UPDATE streams SET known = ?, misses = ?, waiting = ?, sizes = ?, alarm_at = ?, alarm_day = ? WHERE number = ?"
)


@dataclass(frozen=True, kw_only=True)
class Predicted:
    """Answered rows in any order, with times in seconds since 1970.

    `sets` are (n, J) booleans, or `ends` are (n, 2) ends of intervals, or neither, where outcomes are losses. `scores`
    are those of the top labels, where they are known. `digests` identify the rows: one that comes again with the same
    id and digest counts once.
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

        columns = ("ids", "times", "sets", "ends", "scores", "sites", "digests")
        groups = {name: taken(column) for name, column in self.groups.items()}
        return Predicted(groups=groups, **{name: taken(getattr(self, name)) for name in columns})

    @property
    def sizes(self) -> Floats:
        """Labels in each set, or the width of each interval; one without an end counts as 0."""
        if self.sets is not None:
            labels: Floats = self.sets.sum(axis=1).astype(np.float64)
            return labels
        if self.ends is None:
            return np.zeros(len(self.ids))
        width = self.ends[:, 1] - self.ends[:, 0]
        found: Floats = np.where(np.isfinite(width), np.maximum(width, 0.0), 0.0)
        return found


@dataclass(frozen=True, kw_only=True)
class Outcomes:
    """True labels as positions, true numbers, or losses divided by their bound."""

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
    odd = next((one for one in ids if not 0 < len(one) <= LONGEST_ID or not one.isprintable()), None)
    if odd is not None:
        raise InputError(f"the id {abbreviate(odd)!r} is empty, too long, or cannot be printed", where=what)
    if not ((times >= 0) & (times < LATEST)).all():
        raise InputError("a time is not one since 1970", where=what)


def packed(rows: Predicted) -> list[bytes]:
    """Encode the stored part of each row."""
    if rows.ends is not None:
        return [end.tobytes() for end in np.ascontiguousarray(rows.ends, dtype="<f8")]
    if rows.sets is None:
        return [b""] * len(rows.ids)
    return [row.tobytes() for row in np.packbits(rows.sets, axis=1)]


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


@dataclass
class Settled:
    """Outcomes that count now, in the order in which they came, with the streams and the stored part of their rows."""

    ids: list[str] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    streams: list[str] = field(default_factory=list)
    held: list[bytes] = field(default_factory=list)

    def add(self, name: str, time: float, value: float, row: tuple[float, str, bytes]) -> None:
        """Add an outcome; it comes no sooner than its row."""
        then, streams, held = row
        self.ids.append(name)
        self.times.append(max(time, then))
        self.values.append(value)
        self.streams.append(streams)
        self.held.append(held)


def new_rows(connection: sqlite3.Connection, rows: Predicted) -> Predicted:
    """Return the rows whose ids are new; a known id with another row is refused."""
    known = dict(schema.looked_up(connection, THERE, list(rows.ids)))
    if not known:
        return rows
    digests = dict(zip(rows.ids, rows.digests or (), strict=False))
    for name in rows.ids:
        if name in known and digests.get(name, b"") != known[name]:
            again = f"the id {abbreviate(name)} is there already; add each row once"
            raise InputError(again, where="rows", code="known-id")
    return rows.some([place for place, name in enumerate(rows.ids) if name not in known])


def insert(connection: sqlite3.Connection, rows: Predicted, streams: Sequence[str]) -> None:
    """Store new rows until their outcomes come."""
    digests: Sequence[bytes | None] = rows.digests or [None] * len(rows.ids)
    values = zip(rows.ids, rows.times.tolist(), streams, packed(rows), digests, strict=True)
    connection.executemany("INSERT INTO rows VALUES (?, ?, ?, ?, NULL, ?)", values)


def settle(
    connection: sqlite3.Connection, rows: Predicted | None, outcomes: Outcomes
) -> tuple[Settled, dict[str, str]]:
    """Decide which outcomes count now, and keep those of rows that are yet to come; return the fate of each outcome."""
    fates: dict[str, str] = {}
    found, new = Settled(), () if rows is None else rows.ids
    early = {name: (time, value) for name, time, value in schema.looked_up(connection, EARLY, list(new))}
    there = {name: row for name, *row in schema.looked_up(connection, ROWS, [*outcomes.ids, *early])}
    lacking = [name for name in outcomes.ids if name not in there]
    known = {name: value for name, _, value in schema.looked_up(connection, EARLY, lacking)}
    for name, (time, value) in early.items():
        then, streams, held, _ = there[name]
        found.add(name, time, value, (then, streams, held))
        known[name] = value
    kept = []
    for name, time, value in zip(outcomes.ids, outcomes.times.tolist(), outcomes.values.tolist(), strict=True):
        row = there.get(name)
        before = known.get(name) if row is None or row[3] is None else row[3]
        if before is not None:
            fates[name] = "repeated" if before == value else "conflicting"
        elif row is None:
            fates[name] = "early"
            kept.append((name, time, value))
        else:
            fates[name] = "counted"
            found.add(name, time, value, (row[0], row[1], row[2] or b""))
    settled = list(zip(found.values, found.ids, strict=True))
    for statement, values in (
        ("INSERT INTO early VALUES (?, ?, ?)", kept),
        ("DELETE FROM early WHERE id = ?", [(name,) for name in early]),
        ("UPDATE rows SET outcome = ?, held = NULL WHERE id = ?", settled),
    ):
        if values:
            connection.executemany(statement, values)
    return found, fates


@dataclass(frozen=True, kw_only=True)
class EventBatch:
    """Rows and outcomes of one transaction in the order of their times, rows before outcomes of the same time.

    `days` are in that order, and never before the last day so far.
    """

    rows: Predicted | None
    streams: Sequence[str]
    outcomes: Settled
    order: Integers
    days: Integers

    @classmethod
    def of(cls, rows: Predicted | None, streams: Sequence[str], outcomes: Settled, last: int) -> EventBatch:
        """Sort the events."""
        times = np.concatenate([np.empty(0) if rows is None else rows.times, outcomes.times])
        kinds = np.repeat([0, 1], [len(streams), len(outcomes.ids)])
        order = np.lexsort((kinds, times))
        days = np.maximum(np.floor(times[order] / DAY).astype(np.int64), last)
        return cls(rows=rows, streams=streams, outcomes=outcomes, order=order, days=days)

    def in_order(self, of_rows: Floats | Integers, of_outcomes: Floats | Integers) -> Floats:
        """Sort a number of each row and of each outcome."""
        found: Floats = np.concatenate([of_rows, of_outcomes])[self.order]
        return found

    def apply(
        self,
        connection: sqlite3.Connection,
        index: StreamIndex,
        detector: StoredDetector,
        *,
        kind: Kind,
        width: int,
        labels: ClassNames,
    ) -> None:
        """Update all streams, tallies and the detector."""
        none, values = np.zeros(len(self.streams)), np.array(self.outcomes.values)
        lost = missed(kind, self.outcomes.held, values, width)
        known = self.order >= len(self.streams)
        sizes = none if self.rows is None else self.rows.sizes
        events = Events(self.days, known, self.in_order(none, lost), self.in_order(sizes, np.zeros(len(values))))
        by_stream: dict[int, list[int]] = {}
        streams = [*self.streams, *self.outcomes.streams]
        for place, event in enumerate(self.order.tolist()):
            for stream in map(int, streams[event].split()):
                by_stream.setdefault(stream, []).append(place)
        states = index.states([0, *by_stream])
        done = [advance(states[0], events)]
        done += [advance(states[one], events.some(mine)) for one, mine in by_stream.items()]
        classes = index.of_kind(CLASS)
        if classes:
            number = {class_called(label, labels): label for label in range(width)}
            truth = self.in_order(none - 1, values)
            own_sizes = self.in_order(none, unpacked(self.outcomes.held, width).sum(axis=1).astype(np.float64))
            waiting = states[0].waiting + np.cumsum(np.where(known, -1, 1))
            for state in classes:
                mine = truth == number[state.name]
                lost_here, sized = (np.where(mine, column, 0.0) for column in (events.missed, own_sizes))
                done.append(advance(state, Events(self.days, mine, lost_here, sized), waiting))
        connection.executemany(UPDATE, [state.values for state, _ in done])
        tallies = [row for _, rows in done for row in rows]
        connection.executemany("INSERT OR REPLACE INTO tallies VALUES (?, ?, ?, ?, ?, ?)", tallies)
        if self.rows is not None and self.rows.scores is not None:
            detector.update(self.rows.scores[self.order[~known]], self.days[~known])
