"""One transaction: decide which outcomes count, then apply rows and outcomes to streams and the detector in time order.

Of a set its bits are kept until the outcome comes; of an interval its two ends; of an answer with a loss nothing.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np

from fedconformal._base.arrays import Booleans, Floats
from fedconformal._base.groups import ALL, Groups, members
from fedconformal._base.names import abbreviate, as_name, first_duplicate, name_key
from fedconformal.certificates.text import ClassNames, class_called
from fedconformal.errors import InputError
from fedconformal.monitoring import schema
from fedconformal.monitoring.change import StoredDetector
from fedconformal.monitoring.messages import MOST_STREAMS
from fedconformal.monitoring.streams import CLASS, GROUP, MOST_SITES, SITE, Events, StreamState, advance

Kind = Literal["sets", "intervals", "losses"]

DAY = 86_400
LONGEST_ID = 256
LATEST = 2_932_897 * DAY
"""The end of the year 9999, in seconds since 1970."""
THERE = "SELECT id, digest FROM rows WHERE id IN (SELECT value FROM json_each(?))"
ROWS = "SELECT id, time, streams, held, outcome FROM rows WHERE id IN (SELECT value FROM json_each(?))"
EARLY = "SELECT id, time, outcome FROM early WHERE id IN (SELECT value FROM json_each(?))"
STREAMS = "SELECT * FROM streams WHERE number IN (SELECT value FROM json_each(?))"
OF_KIND = "SELECT * FROM streams WHERE kind = ?"
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

        columns = {name: taken(column) for name, column in vars(self).items() if name != "groups"}
        return Predicted(**columns, groups={name: taken(column) for name, column in self.groups.items()})

    @property
    def kind(self) -> Kind:
        """The kind of the answers."""
        return "sets" if self.sets is not None else "intervals" if self.ends is not None else "losses"

    @property
    def sizes(self) -> Floats:
        """Labels in each set, or the width of each interval; one without an end counts as 0."""
        if self.sets is not None:
            return np.asarray(self.sets.sum(axis=1), dtype=np.float64)
        if self.ends is None:
            return np.zeros(len(self.ids))
        width = self.ends[:, 1] - self.ends[:, 0]
        return np.where(np.isfinite(width), np.maximum(width, 0.0), 0.0)


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
    """Numbers of rows and outcomes that were added, by their fates."""

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
        """Add up."""
        return Counts(**{name: getattr(self, name) + getattr(other, name) for name in self.__struct_fields__})


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Fixed settings of a watch: its predictor, its limit and its error probabilities."""

    kind: Kind
    predictor: str
    """The SHA-256 of the predictor."""
    basis: str
    false_alarm: float
    failure: float
    families: int
    """Number of families of streams and detectors, each of which has an equal part of `false_alarm`."""
    site: str | None = None
    groups: tuple[str, ...] = ()
    """Columns of groups in files of rows."""

    @property
    def each(self) -> float:
        """Probability that a family raises an alarm by chance."""
        return self.false_alarm / self.families


