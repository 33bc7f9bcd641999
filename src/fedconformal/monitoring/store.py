"""A watch that outlives its process: one file with the predictor, rows that wait for outcomes, counts and states.

All that one call adds is one transaction: it is there as a whole or not at all, and what has returned survives a kill.
An outcome counts once: one that comes again changes nothing, and one that contradicts the first is only counted as
such. One that comes before its row is kept until the row comes. Rows that are purged while they wait stay waiting, so
they count as covered. Days never go back: what comes late, or by a clock that was set back, counts on the last day.
"""

from __future__ import annotations

import json
import sqlite3
import time as clock
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import msgspec
import numpy as np

from fedconformal._base.arrays import Floats, Integers
from fedconformal._base.groups import ALL, members
from fedconformal._base.names import as_name, name_key, shown
from fedconformal.calibration.document import Document, read_document
from fedconformal.errors import InputError, StoreError
from fedconformal.guarantees.by_class import class_called
from fedconformal.monitoring import reporting, schema
from fedconformal.monitoring.changes import LABELLED, UNLABELLED, Changes
from fedconformal.monitoring.limits import Limits
from fedconformal.monitoring.period import MOST_STREAMS, Period
from fedconformal.monitoring.rows import NO_OUTCOMES, Batch, Kind, Outcomes, Predicted, label_scores, missed, packed, set_sizes
from fedconformal.monitoring.status import Status, status
from fedconformal.monitoring.streams import CLASS, GROUP, SITE, WHOLE, Events, State, moved, parted

if TYPE_CHECKING:
    from collections.abc import Iterator

