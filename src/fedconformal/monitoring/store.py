"""Persistent watch: one file with the predictor, rows that wait for outcomes, counts and states.

Every call is one atomic transaction, which is durable when the call returns. An outcome counts once: a repetition
changes nothing, and a contradiction is only reported. An early outcome is stored until its row arrives.
Rows purged without an outcome still count as waiting, so as covered. Days never decrease: a late event, or one after a
clock was set back, counts on the last day.
"""

from __future__ import annotations

import json
import sqlite3
import time as clock
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, NamedTuple, Self, TypeVar

import msgspec
import numpy as np
from msgspec.structs import replace

from fedconformal._base.arrays import Floats
from fedconformal._base.names import abbreviate, as_name, name_key
from fedconformal.calibration.predictor import Predictor
from fedconformal.certificates.text import class_called
from fedconformal.errors import InputError
from fedconformal.monitoring import schema
from fedconformal.monitoring.change import StoredDetector
from fedconformal.monitoring.combine import MOST_MESSAGES
from fedconformal.monitoring.events import (
    CLASS,
    DAY,
    GROUP,
    NO_OUTCOMES,
    SITE,
    THERE,
    WHOLE,
    Counts,
    Kind,
    Ledger,
    Outcomes,
    Predicted,
    Settings,
    StreamState,
    check_ids,
)
from fedconformal.monitoring.limits import Limits
from fedconformal.monitoring.messages import ALL_SITES, LAST_DAY, MOST_STREAMS, Day, Period, Stream, Tally, day_of
from fedconformal.monitoring.text import Status
from fedconformal.summaries.format import MAX_CLASSES
from fedconformal.summaries.provenance import number_of

T = TypeVar("T")

MOST_SPANS = 60
"""Maximum number of periods in a history."""
META = "SELECT value FROM meta WHERE key = ? AND length(value) <= 1e6"
"""Query of one value; a megabyte holds a message a day for a century."""
TALLIES = (
    "SELECT stream, t.known, t.misses, t.waiting, t.sizes FROM streams CROSS JOIN tallies AS t ON stream = number "
    "AND day = (SELECT max(day) FROM tallies WHERE stream = number AND day <= ?)"
)


class Span(NamedTuple):
    """A period: its first day, its last day, and the first day of the counts of groups, classes and sites.

    `since` is before the period if parts were withheld since then, and None if they are withheld now. All parts are
    withheld together: a single missing part would follow from all rows and the others.
    """

    first: int
    last: int
    since: int | None