class Settled(NamedTuple):
    """An outcome that counts now, with the streams and the stored part of its row."""

    id: str
    time: float
    value: float
    streams: str
    held: bytes


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """Rows, outcomes and streams in the database of a watch; every call is part of a transaction.

    New sites and groups get a stream without a limit, which only counts.
    """

    connection: sqlite3.Connection
    detector: StoredDetector
    settings: Settings
    labels: ClassNames

    def states(self, numbers: Sequence[int]) -> dict[int, StreamState]:
        """Read streams by their numbers."""
        return {row[0]: StreamState(*row) for row in schema.looked_up(self.connection, STREAMS, numbers)}

    def insert(self, rows: Predicted) -> tuple[Predicted, list[str]]:
        """Store the rows whose ids are new until their outcomes come, and return them with the streams of each.

        A known id with another row is refused.
        """
        known = dict(schema.looked_up(self.connection, THERE, rows.ids))
        if known:
            given = dict(zip(rows.ids, rows.digests or (), strict=False))
            other = next((name for name in rows.ids if name in known and given.get(name, b"") != known[name]), None)
            if other is not None:
                again = f"the id {abbreviate(other)} is there already; add each row once"
                raise InputError(again, where="rows", code="known-id")
            rows = rows.some([place for place, name in enumerate(rows.ids) if name not in known])
        streams = self._streams(len(rows.ids), rows.sites or (), rows.groups)
        digests: Sequence[bytes | None] = rows.digests or [None] * len(rows.ids)
        values = zip(rows.ids, rows.times.tolist(), streams, packed(rows), digests, strict=True)
        self.connection.executemany("INSERT INTO rows VALUES (?, ?, ?, ?, NULL, ?)", values)
        return rows, streams

    def _streams(self, count: int, sites: Sequence[str | None], groups: Groups) -> list[str]:
        """Return the numbers of the streams of each of `count` rows, with spaces between them."""
        found: list[list[int]] = [[] for _ in range(count)]
        names = {site: name_key(site) for site in set(sites) if site is not None}
        if (own := self.settings.site) is not None:
            other = next((name for name in names.values() if name != own), None)
            if other is not None:
                raise InputError(f"a row is of site {abbreviate(other)}, and the watch is over site {own} alone")
        elif names:
            numbers = self._numbers(SITE, names.values(), MOST_SITES)
            found = [[] if site is None else [numbers[names[site]]] for site in sites]
        if groups:
            inside = {name: index for name, index in members(groups, rows=count).items() if name != ALL}
            numbers = self._numbers(GROUP, inside, MOST_STREAMS - 1)
            for name, index in inside.items():
                for row in np.arange(count)[index].tolist():
                    found[row].append(numbers[name])
        return [" ".join(map(str, streams)) for streams in found]

    def _numbers(self, kind: str, names: Iterable[str], most: int) -> dict[str, int]:
        """Return the numbers of streams by name; unknown ones are added."""
        there = dict(self.connection.execute("SELECT name, number FROM streams WHERE kind = ?", (kind,)))
        new = sorted({as_name(name, kind) for name in names} - there.keys())
        if new:
            if len(there) + len(new) > most:
                raise InputError(f"there are more than {most} {kind}s; {abbreviate(new[0])} is one too many")
            (first,) = self.connection.execute("SELECT max(number) + 1 FROM streams").fetchone()
            added = [(first + k, kind, name, None, self.settings.false_alarm, 0.0) for k, name in enumerate(new)]
            self.connection.executemany(schema.NEW_STREAM, added)
            there |= {name: number for number, _, name, *_ in added}
        return there

    def settle(self, new: Sequence[str], outcomes: Outcomes) -> tuple[list[Settled], dict[str, str]]:
        """Decide which outcomes count now, and keep those of rows that are yet to come; return the fate of each."""
        early = {name: (time, value) for name, time, value in schema.looked_up(self.connection, EARLY, new)}
        there = {name: row for name, *row in schema.looked_up(self.connection, ROWS, [*outcomes.ids, *early])}
        lacking = [name for name in outcomes.ids if name not in there]
        known = {name: value for name, _, value in schema.looked_up(self.connection, EARLY, lacking)}
        found, kept, fates = list[Settled](), list[tuple[str, float, float]](), dict[str, str]()

        def count(name: str, time: float, value: float) -> None:
            then, streams, held, _ = there[name]
            found.append(Settled(name, max(time, then), value, streams, held or b""))  # no sooner than its row

        for name, (time, value) in early.items():
            count(name, time, value)
            known[name] = value
        for name, time, value in zip(outcomes.ids, outcomes.times.tolist(), outcomes.values.tolist(), strict=True):
            before = known.get(name, there[name][3] if name in there else None)
            if before is not None:
                fates[name] = "repeated" if before == value else "conflicting"
            elif name in there:
                fates[name] = "counted"
                count(name, time, value)
            else:
                fates[name] = "early"
                kept.append((name, time, value))
        for statement, values in (
            ("INSERT INTO early VALUES (?, ?, ?)", kept),
            ("DELETE FROM early WHERE id = ?", [(name,) for name in early]),
            ("UPDATE rows SET outcome = ?, held = NULL WHERE id = ?", [(one.value, one.id) for one in found]),
        ):
            if values:
                self.connection.executemany(statement, values)
        return found, fates

    def apply(self, rows: Predicted | None, streams: list[str], outcomes: list[Settled], last: int, width: int) -> int:
        """Update streams, tallies and the detector in the order of times, rows before outcomes; return the last day.

        Days are never before `last`, the last day so far.
        """
        count, none = len(streams), np.zeros(len(streams))
        values, held = np.array([one.value for one in outcomes]), [one.held for one in outcomes]
        times = np.concatenate([none if rows is None else rows.times, [one.time for one in outcomes]])
        kinds = np.repeat([0, 1], [count, len(outcomes)])
        order = np.lexsort((kinds, times))
        days = np.maximum(np.floor(np.minimum(times[order], LATEST - 1) / DAY).astype(np.int64), last)
        known, sizes = order >= count, none if rows is None else rows.sizes

        def in_order(of_rows: Floats, of_outcomes: Floats) -> Any:
            return np.concatenate([of_rows, of_outcomes])[order]

        lost = in_order(none, missed(self.settings.kind, held, values, width))
        events = Events(days, known, lost, in_order(sizes, np.zeros(len(values))))
        by_stream: dict[int, list[int]] = {}
        of_event = [*streams, *(one.streams for one in outcomes)]
        for place, event in enumerate(order.tolist()):
            for stream in map(int, of_event[event].split()):
                by_stream.setdefault(stream, []).append(place)
        states = self.states([0, *by_stream])
        done = [advance(states[0], events)]
        done += [advance(states[one], events.some(mine)) for one, mine in by_stream.items()]
        if classes := [StreamState(*row) for row in self.connection.execute(OF_KIND, (CLASS,))]:
            number = {class_called(label, self.labels): label for label in range(width)}
            truth = in_order(none - 1, values)
            own_sizes = in_order(none, unpacked(held, width).sum(axis=1).astype(np.float64))
            waiting = states[0].waiting + np.cumsum(np.where(known, -1, 1))
            for state in classes:
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