DAY = 86_400
MOST_SITES = 100_000
LONGEST_ID = 256
COLUMNS = "number, kind, name, rate, false_alarm, failure, known, misses, waiting, sizes, alarm_at, alarm_day"
COUNTED = ("rows", "counted", "repeated", "conflicting", "early", "late", "unscored", "purged", "purged_waiting")
"""What is counted over all calls."""


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a watch is bound to, and by which limit."""

    kind: Kind
    predictor: str
    """The SHA-256 of the predictor."""
    basis: str
    false_alarm: float
    failure: float
    site: str | None = None
    by_hand: bool = False


class Watch:
    """The file of a watch, open; `with` closes it."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path, self._connection = path, connection
        self.changes = Changes(connection)
        with schema.told(path):
            meta = dict(connection.execute("SELECT key, value FROM meta WHERE key IN ('settings', 'predictor')"))
        try:
            self.settings = msgspec.json.decode(meta["settings"], type=Settings)
            self.predictor = read_document(meta["predictor"])
        except (msgspec.DecodeError, KeyError, InputError) as error:
            raise InputError(f"{path}: is damaged: {shown(str(error))}") from None
        self._cells: dict[tuple[int, ...], int] = {}
        labels = self.predictor.certificate.labels
        self.width = labels if isinstance(labels, int) or labels is None else len(labels)

    @classmethod
    def start(
        cls,
        path: str | Path,
        predictor: Document,
        limits: Limits,
        *,
        false_alarm: float = 0.025,
        site: str | None = None,
        scores: Mapping[str, Floats] | None = None,
    ) -> Self:
        """Make the file of a new watch; `scores` are what detectors of changes begin with."""
        from fedconformal.calibration.interval_predictor import IntervalPredictor

        about, path = predictor.certificate, Path(path)
        kind: Kind = "intervals" if isinstance(predictor, IntervalPredictor) else "sets" if about.risk is None else "losses"
        if not 0 < false_alarm < 1:
            raise InputError(f"false_alarm is {shown(false_alarm)}, expected a number between 0 and 1")
        data = predictor.to_bytes()
        settings = Settings(
            kind=kind,
            predictor=json.loads(data)["sha256"],
            basis=limits.basis,
            false_alarm=false_alarm,
            failure=limits.failure,
            site=None if site is None else as_name(site, "site"),
            by_hand=limits.failure == 0,
        )
        streams = [(WHOLE, "", limits.rate, false_alarm, limits.failure)]
        named = {class_called(label, about.labels): rate for label, rate in limits.classes.items()}
        for kind_, rates in ((SITE, limits.sites), (GROUP, limits.groups), (CLASS, named)):
            part = max(1, about.clients if kind_ == SITE else len(rates))
            streams += [(kind_, name, rate, false_alarm / part, limits.failure / part) for name, rate in rates.items()]
        connection = schema.create(path, {"settings": msgspec.json.encode(settings), "predictor": data}, streams)
        found = cls(path, connection)
        if scores:
            with found._writing():
                found.changes.begin(scores)
        return found

    @classmethod
    def open(cls, path: str | Path) -> Self:
        """Open the file of a watch."""
        return cls(Path(path), schema.connect(Path(path)))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with schema.told(self.path):
            self._connection.close()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Do all of it or nothing, and what is not committed is forgotten in memory too."""
        try:
            with schema.told(self.path), schema.transaction(self._connection):
                yield
        except BaseException:
            self._cells.clear()
            self.changes.forget()
            raise

    # What comes in.

    def record_predictions(self, batch: Batch) -> None:
        """Keep rows that a server has answered."""
        times = np.full(len(batch.ids), batch.time)
        sites = None if batch.site is None else [batch.site] * len(batch.ids)
        held = {"sets": batch.sets, "scores": batch.scores, "sites": sites, "groups": batch.groups}
        self.add(Predicted(ids=batch.ids, times=times, **held))  # type: ignore[arg-type]

    def record_outcomes(self, ids: Sequence[str], labels: Integers, time: float) -> Mapping[str, int]:
        """Count the true labels of rows, and say how many were new, known, in conflict, or of rows not seen yet."""
        values = np.asarray(labels, dtype=np.float64)
        return self.add(outcomes=Outcomes(ids=ids, times=np.full(len(ids), time), values=values))

    def add(self, predicted: Predicted | None = None, outcomes: Outcomes = NO_OUTCOMES) -> dict[str, int]:
        """Add rows and outcomes, in the order of their times; return how many of them were what."""
        _check_ids(outcomes.ids, "outcomes")
        with self._writing():
            if self.closed:
                raise InputError(f"{self.path}: the watch is closed, and takes no more; it still answers status")
            return self._added(predicted, outcomes)

    def _added(self, predicted: Predicted | None, outcomes: Outcomes) -> dict[str, int]:
        connection, last = self._connection, self._last_day()
        held: dict[str, tuple[float, int, bytes | None, float | None]] = {}
        cells = np.empty(0, dtype=np.int64)
        blobs: list[bytes] = []
        if predicted is not None:
            self._check(predicted)
            cells, blobs = self._cells_of(predicted), packed(predicted, scored=LABELLED in self.changes.names())
        times = np.empty(0) if predicted is None else predicted.times
        ids = [] if predicted is None else list(predicted.ids)
        mine = {name: row for row, name in enumerate(ids)}
        # Outcomes that came before their rows.
        early = {name: (t, y) for name, t, y in schema.looked_up(connection, "SELECT id, time, outcome FROM early WHERE id", ids)}
        asked = [name for name in outcomes.ids if name not in mine]
        query = "SELECT id, time, cell, held, outcome FROM rows WHERE id"
        for name, t, cell, blob, outcome in schema.looked_up(connection, query, asked):
            held[name] = (t, cell, blob, outcome)
        waiting = {name: y for name, y in schema.looked_up(connection, "SELECT id, outcome FROM early WHERE id", [one for one in asked if one not in held])}
        counts = dict.fromkeys(("counted", "repeated", "conflicting", "early", "late"), 0)
        found: list[tuple[str, float, float, int, bytes]] = []
        kept: list[tuple[str, int, float, float]] = []
        settled: dict[str, float] = {}
        for name, (t, y) in early.items():
            row = mine[name]
            found.append((name, max(t, float(times[row])), y, int(cells[row]), blobs[row]))
            settled[name] = y
        for name, t, y in zip(outcomes.ids, outcomes.times.tolist(), outcomes.values.tolist(), strict=True):
            known = settled.get(name)
            if known is None and name in held:
                known = held[name][3]
            if known is None:
                known = waiting.get(name)
            if known is not None:
                counts["repeated" if known == y else "conflicting"] += 1
            elif name in mine:
                row = mine[name]
                found.append((name, max(t, float(times[row])), y, int(cells[row]), blobs[row]))
            elif name in held:
                then, cell, blob, _ = held[name]
                found.append((name, max(t, then), y, cell, blob or b""))
            else:
                counts["early"] += 1
                kept.append((name, max(int(t // DAY), last), t, y))
        counts["counted"] = len(found)
        counts["late"] = sum(int(one[1] // DAY) < last for one in found)
        days, order = self._order(times, np.array([one[1] for one in found]), last)
        try:
            connection.executemany(
                "INSERT INTO rows VALUES (?, ?, ?, ?, ?, NULL)",
                zip(ids, days[np.argsort(order)[: len(ids)]].tolist(), times.tolist(), cells.tolist(), blobs, strict=True),
            )
        except sqlite3.IntegrityError:
            there = next(schema.looked_up(connection, "SELECT id FROM rows WHERE id", ids), (None,))[0]
            again = there if there is not None else _twice(ids)
            raise InputError(f"the id {shown(again)} is there already; add each row once, by an id of its own") from None
        connection.executemany("UPDATE rows SET outcome = ?, held = NULL WHERE id = ?", [(y, name) for name, _, y, _, _ in found])
        connection.executemany("INSERT INTO early VALUES (?, ?, ?, ?)", kept)
        connection.executemany("DELETE FROM early WHERE id = ?", [(name,) for name in early])
        if len(order):
            self._move(predicted, found, cells, days, order, counts)
            connection.execute("INSERT OR REPLACE INTO meta VALUES ('last_day', ?)", (str(int(days[-1])).encode(),))
        self._count({**counts, "rows": len(ids)})
        return {"rows": len(ids), **counts}

    def _order(self, predicted: Floats, outcomes: Floats, last: int) -> tuple[Integers, Integers]:
        """Return the order of all events, rows before outcomes of the same time, and the day of each in that order."""
        times = np.concatenate([predicted, outcomes])
        kinds = np.repeat([0, 1], [len(predicted), len(outcomes)])
        order = np.lexsort((np.arange(len(times)), kinds, times))
        days = np.maximum(np.floor(times[order] / DAY).astype(np.int64), last)
        return days, order

    def _move(
        self,
        predicted: Predicted | None,
        found: list[tuple[str, float, float, int, bytes]],
        cells: Integers,
        days: Integers,
        order: Integers,
        counts: dict[str, int],
    ) -> None:
        """Let all events happen to the streams, the tallies and the detectors."""
        rows = len(cells)
        values = np.array([one[2] for one in found])
        blobs = [one[4] for one in found]
        lost = missed(self.settings.kind, blobs, values, self.width)
        sizes = np.concatenate([np.empty(0) if predicted is None else predicted.sizes, np.zeros(len(found))])
        known = order >= rows
        events = Events(days, known, np.concatenate([np.zeros(rows), lost])[order], sizes[order])
        every = np.concatenate([cells, np.array([one[3] for one in found], dtype=np.int64)])[order]
        self._move_streams(events, every, np.concatenate([np.full(rows, -1.0), values])[order], np.concatenate([np.zeros(rows), set_sizes(blobs, self.width or 0) if self.settings.kind == "sets" and blobs else np.zeros(len(found))])[order])
        there = self.changes.names()
        if UNLABELLED in there and rows:
            if predicted is not None and predicted.scores is not None:
                self.changes.move(UNLABELLED, predicted.scores.min(axis=1)[order[~known]], days[~known])
            else:
                counts["unscored"] = rows
        if LABELLED in there and found:
            scores, kept = label_scores(blobs, values, self.width or 0)
            place = order[known] - rows
            position = np.cumsum(kept) - 1
            has = kept[place]
            self.changes.move(LABELLED, scores[position[place[has]]], days[known][has])

    def _move_streams(self, events: Events, cells: Integers, labels: Floats, sizes: Floats) -> None:
        connection = self._connection
        numbers = np.unique(cells).tolist()
        query = "SELECT number, streams FROM cells WHERE number"
        of_cell = {number: tuple(json.loads(text)) for number, text in schema.looked_up(connection, query, numbers)}
        places = dict(parted(cells, of_cell))
        wanted = [0, *places]
        states = {row[0]: State(*row) for row in schema.looked_up(connection, f"SELECT {COLUMNS} FROM streams WHERE number", wanted)}
        whole = states[0]
        done = [moved(whole, events)]
        done += [moved(states[stream], events.some(index)) for stream, index in places.items()]
        classes = [State(*row) for row in connection.execute(f"SELECT {COLUMNS} FROM streams WHERE kind = ?", (CLASS,))]
        if classes:
            about = self.predictor.certificate.labels
            label_of = {class_called(label, about): label for label in range(self.width or 0)}
            waiting = whole.waiting + np.cumsum(np.where(events.known, -1, 1))
            for state in classes:
                own = labels == label_of[state.name]
                mine = Events(events.days, own, np.where(own, events.missed, 0.0), np.where(own, sizes, 0.0))
                done.append(moved(state, mine, waiting))
        connection.executemany(
            "UPDATE streams SET known = ?, misses = ?, waiting = ?, sizes = ?, alarm_at = ?, alarm_day = ? WHERE number = ?",
            [one.state.values for one in done],
        )
        connection.executemany(
            "INSERT OR REPLACE INTO tallies VALUES (?, ?, ?, ?, ?, ?)", [row for one in done for row in one.tallies]
        )

    # Rows and the streams that they are in.

    def _check(self, rows: Predicted) -> None:
        _check_ids(rows.ids, "predictions")
        given = "sets" if rows.sets is not None else "intervals" if rows.ends is not None else "losses"
        if given != self.settings.kind:
            raise InputError(f"the watch is over {self.settings.kind}, and the rows have {given}")
        if rows.sets is not None:
            if self.width is None:
                row = self._connection.execute("SELECT value FROM meta WHERE key = 'width'").fetchone()
                self.width = rows.sets.shape[1] if row is None else int(row[0])
                self._connection.execute("INSERT OR REPLACE INTO meta VALUES ('width', ?)", (str(self.width).encode(),))
            if rows.sets.shape[1] != self.width:
                raise InputError(f"the sets are of {rows.sets.shape[1]} classes, the predictor has {self.width}")
        if not np.isfinite(rows.times).all() or (rows.times < 0).any():
            raise InputError("the time of a row is not one since 1970")

    def _cells_of(self, rows: Predicted) -> Integers:
        """Return the cell of each row: which streams it is in, besides that of all rows."""
        count = len(rows.ids)
        inside: list[list[int]] = [[] for _ in range(count)]
        own = self.settings.site
        sites = [None if site is None else name_key(site) for site in rows.sites or ()]
        if own is not None and (other := next((site for site in sites if site not in (None, own)), None)) is not None:
            raise InputError(f"a row is of site {shown(other)}, and the watch is over site {own} alone; leave it out")
        if own is None and sites:
            numbers = self._streams(SITE, {site for site in sites if site is not None}, MOST_SITES)
            for row, site in enumerate(sites):
                if site is not None:
                    inside[row].append(numbers[site])
        if rows.groups:
            found = {name: index for name, index in members(rows.groups, rows=count).items() if name != ALL}
            numbers = self._streams(GROUP, set(found), MOST_STREAMS)
            for name, index in found.items():
                for row in index.tolist():
                    inside[row].append(numbers[name])
        return np.array([self._cell(tuple(streams)) for streams in inside], dtype=np.int64)

    def _streams(self, kind: str, names: set[str], most: int) -> dict[str, int]:
        """Return the numbers of streams by their names; those that are new have no limit, and are only counted."""
        query = "SELECT name, number FROM streams WHERE kind = ? AND name"
        connection = self._connection
        found: dict[str, int] = {}
        for start in range(0, len(names), schema.AT_ONCE):
            some = sorted(names)[start : start + schema.AT_ONCE]
            found |= dict(connection.execute(f"{query} IN ({','.join('?' * len(some))})", (kind, *some)))
        new = sorted(names - found.keys())
        if new:
            for name in new:
                as_name(name, kind)
            (there,) = connection.execute("SELECT count(*) FROM streams WHERE kind = ?", (kind,)).fetchone()
            if there + len(new) > most:
                raise InputError(f"there are more than {most} {kind}s; the last one is {shown(new[-1])}")
            (next_,) = connection.execute("SELECT max(number) + 1 FROM streams").fetchone()
            level = self.settings.false_alarm
            connection.executemany(
                "INSERT INTO streams VALUES (?, ?, ?, NULL, ?, 0, 0, 0, 0, 0, NULL, NULL)",
                [(next_ + k, kind, name, level) for k, name in enumerate(new)],
            )
            found |= {name: next_ + k for k, name in enumerate(new)}
        return found

    def _cell(self, streams: tuple[int, ...]) -> int:
        number = self._cells.get(streams)
        if number is None:
            text = json.dumps(streams)
            self._connection.execute("INSERT OR IGNORE INTO cells (streams) VALUES (?)", (text,))
            (number,) = self._connection.execute("SELECT number FROM cells WHERE streams = ?", (text,)).fetchone()
            self._cells[streams] = int(number)
        return int(number)

    # What is asked and settled.

    @property
    def closed(self) -> bool:
        """Whether the watch takes no more."""
        return self._connection.execute("SELECT 1 FROM meta WHERE key = 'closed'").fetchone() is not None

    def _last_day(self) -> int:
        row = self._connection.execute("SELECT value FROM meta WHERE key = 'last_day'").fetchone()
        return 0 if row is None else int(row[0])

    def _count(self, counts: Mapping[str, int]) -> None:
        self._connection.executemany(
            "INSERT INTO counts VALUES (?, ?) ON CONFLICT (what) DO UPDATE SET number = number + excluded.number",
            [(what, number) for what, number in counts.items() if number],
        )

    def counts(self) -> dict[str, int]:
        """Return what came over all calls."""
        with schema.told(self.path):
            return dict.fromkeys(COUNTED, 0) | dict(self._connection.execute("SELECT what, number FROM counts"))

    def states(self) -> list[State]:
        """Return all streams, that of all rows first."""
        with schema.told(self.path):
            return [State(*row) for row in self._connection.execute(f"SELECT {COLUMNS} FROM streams ORDER BY number")]

    def days(self) -> tuple[int, int] | None:
        """Return the first and the last day on which anything came, in days since 1970."""
        with schema.told(self.path):
            return reporting.days(self._connection)

    def periods(self, first: int | None = None, last: int | None = None) -> list[Period]:
        """Return what is sent of a period, from the first day to the last; see `reporting.periods`."""
        with schema.told(self.path), schema.transaction(self._connection, write=False):
            return reporting.periods(self, self._connection, first, last)

    def status(self) -> Status:
        """Say how things are now."""
        with schema.told(self.path):
            return status(self)

    def purge(self, before: int) -> dict[str, int]:
        """Forget rows answered before a day; those without an outcome stay counted as waiting, so as covered."""
        with self._writing():
            (waiting,) = self._connection.execute(
                "SELECT count(*) FROM rows WHERE day < ? AND outcome IS NULL", (before,)
            ).fetchone()
            rows = self._connection.execute("DELETE FROM rows WHERE day < ?", (before,)).rowcount
            early = self._connection.execute("DELETE FROM early WHERE day < ?", (before,)).rowcount
            self._count({"purged": rows, "purged_waiting": waiting})
        with schema.told(self.path):
            self._connection.execute("VACUUM")
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return {"rows": rows, "waiting": waiting, "early": early}

    def close(self) -> None:
        """Take no more rows and outcomes from now on."""
        with self._writing():
            self._connection.execute("INSERT OR IGNORE INTO meta VALUES ('closed', ?)", (str(clock.time()).encode(),))


def _check_ids(ids: Sequence[str], what: str) -> None:
    if len(set(ids)) < len(ids):
        raise InputError(f"{what}: the id {shown(_twice(ids))} is there twice; give each row once")
    odd = next((one for one in ids if not one or len(one) > LONGEST_ID or not one.isprintable()), None)
    if odd is not None:
        raise InputError(f"{what}: the id {shown(odd)!r} is empty, too long, or cannot be printed")


def _twice(ids: Sequence[str]) -> str:
    seen: set[str] = set()
    return next((one for one in ids if one in seen or seen.add(one)), "")  # type: ignore[func-returns-value]