class State(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Mutable state of a watch, besides its streams and its detector."""

    purged: Day = 0
    last_day: Day = 0
    """Earliest day of new counts."""
    width: Annotated[int, msgspec.Meta(ge=0, le=MAX_CLASSES)] = 0
    """Number of classes; 0 if unknown so far or without classes."""
    counts: Counts = Counts()


class Watch:
    """An open file of a watch; a context manager that closes it.

    >>> import tempfile
    >>> from fedconformal import LAC, Predictor, Summary, calibrate
    >>> from fedconformal.monitoring.limits import limits_of
    >>> site = Summary.of_scores([k / 99 for k in range(99)], site="a", score=LAC(), classes=["no", "yes"])
    >>> predictor = calibrate([site], alpha=0.2)
    >>> path = Path(tempfile.mkdtemp(), "watch.db")
    >>> with Watch.start(path, predictor, limits_of(predictor)) as watch:
    ...     rows = Predicted(ids=["p", "q"], times=np.zeros(2), sets=np.array([[True, False], [True, True]]))
    ...     added = watch.add(rows, Outcomes(ids=["p"], times=np.ones(1), values=np.array([1.0])))
    ...     watch.whole().known, watch.whole().misses, watch.whole().waiting
    (1, 1.0, 1)
    """

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path, self._connection = path, connection
        with schema.store_errors(path):
            meta = dict(connection.execute("SELECT key, value FROM meta"))
            self.settings = msgspec.json.decode(meta["settings"], type=Settings)
            self.predictor = Predictor.from_bytes(meta["predictor"])
            self.detector = StoredDetector(connection, self.settings.each)
            labels = self.predictor.certificate.class_names
            self._ledger = Ledger(connection=connection, detector=self.detector, settings=self.settings, labels=labels)
            self._state(), self.whole()  # validates them

    @classmethod
    def start(
        cls,
        path: str | Path,
        predictor: Predictor,
        limits: Limits,
        *,
        false_alarm: float = 0.025,
        site: str | None = None,
        scores: Floats | None = None,
    ) -> Self:
        """Create the file of a new watch; `scores` are top-label scores of calibration rows, for change detection.

        All rows, the sites, groups and classes with limits, and the detector are a family of alarms each. They share
        `false_alarm` equally, so that it bounds the probability of any false alarm.
        """
        about, data = predictor.certificate, predictor.to_bytes()
        if site is not None and name_key(site) == ALL_SITES:
            raise InputError(f"{ALL_SITES} is the name of a watch over several sites; name the site otherwise")
        if not 0 < false_alarm < 1:
            raise InputError(f"false_alarm is {abbreviate(false_alarm)}, expected a number between 0 and 1")
        classes = {class_called(label, about.class_names): rate for label, rate in limits.classes.items()}
        limited = [
            (kind, rates) for kind, rates in ((SITE, limits.sites), (GROUP, limits.groups), (CLASS, classes)) if rates
        ]
        kind_of_answers: Kind = "intervals" if about.intervals else "sets" if about.risk is None else "losses"
        settings = Settings(
            kind=kind_of_answers,
            predictor=json.loads(data)["sha256"],
            basis=limits.basis,
            false_alarm=false_alarm,
            failure=limits.failure,
            families=1 + len(limited) + (scores is not None),
            site=None if site is None else as_name(site, "site"),
        )
        streams = [(limits.rate, settings.each, limits.failure, WHOLE, "")]
        for kind, rates in limited:
            part = about.sites if kind == SITE else len(rates)
            streams += [(rate, settings.each / part, limits.failure / part, kind, name) for name, rate in rates.items()]
        state = State(width=0 if about.class_names is None else number_of(about.class_names))
        meta = {"settings": settings, "state": state, "sent": ()}
        encoded = {"predictor": data} | {key: msgspec.json.encode(value) for key, value in meta.items()}
        fill = None if scores is None else lambda made: StoredDetector.begin(made, scores)
        return cls(Path(path), schema.create(Path(path), encoded, streams, fill))

    @classmethod
    def open(cls, path: str | Path) -> Self:
        """Open the file of a watch."""
        return cls(Path(path), schema.connect(Path(path)))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with schema.store_errors(self.path):
            self._connection.close()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Write in one transaction; if it fails, drop the detector's state in memory too."""
        try:
            with schema.store_errors(self.path), schema.transaction(self._connection):
                yield
        except BaseException:
            self.detector.forget()
            raise

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Read a consistent state, whatever other processes write meanwhile."""
        with schema.store_errors(self.path), schema.transaction(self._connection, write=False):
            yield

    def add(self, rows: Predicted | None = None, outcomes: Outcomes = NO_OUTCOMES) -> Counts:
        """Add rows and outcomes in order of time, atomically; return counts by fate. Repeated rows are ignored."""
        return self.record(rows, outcomes)[0]

    def record(self, rows: Predicted | None, outcomes: Outcomes) -> tuple[Counts, dict[str, str]]:
        """As `add`; also return the fate of each outcome: counted, repeated, conflicting or early."""
        check_ids(outcomes.ids, outcomes.times, "outcomes")
        with self._writing():
            state, streams = self._state(), list[str]()
            width, last = state.width, state.last_day
            if rows is not None:
                width = self._check(rows, state)
                rows, streams = self._ledger.insert(rows)
            self._check_values(outcomes.values, width)
            settled, fates = self._ledger.settle(() if rows is None else rows.ids, outcomes)
            if streams or settled:
                last = self._ledger.apply(rows, streams, settled, last, width)
            unscored = rows is not None and rows.scores is None and self.detector.read() is not None
            counts = Counts(
                rows=len(streams),
                late=sum(outcome.time // DAY < state.last_day for outcome in settled),
                unscored=len(streams) if unscored else 0,
                **Counter(fates.values()) | {"counted": len(settled)},
            )
            self._write("state", replace(state, last_day=last, width=width, counts=state.counts.plus(counts)))
        return counts, fates

    def _check(self, rows: Predicted, state: State) -> int:
        """Refuse rows that do not fit this watch; return their number of classes."""
        check_ids(rows.ids, rows.times, "rows")
        old = np.flatnonzero(rows.times < state.purged * DAY)
        if len(old):  # their ids may have been counted and purged
            raise InputError(
                f"{abbreviate(rows.ids[int(old[0])])} was answered before {day_of(state.purged)}, and rows from before "
                "that day were purged; leave such rows out",
                where="rows",
            )
        if rows.kind != self.settings.kind:
            raise InputError(f"the watch is over {self.settings.kind}, and the rows have {rows.kind}")
        width = state.width if rows.sets is None else rows.sets.shape[1]
        if width != (state.width or width):  # unless the certificate states it, it is that of the first rows
            raise InputError(f"the sets are of {width} classes, the predictor has {state.width}")
        return width

    def _check_values(self, values: Floats, width: int) -> None:
        if self.settings.kind == "sets":
            if len(values) and not width:
                raise InputError(
                    "the number of classes is not known before the first rows; add rows first", where="outcomes"
                )
            valid, expected = (values >= 0) & (values < width), f"a class from 0 to {width - 1}"
        elif self.settings.kind == "losses":
            valid, expected = (values >= 0) & (values <= 1), "a loss from 0 to 1, that is divided by its bound"
        else:
            valid, expected = np.isfinite(values), "a finite number"
        if not valid.all():
            raise InputError(f"{values[~valid][0]:g} is not {expected}", where="outcomes")

    def _read(self, key: str, kind: type[T]) -> T:
        (value,) = self._connection.execute(META, (key,)).fetchone()
        return msgspec.json.decode(value, type=kind)

    def _write(self, key: str, value: object) -> None:
        self._connection.execute("UPDATE meta SET value = ? WHERE key = ?", (msgspec.json.encode(value), key))

    def _state(self) -> State:
        return self._read("state", State)

    def status(self) -> Status:
        """Return the current state."""
        with self._reading():
            state = self._state()
            return Status(
                streams=self._states(),
                counts=state.counts,
                days=self._days(),
                detector=self.detector.read(),
                changed=self.detector.changed(LAST_DAY),
            )

    def whole(self) -> StreamState:
        """Return the stream of all rows."""
        with self._reading():
            return self._ledger.states([0])[0]

    def _states(self) -> list[StreamState]:
        return [StreamState.from_row(row) for row in self._connection.execute("SELECT * FROM streams ORDER BY number")]

    @property
    def width(self) -> int:
        """Number of classes; 0 if unknown so far or without classes."""
        with self._reading():
            return self._state().width

    def _days(self) -> tuple[int, int] | None:
        first, last = self._connection.execute("SELECT min(day), max(day) FROM tallies WHERE stream = 0").fetchone()
        return None if first is None else (first, last)

    def _periods(self, span: Span) -> list[Period]:
        """Return the messages of a period: one for all rows, groups and classes, and one for each site."""
        first, last, since = span
        before, after = self._tallies(first - 1), self._tallies(last)
        before_parts = before if since is None or since == first else self._tallies(since - 1)
        overall: list[Stream] = []
        streams_by_site, withheld = [(self.settings.site or ALL_SITES, overall)], False
        for state in self._states():
            if state.kind == SITE and state.number not in after:
                continue
            if state.kind != WHOLE and since is None:
                withheld = True
                continue
            stream = Stream(
                limit=state.limit,
                false_alarm=state.false_alarm,
                failure=state.failure,
                before=(before if state.kind == WHOLE else before_parts).get(state.number, Tally()),
                after=after.get(state.number, Tally()),
                group={GROUP: state.name, CLASS: f"class={state.name}"}.get(state.kind, ""),
                alarm=state.alarm_day if state.alarm_day is not None and state.alarm_day <= last else None,
                changed=self.detector.changed(last) if state.kind == WHOLE else None,
            )
            if state.kind != SITE:
                overall.append(stream)
            else:
                streams_by_site.append((state.name, [stream]))
        if len(overall) > MOST_STREAMS:
            raise InputError(f"there are more than {MOST_STREAMS} groups, which is more than a message holds")
        digest = bytes.fromhex(self.settings.predictor)
        return [Period(digest, name, first, last, tuple(streams), withheld) for name, streams in streams_by_site]

    def _tallies(self, day: int) -> dict[int, Tally]:
        """Return the counts of each stream at the end of a day."""
        return {stream: Tally(*row) for stream, *row in self._connection.execute(TALLIES, (day,))}

    def sent(self) -> list[Period]:
        """Return the messages of all fixed periods, which never change."""
        with self._reading():
            return [period for span in self._read("sent", list[Span]) for period in self._periods(span)]

    def send(
        self,
        last: int | None = None,
        *,
        by_day: bool = False,
        least: int = 1,
        check: Callable[[Sequence[Period]], None] = lambda _: None,
    ) -> list[Period]:
        """Fix the next period and return the messages of all periods so far.

        A period begins on the day after the previous period, and later events count on a day after it: the difference
        of two overlapping periods would show single outcomes.

        Parameters
        ----------
        last
            Last day of the period; by default the last day with rows or outcomes.
        by_day
            Whether to fix one period per day, if these are few enough for a reader.
        least
            Minimum number of new outcomes of a group, class or site, and of its complement; else all are withheld.
        check
            Called with the new messages; if it raises, no period is fixed.
        """
        with self._writing():
            days, spans = self._days(), self._read("sent", list[Span])
            if days is None:
                raise InputError(f"{self.path}: nothing was added so far, so there is nothing to send")
            first, end = spans[-1].last + 1 if spans else days[0], days[1] if last is None else last
            if last is not None and last < first:
                raise InputError(f"{day_of(last)}: a period begins on {day_of(first)}, and a day is sent once")
            if end > max(days[1], int(clock.time() // DAY)):
                raise InputError(f"{day_of(end)}: is not over; a period ends today at the latest")
            new, days_left = list[Period](), end + 1 - first
            each = by_day and days_left <= MOST_MESSAGES - len(spans)
            for start in range(first, end + 1, 1 if each else max(days_left, 1)):
                stop = start if each else end
                since = next((one.last + 1 for one in reversed(spans) if one.since is not None), days[0])
                withheld = _has_small_parts(self._periods(Span(since, stop, since)), least)
                spans.append(Span(start, stop, None if withheld else since))
                new += self._periods(spans[-1])
            if new:
                check(new)
                self._write("sent", spans)
                state = self._state()
                self._write("state", replace(state, last_day=max(end + 1, state.last_day)))
            return [period for span in spans for period in self._periods(span)]

    def history(self) -> list[Period]:
        """Return the messages of all days so far, of several days each if there are many; empty without rows."""
        with self._reading():
            first, last = self._days() or (0, -1)
            step = -(-(last + 1 - first) // MOST_SPANS) or 1
            spans = [Span(day, min(last, day + step - 1), day) for day in range(first, last + 1, step)]
            return [period for span in spans for period in self._periods(span)]

    def check_for(self, digest: str) -> None:
        """Refuse a predictor other than the one of the watch."""
        if digest != self.settings.predictor:
            raise InputError(f"{self.path}: is bound to another predictor, whose SHA-256 is {self.settings.predictor}")

    def counted(self, ids: Sequence[str]) -> list[str]:
        """Return the ids that this watch holds, with or without an outcome; purged rows are not included."""
        with self._reading():
            return [name for name, _ in schema.looked_up(self._connection, THERE, list(ids))]

    def purge(self, before: int) -> Counts:
        """Delete rows answered before a day; those without an outcome still count as waiting, so as covered."""
        time = before * DAY
        with self._writing():
            query = "SELECT count(*) FROM rows WHERE time < ? AND outcome IS NULL"
            (waiting,) = self._connection.execute(query, (time,)).fetchone()
            rows = self._connection.execute("DELETE FROM rows WHERE time < ?", (time,)).rowcount
            self._connection.execute("DELETE FROM early WHERE time < ?", (time,))
            state, counts = self._state(), Counts(purged=rows, purged_waiting=waiting)
            self._write("state", replace(state, purged=max(before, state.purged), counts=state.counts.plus(counts)))
        with schema.store_errors(self.path):
            self._connection.execute("VACUUM")
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return counts


def _has_small_parts(periods: Sequence[Period], least: int) -> bool:
    """Return whether a part, or its complement, has at least one but fewer than `least` new outcomes."""
    whole, *parts = (stream.new for period in periods for stream in period.streams)
    return any(0 < few < least for new in parts for few in (new, whole - new))
